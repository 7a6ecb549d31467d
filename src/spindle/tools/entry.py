"""A tool as one registry knows it: the tool, and where it came from."""

from dataclasses import dataclass, field
from inspect import isroutine

from spindle.errors import InvalidToolError, UsageError
from spindle.tools.declaration import Tool
from spindle.tools.definitions import Definition

_MCP_PREFIX = "mcp__"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a registry; what travels with a tool through copies and merges."""

    tool: Tool
    definition: Definition = field(compare=False, repr=False)
    plugin_id: str | None = None
    hidden: bool = False
    """Not shown to the model, but it may be called."""
    mcp_server: str | None = None
    mcp_tool: str | None = None
    """The bare name the server knows the tool by."""

    @property
    def provenance(self) -> str:
        """Where the tool came from, for an error's text."""
        origin = self.tool.origin
        if self.plugin_id is not None:
            origin += f" of plugin {self.plugin_id!r}"
        if self.mcp_server is not None:
            origin += f" of MCP server {self.mcp_server!r}"
        return origin


def make_entry(tool: object, *, plugin_id: object = None, mcp: object = None) -> Entry:
    """Make the entry of a tool; without `mcp`, its name says whether an MCP server provides it.

    Raises:
        InvalidToolError: It is no `Tool`.
        UsageError: The plugin id or the MCP provenance is malformed.
    """
    if not Tool.is_tool(tool):
        raise InvalidToolError(f"only a Tool can be registered, not {_kind(tool)}; {_remedy(tool)}")
    if plugin_id is not None and not (isinstance(plugin_id, str) and plugin_id):
        raise UsageError(
            f"plugin_id is a text that is not empty, not {plugin_id!r:.80}", tool=tool.name, field="plugin_id"
        )
    server, bare_name = mcp_provenance(tool.name) if mcp is None else _mcp_pair(tool, mcp)
    return Entry(tool, Definition(tool), plugin_id=plugin_id, mcp_server=server, mcp_tool=bare_name)


def _mcp_pair(tool: Tool, mcp: object) -> tuple[str, str]:
    match mcp:
        case (str() as server, str() as bare_name):
            return server, bare_name
        case _:
            raise UsageError(f"mcp is a pair (server, tool) of texts, not {mcp!r:.80}", tool=tool.name, field="mcp")


def _kind(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else f"a {type(given).__name__}: {given!r:.80}"


def _remedy(given: object) -> str:
    return "decorate the function with @tool" if isroutine(given) else "make one with Tool(...) or @tool"


def mcp_provenance(name: str) -> tuple[str, str] | tuple[None, None]:
    """Read server and bare name out of `mcp__<server>__<tool>`; the bare name may contain `__`, the server may not."""
    if not name.startswith(_MCP_PREFIX):
        return None, None
    server, _, bare_name = name[len(_MCP_PREFIX) :].partition("__")
    return server, bare_name
