"""Listings with a tool that is none: the tool is left out, where the SDK would turn the whole listing down."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from spindle.tools.problems import printable

_METHOD = "tools/list"
_SCHEMAS = ("inputSchema", "outputSchema")
_FALLBACK_VERSION = "2025-11-25"
_MAX_NAME = 200

Message = SessionMessage | Exception


class MendedStream:
    """The messages of a server as they come, but for listings, which hold only tools that are some."""

    def __init__(self, inner: Any, version: Callable[[], str | None], tell: Callable[[str], None]) -> None:
        self._inner = inner
        self._version = version
        self._tell = tell

    @property
    def last_context(self) -> Any:
        """The context of who sent the last message, where the transport keeps it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Message:
        """Give the next message."""
        return self._mended(await self._inner.receive())

    async def aclose(self) -> None:
        """Close."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        return self._mended(await self._inner.__anext__())

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

    def _mended(self, item: Message) -> Message:
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            tools = result.get("tools")
            if isinstance(tools, list):
                version = self._version() or _FALLBACK_VERSION
                result["tools"] = only_tools(cast("list[Any]", tools), result, version, self._tell)
        return item


def only_tools(tools: list[Any], listing: dict[str, Any], version: str, tell: Callable[[str], None]) -> list[Any]:
    """Give the tools that the protocol knows as such; a type left out where it needs one means an object."""
    kept: list[Any] = []
    for tool in tools:
        mended, problem = tool, _problem(tool, listing, version)
        if problem is not None:
            mended, problem = _with_types(tool), _problem(_with_types(tool), listing, version)
        if problem is None:
            kept.append(mended)
        else:
            tell(f"a tool it lists is left out: {problem}")
    return kept


def _with_types(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    mended = dict(cast("dict[str, Any]", tool))
    for name in _SCHEMAS:
        schema = mended.get(name)
        if isinstance(schema, dict) and "type" not in schema:
            mended[name] = {"type": "object", **cast("dict[str, Any]", schema)}
    return mended


def _problem(tool: Any, listing: dict[str, Any], version: str) -> str | None:
    try:
        validate_server_result(_METHOD, version, {**listing, "tools": [tool]})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["loc"][:1] != ("tools",):
            return None  # the listing itself is wrong, and its own check says so
        known = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        place = ".".join(str(step) for step in first["loc"][2:]) or "all of it"
        return printable(f"{str(known.get('name'))!r:.80}: {place}: {first['msg']}", _MAX_NAME)
    except KeyError:
        return None
    return None
