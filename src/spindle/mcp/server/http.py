"""The server over streamable HTTP: authentication, Host and Origin checks, the health page, and request timeouts."""

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from spindle.errors import UsageError
from spindle.mcp.server.tool_server import Caller, Context, ToolServer

HEALTH: Final = "/health"
_SESSION: Final = "mcp-session-id"
_DONE: Final = 200
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104  compared with, not bound; no client uses them as a Host


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpSettings:
    """The address to listen on, and the clients to accept.

    Raises:
        UsageError: The path is invalid, or other machines could connect without a token.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    path: str = "/mcp"
    tokens: Mapping[str, str | None] = field(default_factory=dict[str, str | None], repr=False)
    """The hexadecimal SHA-256 of each bearer token → its profile; when empty, no token is required."""
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or self.path == HEALTH:
            raise UsageError(f"the path must start with / and differ from {HEALTH}, got {self.path!r}", field="path")
        if not self.tokens and not is_loopback(self.host):
            raise UsageError(
                f"{self.host} can be reached from other machines, so a bearer token is required; "
                "add a token to a profile, or listen on 127.0.0.1",
                field="tokens",
            )

    def build_security(self) -> TransportSecuritySettings:
        """Return the allowed `Host` and `Origin` headers: a web page in a browser must not reach this server."""
        names = ["127.0.0.1", "localhost", "[::1]"]
        if self.host not in _EVERYWHERE:
            names.append(f"[{self.host}]" if ":" in self.host else self.host)
        return TransportSecuritySettings(
            allowed_hosts=[*(f"{name}:*" for name in names), *names, *self.allowed_hosts],
            allowed_origins=[*(f"http://{name}:*" for name in names), *self.allowed_origins],
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_hash(token: str) -> str:
    """Return the SHA-256 hash of a token, which is all the server stores."""
    return hashlib.sha256(token.encode()).hexdigest()


def identify_caller(ctx: Context) -> Caller:
    """Return the sender of a request: its session, or on the newer protocol its token."""
    given: object = ctx.request
    if not isinstance(given, Request):
        return Caller(key="pipe")
    request = cast("Request[Any]", given)
    token = _get_token(request)
    profile = None if token is None else token.subject
    session = request.headers.get(_SESSION)
    # The newer protocol has no sessions, so the SDK has not verified the header there.
    if session is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return Caller(key=_describe_client(token), profile=profile, has_session=False)
    return Caller(key=_session_key(session, token), profile=profile)


def _get_token(request: "Request[Any]") -> AccessToken | None:
    user = request.scope.get("user")
    return user.access_token if isinstance(user, AuthenticatedUser) else None


def _describe_client(token: AccessToken | None) -> str:
    return "everybody" if token is None else f"token {token.client_id}"


def _session_key(session: str, token: AccessToken | None) -> str:
    # The key is written to the journal, which must not allow a session to be taken over.
    return f"session {token_hash(session)[:16]} of {_describe_client(token)}"


def http_app(server: ToolServer, door: HttpSettings, *, health: Callable[[], Mapping[str, Any]] = dict) -> ASGIApp:
    """Build the ASGI application: the MCP endpoint and the health page."""

    async def healthy(request: Request) -> Response:
        user = request.scope.get("user")
        known = health()
        told: dict[str, Any] = {"status": known.get("status", "ok")}
        if not door.tokens or isinstance(user, AuthenticatedUser):
            told |= {"running_calls": server.running_calls, "sessions": server.sessions, **known}
        return JSONResponse(told, status_code=200 if told["status"] == "ok" else 503)

    app: Starlette = server.sdk.streamable_http_app(
        streamable_http_path=door.path,
        transport_security=door.build_security(),
        custom_starlette_routes=[Route(HEALTH, healthy, methods=["GET"])],
    )
    return _AuthMiddleware(app, door, server.forget)


class _AuthMiddleware:
    """ASGI middleware that checks Host, Origin and the bearer token, without revealing which tokens exist."""

    def __init__(self, app: ASGIApp, settings: HttpSettings, forget: Callable[[str], None]) -> None:
        self._app, self._settings, self._forget = app, settings, forget
        self._security = TransportSecurityMiddleware(settings.build_security())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refused = await self._check_host_and_origin(request) or self._check_token(request, scope)
        if request.method == "DELETE":
            send = self._forget_on_delete(request, send)
        await (refused or self._app)(scope, receive, send)

    def _forget_on_delete(self, request: Request, send: Send) -> Send:
        """Wrap `send` to drop the session once its DELETE has succeeded."""

        async def watching(message: Message) -> None:
            session = request.headers.get(_SESSION)
            if session is not None and message.get("status") == _DONE:
                self._forget(_session_key(session, _get_token(request)))
            await send(message)

        return watching

    async def _check_host_and_origin(self, request: Request) -> Response | None:
        """Reject requests with a Host or Origin that is not allowed."""
        for header, status in (("host", 421), ("origin", 403)):
            # The SDK compares only the prefix, which "localhost:80@elsewhere" passes.
            if "@" in request.headers.get(header, "") or len(request.headers.getlist(header)) > 1:
                return Response(f"Invalid {header.title()} header", status_code=status)
        return await self._security.validate_request(request)

    def _check_token(self, request: Request, scope: Scope) -> Response | None:
        if not self._settings.tokens:
            return None
        given = request.headers.getlist("authorization")
        # With two headers, a proxy in front may have checked the other one.
        found = self._find_token(given[0]) if len(given) == 1 else None
        if found is not None:
            digest, profile = found
            # The SDK binds a session to the client that opened it by comparing client_id and subject.
            access = AccessToken(token=digest, client_id=digest[:16], scopes=[], subject=profile)
            scope["user"] = AuthenticatedUser(access)
            return None
        if scope["path"] == HEALTH:
            return None
        body = {
            "error": "unauthorized",
            "hint": "send Authorization: Bearer <token>; ask the server's owner for a token",
        }
        return JSONResponse(body, status_code=401, headers={"WWW-Authenticate": 'Bearer realm="spindle"'})

    def _find_token(self, header: str) -> tuple[str, str | None] | None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        digest = token_hash(token.strip())
        # Compare with every token, so that timing reveals nothing.
        matching = [known for known in self._settings.tokens if hmac.compare_digest(known, digest)]
        return (matching[0], self._settings.tokens[matching[0]]) if matching else None


REQUEST_TIMEOUT_SECONDS: Final = 30.0
"""A request must be complete within one to two times this; the response has no such limit."""

_NOT_CHECKED: Final = object()


class IdleTimeoutProtocol(AutoHTTPProtocol):
    """A uvicorn protocol that closes idle connections and slow requests (slowloris), which uvicorn does not."""

    cycle: Any  # set by uvicorn, with either of its parsers
    loop: Any
    transport: Any
    _timer: asyncio.TimerHandle | None = None
    _seen: object = _NOT_CHECKED

    @override
    def connection_made(self, transport: Any) -> None:
        """Start the idle check."""
        super().connection_made(transport)
        self._check_idle()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the idle check."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _check_idle(self) -> None:
        cycle = self.cycle
        is_idle = cycle is None or cycle.response_complete or cycle.more_body
        # The same cycle as at the last check: no request has completed in between.
        if is_idle and self._seen is cycle:
            self.transport.close()
            return
        self._seen = cycle if is_idle else _NOT_CHECKED
        self._timer = self.loop.call_later(REQUEST_TIMEOUT_SECONDS, self._check_idle)
