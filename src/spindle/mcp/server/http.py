"""The server over streamable HTTP: who may come in, and the page that says how it is."""

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
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104  nobody calls a server by these names


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpSettings:
    """Where the server listens, and who may come in.

    Raises:
        UsageError: It would be open to other machines without a token.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    path: str = "/mcp"
    tokens: Mapping[str, str | None] = field(default_factory=dict[str, str | None], repr=False)
    """The SHA-256 of each bearer token, in hexadecimal, and its profile; without any, everybody may come in."""
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or self.path == HEALTH:
            raise UsageError(f"the path begins with / and is not {HEALTH}, and this is {self.path!r}", field="path")
        if not self.tokens and not is_loopback(self.host):
            raise UsageError(
                f"{self.host} can be reached from other machines, so a bearer token is needed; "
                "give a profile a token, or listen on 127.0.0.1",
                field="tokens",
            )

    def security(self) -> TransportSecuritySettings:
        """Say which `Host` and `Origin` headers are let in: a page in a browser must not reach this server."""
        names = ["127.0.0.1", "localhost", "[::1]"]
        if self.host not in _EVERYWHERE:
            names.append(f"[{self.host}]" if ":" in self.host else self.host)
        return TransportSecuritySettings(
            allowed_hosts=[*(f"{name}:*" for name in names), *names, *self.allowed_hosts],
            allowed_origins=[*(f"http://{name}:*" for name in names), *self.allowed_origins],
        )


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_hash(token: str) -> str:
    """Give what a server keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def caller_of(ctx: Context) -> Caller:
    """Say who sent a request: its session, or on the newer protocol its token."""
    given: object = ctx.request
    if not isinstance(given, Request):
        return Caller(key="pipe")
    request = cast("Request[Any]", given)
    token = _token_of(request)
    profile = None if token is None else token.subject
    session = request.headers.get(_SESSION)
    # The newer protocol has no sessions: there nobody has looked whether the header tells the truth.
    if session is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return Caller(key=_name_of(token), profile=profile, has_session=False)
    return Caller(key=_session_key(session, token), profile=profile)


def _token_of(request: "Request[Any]") -> AccessToken | None:
    user = request.scope.get("user")
    return user.access_token if isinstance(user, AuthenticatedUser) else None


def _name_of(token: AccessToken | None) -> str:
    return "everybody" if token is None else f"token {token.client_id}"


def _session_key(session: str, token: AccessToken | None) -> str:
    # The key is written into the journal, from which nobody may take over a session.
    return f"session {token_hash(session)[:16]} of {_name_of(token)}"


def http_app(server: ToolServer, door: HttpSettings, *, health: Callable[[], Mapping[str, Any]] = dict) -> ASGIApp:
    """Make the web application: the MCP endpoint, and the health page."""

    async def healthy(request: Request) -> Response:
        user = request.scope.get("user")
        known = health()
        told: dict[str, Any] = {"status": known.get("status", "ok")}
        if not door.tokens or isinstance(user, AuthenticatedUser):
            told |= {"running_calls": server.running_calls, "sessions": server.sessions, **known}
        return JSONResponse(told, status_code=200 if told["status"] == "ok" else 503)

    app: Starlette = server.sdk.streamable_http_app(
        streamable_http_path=door.path,
        transport_security=door.security(),
        custom_starlette_routes=[Route(HEALTH, healthy, methods=["GET"])],
    )
    return _Guard(app, door, server.forget)


class _Guard:
    """Lets requests with a known token in, and says no word about which tokens there are."""

    def __init__(self, app: ASGIApp, door: HttpSettings, forget: Callable[[str], None]) -> None:
        self._app, self._door, self._forget = app, door, forget
        self._security = TransportSecurityMiddleware(door.security())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refused = await self._misled(request) or self._refused(request, scope)
        if request.method == "DELETE":
            send = self._forgetting(request, send)
        await (refused or self._app)(scope, receive, send)

    def _forgetting(self, request: Request, send: Send) -> Send:
        """Watch for the answer that says that a session has ended."""

        async def watching(message: Message) -> None:
            session = request.headers.get(_SESSION)
            if session is not None and message.get("status") == _DONE:
                self._forget(_session_key(session, _token_of(request)))
            await send(message)

        return watching

    async def _misled(self, request: Request) -> Response | None:
        """Refuse what came here by a name that is not ours."""
        for header, status in (("host", 421), ("origin", 403)):
            # The SDK looks at the beginning alone, and "localhost:80@elsewhere" begins well.
            if "@" in request.headers.get(header, "") or len(request.headers.getlist(header)) > 1:
                return Response(f"Invalid {header.title()} header", status_code=status)
        return await self._security.validate_request(request)

    def _refused(self, request: Request, scope: Scope) -> Response | None:
        if not self._door.tokens:
            return None
        given = request.headers.getlist("authorization")
        # Of two, a proxy in front may have looked at the other one.
        found = self._known(given[0]) if len(given) == 1 else None
        if found is not None:
            digest, profile = found
            # The SDK ties a session to who opened it; it compares these two.
            access = AccessToken(token=digest, client_id=digest[:16], scopes=[], subject=profile)
            scope["user"] = AuthenticatedUser(access)
            return None
        if scope["path"] == HEALTH:
            return None
        body = {"error": "unauthorized", "hint": "send Authorization: Bearer <token>; the server's owner has one"}
        return JSONResponse(body, status_code=401, headers={"WWW-Authenticate": 'Bearer realm="spindle"'})

    def _known(self, header: str) -> tuple[str, str | None] | None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        digest = token_hash(token.strip())
        # Every one is compared, so that the time tells nothing.
        matching = [known for known in self._door.tokens if hmac.compare_digest(known, digest)]
        return (matching[0], self._door.tokens[matching[0]]) if matching else None


REQUEST_TIMEOUT_SECONDS: Final = 30.0
"""A request must be there, whole, after one to two times this; how long an answer takes is another matter."""

_NOT_LOOKED: Final = object()


class IdleTimeoutProtocol(AutoHTTPProtocol):
    """HTTP for clients that get to the point."""

    cycle: Any  # what uvicorn keeps of a connection, whichever of its parsers is there
    loop: Any
    transport: Any
    _clock: asyncio.TimerHandle | None = None
    _seen: object = _NOT_LOOKED

    @override
    def connection_made(self, transport: Any) -> None:
        """Begin to look at the clock."""
        super().connection_made(transport)
        self._look()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._clock is not None:
            self._clock.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        cycle = self.cycle
        is_idle = cycle is None or cycle.response_complete or cycle.more_body
        # The same as last time: nothing was asked in between either.
        if is_idle and self._seen is cycle:
            self.transport.close()
            return
        self._seen = cycle if is_idle else _NOT_LOOKED
        self._clock = self.loop.call_later(REQUEST_TIMEOUT_SECONDS, self._look)
