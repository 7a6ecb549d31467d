"""Prompts and resources of a server of the official SDK, served beside the tools."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp.server.lowlevel import Server

from spindle.mcp.server.peer import Context

_PASSTHROUGH: Final = (
    *("prompts/list", "prompts/get", "completion/complete"),
    *("resources/list", "resources/templates/list", "resources/read"),
    *("resources/subscribe", "resources/unsubscribe"),
)
"""Methods that the server passed as `offers` may handle."""
_CONTENT: Final = ("prompts/get", "resources/read")
"""Those whose answers a model reads."""


def add_offers(sdk: Server[Any], offers: Server[Any] | None, on_read: Callable[[Context], Awaitable[None]]) -> None:
    """Let a server handle what another one offers; `on_read` is called before a model reads content of it."""
    for method in _PASSTHROUGH:
        entry = None if offers is None else offers.get_request_handler(method)
        if entry is not None:
            handler = _call_before(on_read, entry.handler) if method in _CONTENT else entry.handler
            sdk.add_request_handler(method, entry.params_type, handler)


def _call_before(
    on_read: Callable[[Context], Awaitable[None]], handler: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    async def handle(ctx: Context, params: Any) -> Any:
        await on_read(ctx)
        return await handler(ctx, params)

    return handle
