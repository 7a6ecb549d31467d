"""The older HTTP+SSE transport (2024-11-05): one GET stream for each client, to which its POSTs are answered.

The SDK moves the messages. Here are its sessions: who owns them, how many there are, and when they end.
"""

import re
from typing import Any, Final
from uuid import UUID

import anyio
from mcp.server.runner import serve_loop
from mcp.server.sse import SseServerTransport
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from spindle.mcp.server.http_callers import SSE_SESSION, build_session_key, get_token
from spindle.mcp.server.tool_server import ToolServer

IDLE_SECONDS: Final = 1_800.0
"""A session ends after so long without a message of its client, as those of the newer transport do."""
RETRY_SECONDS: Final = 30
_ID: Final = re.compile(rb"session_id=([0-9a-f]{32})")


def build_messages_path(path: str) -> str:
    """Return the path to which clients post their messages."""
    return f"{path.rstrip('/')}/messages"


class SseSessions:
    """The open sessions of the older transport."""

    def __init__(self, server: ToolServer, path: str, *, max_sessions: int, idle_seconds: float = IDLE_SECONDS) -> None:
        self._server, self._path, self._max_sessions = server, path, max_sessions
        self._idle_seconds = idle_seconds
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._open = 0
        # Checked before, more strictly than the SDK does.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._transport = SseServerTransport(build_messages_path(path), security_settings=security)

    def __len__(self) -> int:
        return self._open

    def build_routes(self) -> list[Route]:
        """Return the routes of the stream and of the messages."""
        return [
            Route(self._path, _AsgiRoute(self._connect), methods=["GET"]),
            Route(build_messages_path(self._path), _AsgiRoute(self._receive), methods=["POST"]),
        ]

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._open >= self._max_sessions or self._server.load.is_stopping:
            text = f"This server has {self._max_sessions} open sessions, which is the limit (max_sessions)."
            refusal = Response(text, status_code=503, headers={"Retry-After": str(RETRY_SECONDS)})
            await refusal(scope, receive, send)
            return
        self._open += 1
        opened: list[str] = []
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._idle_seconds) as scope_of_session:

                async def watch(message: Message) -> None:
                    if not opened and (found := _ID.search(message.get("body", b""))) is not None:
                        opened.append(found[1].decode())
                        self._scopes[opened[0]] = scope_of_session
                    await send(message)

                async with self._transport.connect_sse(scope, receive, watch) as (incoming, outgoing):
                    state = self._server.lifespan_state
                    await serve_loop(
                        self._server.sdk,
                        incoming,
                        outgoing,
                        lifespan_state=state,
                        init_options=self._server.options,
                    )
        finally:
            self._open -= 1
            for session in opened:
                self._scopes.pop(session, None)
                self._server.forget(build_session_key(session, get_token(Request(scope))))

    async def _receive(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = _normalize_id(Request(scope).query_params.get("session_id", ""))
        kept = self._scopes.get(session)
        if kept is not None:
            kept.deadline = anyio.current_time() + self._idle_seconds
        # The SDK accepts the message only for an open session of the same token.
        await self._transport.handle_post_message({**scope, SSE_SESSION: session}, receive, send)


def _normalize_id(given: str) -> str:
    """Return the one spelling of an id, as the SDK accepts several: each would be a client with limits of its own."""
    try:
        return UUID(hex=given).hex
    except ValueError:
        return given


class _AsgiRoute:
    """An ASGI application that a route accepts as such."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handle(scope, receive, send)
