"""A tool as one registry knows it: the tool, and where it came from."""

import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from inspect import isroutine
from typing import Any, TypedDict

from spindle.errors import InvalidToolError, UsageError
from spindle.events import Events
from spindle.tools.declaration import Tool


class ToolDefinition(TypedDict):
    """One tool as the model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]


class Definition:
    """A tool's definition as JSON, written on first use; every copy of a registry shares it."""

    __slots__ = ("_json", "_tool")

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._json: bytes | None = None

    @property
    def json(self) -> bytes:
        """The bytes: the same in every process."""
        if self._json is None:
            self._json = _write(self._tool)
        return self._json


def join(listed: Iterable[Definition]) -> bytes:
    """Put definitions together as one JSON list."""
    return b"[" + b",".join([definition.json for definition in listed]) + b"]"


def fresh(listed: Iterable[Definition]) -> list[ToolDefinition]:
    """Give definitions as plain data of the caller's own; changing it changes nothing else."""
    # Reading the kept bytes is several times cheaper than a deep copy, and as fresh.
    return json.loads(join(listed))


def _write(tool: Tool) -> bytes:
    told = tool.describe()
    definition = {"name": told["name"], "description": told["description"], "parameters": told["input_schema"]}
    try:
        text = json.dumps(definition, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        message = f"the tool {tool.name!r} cannot be described in JSON: {error}; look for it in its schema's defaults"
        raise InvalidToolError(message, tool=tool.name, field="input_schema") from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8; escaped, it still travels.
        return json.dumps(definition, separators=(",", ":")).encode()


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


_UNOBSERVED = Events()
"""Warnings sent here end in the log."""


def is_available(tool: Tool, events: Events | None = None) -> bool:
    """Ask the tool; one that fails to answer counts as unavailable, and that is reported as a warning."""
    ask = tool.is_available
    return ask is None or _answer(tool.name, ask, events or _UNOBSERVED)


def _answer(name: str, ask: Callable[[], object], events: Events) -> bool:
    try:
        answer = ask()
        if not inspect.isawaitable(answer):
            return bool(answer)
    except Exception as error:  # noqa: BLE001  a guard that raises refuses, whatever it raised
        message = f"the tool {name!r} counts as unavailable: its is_available raised {type(error).__name__}"
        events.warn(message, source="is_available", error=error)
        return False
    # Never awaited, an awaitable would be taken for a yes.
    if inspect.iscoroutine(answer):
        answer.close()
    events.warn(
        f"the tool {name!r} counts as unavailable: its is_available gave an awaitable; it must answer at once",
        source="is_available",
    )
    return False
