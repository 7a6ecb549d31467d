"""The entries of a registry: a tool with its origin, its JSON definition, and its availability check."""

import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from inspect import isroutine
from typing import TypedDict

from spindle.errors import InvalidToolError, UsageError
from spindle.events import Events
from spindle.json_types import JsonObject
from spindle.tools.declaration import Tool


class ToolDefinition(TypedDict):
    """The definition of one tool as sent to a model."""

    name: str
    description: str
    parameters: JsonObject


class SerializedDefinition:
    """A tool's definition as JSON, serialized on first use and shared by all copies of a registry."""

    __slots__ = ("_error", "_json", "_tool")

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._json: bytes | None = None
        self._error: InvalidToolError | None = None

    @property
    def json(self) -> bytes:
        """The serialized definition; the same bytes in every process."""
        if self._json is None:
            self._json = _write(self._tool)
        return self._json

    @property
    def written(self) -> bytes | None:
        """The definition if it was serialized already, which is done before a model sees it."""
        return self._json

    def find_error(self) -> InvalidToolError | None:
        """Return why the tool cannot be described, or `None`; the answer is kept."""
        if self._json is None and self._error is None:
            try:
                self._json = _write(self._tool)
            except InvalidToolError as error:
                self._error = error
            except Exception as error:  # noqa: BLE001  building a schema runs the code of its types
                self._error = InvalidToolError(
                    f"Tool {self._tool.name!r}: its schema cannot be built: it raised {type(error).__name__}.",
                    tool=self._tool.name,
                    field="input_schema",
                )
                self._error.__cause__ = error
        return self._error


def join_definitions(listed: Iterable[SerializedDefinition]) -> bytes:
    """Join definitions into one JSON list."""
    return b"[" + b",".join([definition.json for definition in listed]) + b"]"


def load_definitions(listed: Iterable[SerializedDefinition]) -> list[ToolDefinition]:
    """Return definitions as fresh plain data that the caller may change."""
    # Parsing the cached bytes is several times cheaper than a deep copy.
    return json.loads(join_definitions(listed))


def _write(tool: Tool) -> bytes:
    parts = tool.describe()
    definition = {"name": parts["name"], "description": parts["description"], "parameters": parts["input_schema"]}
    try:
        text = json.dumps(definition, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        message = f"Tool {tool.name!r} cannot be described in JSON: {error}. Check the defaults in its schema."
        raise InvalidToolError(message, tool=tool.name, field="input_schema") from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded as UTF-8, but can be escaped.
        return json.dumps(definition, separators=(",", ":")).encode()


_MCP_PREFIX = "mcp__"


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a registry: a tool with the data that copies and merges preserve."""

    tool: Tool
    definition: SerializedDefinition = field(compare=False, repr=False)
    plugin_id: str | None = None
    hidden: bool = False
    """Whether it is left out of the definitions; it may still be called."""
    mcp_server: str | None = None
    mcp_tool: str | None = None
    """The name that the MCP server uses for the tool."""

    @property
    def provenance(self) -> str:
        """The tool's origin, for error messages."""
        origin = self.tool.origin
        if self.plugin_id is not None:
            origin += f" of plugin {self.plugin_id!r}"
        if self.mcp_server is not None:
            origin += f" of MCP server {self.mcp_server!r}"
        return origin


def build_entry(tool: object, *, plugin_id: object = None, mcp: object = None) -> Entry:
    """Build the registry entry of a tool; without `mcp`, the MCP provenance is parsed from its name.

    Raises:
        InvalidToolError: `tool` is not a `Tool`.
        UsageError: The plugin id or the MCP provenance is malformed.
    """
    if not Tool.is_tool(tool):
        raise InvalidToolError(f"Expected a Tool to register, got {_kind(tool)}. {_remedy(tool)}")
    if plugin_id is not None and not (isinstance(plugin_id, str) and plugin_id):
        raise UsageError(
            f"Expected plugin_id as a non-empty str, got {plugin_id!r:.80}.", tool=tool.name, field="plugin_id"
        )
    server, bare_name = parse_mcp_name(tool.name) if mcp is None else _mcp_pair(tool, mcp)
    return Entry(tool, SerializedDefinition(tool), plugin_id=plugin_id, mcp_server=server, mcp_tool=bare_name)


def _mcp_pair(tool: Tool, mcp: object) -> tuple[str, str]:
    match mcp:
        case (str() as server, str() as bare_name):
            return server, bare_name
        case _:
            raise UsageError(
                f"Expected mcp as a pair (server, tool) of str, got {mcp!r:.80}.", tool=tool.name, field="mcp"
            )


def _kind(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else f"a {type(given).__name__}: {given!r:.80}"


def _remedy(given: object) -> str:
    return "Decorate the function with @tool." if isroutine(given) else "Create one with Tool(...) or @tool."


def parse_mcp_name(name: str) -> tuple[str, str] | tuple[None, None]:
    """Parse server and tool name from `mcp__<server>__<tool>`; the tool name may contain `__`, the server may not."""
    if not name.startswith(_MCP_PREFIX):
        return None, None
    server, _, bare_name = name[len(_MCP_PREFIX) :].partition("__")
    return server, bare_name


_UNOBSERVED = Events()
"""Events without observers: its warnings go to the log."""


def is_available(tool: Tool, events: Events | None = None) -> bool:
    """Return whether a tool is available; if its check fails it is not, and a warning is emitted."""
    ask = tool.is_available
    return ask is None or _answer(tool.name, ask, events or _UNOBSERVED)


def is_describable(entry: Entry, events: Events | None = None) -> bool:
    """Return whether a definition of the tool can be written; otherwise a warning is emitted."""
    error = entry.definition.find_error()
    if error is not None:
        message = f"the tool {entry.tool.name!r} is left out of the definitions: {error}"
        (events or _UNOBSERVED).warn(message, source="definitions", error=error)
    return error is None


def _answer(name: str, ask: Callable[[], object], events: Events) -> bool:
    try:
        answer = ask()
        if not inspect.isawaitable(answer):
            return bool(answer)
    except Exception as error:  # noqa: BLE001  a guard that raises anything rejects
        message = f"the tool {name!r} counts as unavailable: its is_available raised {type(error).__name__}"
        events.warn(message, source="is_available", error=error)
        return False
    # An awaitable is truthy, so it must not be used as the answer.
    if inspect.iscoroutine(answer):
        answer.close()
    events.warn(
        f"the tool {name!r} counts as unavailable: its is_available returned an awaitable; it must be synchronous",
        source="is_available",
    )
    return False
