"""`InvalidToolFilter`: drops invalid definitions of tools, prompts and resources from the listings of a server."""

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import to_printable

_METHODS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
"""The method whose result lists entries under each key."""
_SCHEMAS = ("inputSchema", "outputSchema")
_FALLBACK_VERSION = "2025-11-25"
_MAX_NAME = 200

Message = SessionMessage | Exception


class InvalidToolFilter:
    """A message stream that drops invalid tools from listings; the SDK would reject the whole list."""

    def __init__(self, inner: Any, version: Callable[[], str | None], warn: Callable[[str], None]) -> None:
        self._inner = inner
        self._version = version
        self._warn = warn

    @property
    def last_context(self) -> object:
        """The sender's context of the last message, where the transport keeps it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Message:
        """Return the next message."""
        return self._filter_listing(await self._inner.receive())

    async def aclose(self) -> None:
        """Close the inner stream."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        return self._filter_listing(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)

    def _filter_listing(self, item: Message) -> Message:
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            version = self._version() or _FALLBACK_VERSION
            for key in _METHODS:
                listed = result.get(key)
                if is_array(listed):
                    keep = keep_valid_tools if key == "tools" else partial(_keep_valid, key)
                    result[key] = keep(listed, result, version, self._warn)
        return item


def keep_valid_tools(
    tools: list[JsonValue], listing: JsonObject, version: str, warn: Callable[[str], None]
) -> list[JsonValue]:
    """Return the valid tools of a listing; a schema without `type` is taken as an object."""
    kept: list[JsonValue] = []
    for tool in tools:
        repaired, problem = tool, _problem("tools", tool, listing, version)
        if problem is not None:
            repaired, problem = _with_types(tool), _problem("tools", _with_types(tool), listing, version)
        if problem is None:
            kept.append(repaired)
        else:
            warn(f"an invalid tool is left out: {problem}")
    return kept


def _keep_valid(
    key: str, entries: list[JsonValue], listing: JsonObject, version: str, warn: Callable[[str], None]
) -> list[JsonValue]:
    kept: list[JsonValue] = []
    for entry in entries:
        problem = _problem(key, entry, listing, version)
        if problem is None:
            kept.append(entry)
        else:
            warn(f"an invalid entry of {_METHODS[key]} is left out: {problem}")
    return kept


def _with_types(tool: JsonValue) -> JsonValue:
    if not is_object(tool):
        return tool
    repaired = dict(tool)
    for name in _SCHEMAS:
        schema = repaired.get(name)
        if is_object(schema) and "type" not in schema:
            repaired[name] = {"type": "object", **schema}
    return repaired


def _problem(key: str, tool: JsonValue, listing: JsonObject, version: str) -> str | None:
    try:
        validate_server_result(_METHODS[key], version, {**listing, key: [tool]})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["loc"][:1] != (key,):
            return None  # the listing itself is invalid, which the SDK reports
        known = tool if is_object(tool) else {}
        place = ".".join(str(step) for step in first["loc"][2:]) or "definition"
        return to_printable(f"{str(known.get('name'))!r:.80}: {place}: {first['msg']}", _MAX_NAME)
    except KeyError:
        return None
    return None
