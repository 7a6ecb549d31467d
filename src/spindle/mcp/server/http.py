"""The server over streamable HTTP: authentication, Host and Origin checks, limits of requests, and the health page."""

import json
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, TypeAlias

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CLIENT_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spindle.errors import UsageError
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.mcp import server as doors
from spindle.mcp.oauth.settings import ResourceSettings
from spindle.mcp.server.http_callers import (
    SESSION_HEADER,
    build_session_key,
    describe_client,
    get_token,
    hash_names,
)
from spindle.mcp.server.http_checks import RequestRates, is_listed, parse_host, parse_origin
from spindle.mcp.server.http_page import PageRoute, build_refusal
from spindle.mcp.server.http_tokens import TokenCheck, build_busy
from spindle.mcp.server.replicas import Replica
from spindle.mcp.server.sessions import Caller
from spindle.mcp.server.shared_records import SharedRecords
from spindle.mcp.server.shared_sessions import SharedSessions
from spindle.mcp.server.sse import SseSessions, build_messages_path
from spindle.mcp.server.tool_server import ToolServer
from spindle.text import to_printable

if TYPE_CHECKING:  # it needs the extra `oauth`
    from spindle.mcp.server.http_oauth import ResourceServer

HEALTH: Final = "/health"
METRICS: Final = "/metrics"
MetricsAnswer: TypeAlias = tuple[int, str, bytes]
"""The status, the content type and the content of the page /metrics."""
_DONE: Final = 200
_REFUSED: Final = 400
_UNAVAILABLE: Final = 503
_SESSION_SECONDS: Final = 30
_MAX_PEEKED_BYTES: Final = 4 << 20
EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104  compared with, not bound; no client uses them as a Host


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpSettings:
    """The address to listen on, and the clients to accept.

    Raises:
        UsageError: The path is invalid, or other machines could connect without a token.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    path: str = "/mcp"
    sse_path: str | None = None
    """Where clients of the older HTTP+SSE transport connect; `None` to serve none."""
    tokens: Mapping[str, str | None] = field(default_factory=dict[str, str | None], repr=False)
    """The hexadecimal SHA-256 of each bearer token → its profile; without them and `oauth`, no token is required."""
    oauth: ResourceSettings | None = None
    """The tokens of an authorization server to accept."""
    allowed_hosts: Sequence[str] = ()
    """Further `Host` headers to accept: `name`, `name:port`, or `name:*` for any port."""
    allowed_origins: Sequence[str] = ()
    """Further `Origin` headers to accept: `https://name`, with a port, or `:*` for any port."""
    tls_certificate: str | None = None
    """The file of the certificate and its chain (PEM); together with `tls_key`, the server speaks HTTPS only."""
    tls_key: str | None = None
    max_sessions: int = 1_000
    """Beyond this many open sessions, opening another one is refused."""
    max_requests_per_minute: int | None = 6_000
    """Limit for each token; `None` for no limit. Without tokens there is none."""

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or self.path in (HEALTH, METRICS):
            others = f"{HEALTH} and {METRICS}"
            raise UsageError(f"the path must start with / and differ from {others}, got {self.path!r}", field="path")
        self._check_sse_path()
        if not self.needs_token and not is_loopback(self.host):
            raise UsageError(
                f"{self.host} can be reached from other machines, so a bearer token is required; "
                "add a token to a profile, set [server.oauth], or listen on 127.0.0.1",
                field="tokens",
            )

        for name in ("max_sessions", "max_requests_per_minute"):
            value: object = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"{name} must be a whole number of at least 1, got {value!r}", field=name)
        for name, entries in (("allowed_hosts", self.allowed_hosts), ("allowed_origins", self.allowed_origins)):
            for entry in entries:
                if (parse_host(entry) if name == "allowed_hosts" else parse_origin(entry)) is None:
                    example = "gateway.example:8321" if name == "allowed_hosts" else "https://app.example"
                    raise UsageError(f"{name} has an invalid entry {entry!r:.80}; write it as {example}", field=name)
        self._check_tls()

    def _check_sse_path(self) -> None:
        path = self.sse_path
        taken = {HEALTH, METRICS, self.path}
        if path is not None and (not path.startswith("/") or path in taken or build_messages_path(path) in taken):
            raise UsageError(
                f"the SSE path must start with / and differ from {HEALTH} and {self.path}, got {path!r}",
                field="sse_path",
            )

    def _check_tls(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_certificate"
            raise UsageError(f"{missing} is missing: TLS needs tls_certificate and tls_key", field=missing)
        if self.tls_certificate is None:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_certificate, self.tls_key)
        except OSError as error:  # also ssl.SSLError
            why = error.strerror or "they do not belong together, or are not PEM files"
            raise UsageError(
                f"tls_certificate and tls_key cannot be used ({self.tls_certificate}, {self.tls_key}): {why}",
                field="tls_certificate",
            ) from error

    @property
    def needs_token(self) -> bool:
        """Whether requests must have a token."""
        return bool(self.tokens) or self.oauth is not None

    @property
    def scheme(self) -> str:
        """The scheme of its URL: `http`, or `https` with a certificate."""
        return "http" if self.tls_certificate is None else "https"

    def build_security(self) -> TransportSecuritySettings:
        """Return the allowed `Host` and `Origin` headers: a web page in a browser must not reach this server."""
        names = ["127.0.0.1", "localhost", "[::1]"]
        if self.host not in EVERYWHERE:
            names.append(f"[{self.host}]" if ":" in self.host else self.host)
        return TransportSecuritySettings(
            allowed_hosts=[*(f"{name}:*" for name in names), *names, *self.allowed_hosts],
            allowed_origins=[*(f"{self.scheme}://{name}:*" for name in names), *self.allowed_origins],
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def http_app(
    server: ToolServer,
    settings: HttpSettings,
    *,
    health: Callable[[], Mapping[str, JsonValue]] = dict,
    shared: SharedRecords | None = None,
    metrics: Callable[[], Awaitable[MetricsAnswer]] | None = None,
    refusals: Counter[int] | None = None,
    page: "PageRoute | None" = None,
) -> ASGIApp:
    """Build the ASGI application: the MCP endpoint, the pages /health and, if given, /metrics, and another application.

    `shared` is what the server has. `refusals` counts the requests that were refused before, by their status. `page`
    gets requests whose Host and Origin were checked, and checks itself who sends them; a valid token is noted.
    """

    async def healthy(request: Request) -> Response:
        user = request.scope.get("user")
        known = health()
        answer: JsonObject = {"status": known.get("status", "ok")}
        if not settings.needs_token or isinstance(user, AuthenticatedUser):
            answer |= {"running_calls": server.load.running, "sessions": server.sessions, **known}
            if shared is not None:
                answer["replicas"] = 1 + shared.replica.others
        if shared is not None and server.load.is_stopping:
            answer["status"] = "stopping"  # so that a balancer sends no more requests here
        return JSONResponse(answer, status_code=200 if answer["status"] == "ok" else 503)

    async def measured(_request: Request) -> Response:
        status, kind, content = (404, "text/plain", b"not found\n") if metrics is None else await metrics()
        return Response(content, status_code=status, headers={"Content-Type": kind})

    resource = None if settings.oauth is None else _build_resource(settings, settings.oauth)
    more: list[Route] = [] if resource is None else resource.build_routes()
    if settings.sse_path is not None:
        more += SseSessions(server, settings.sse_path, max_sessions=settings.max_sessions).build_routes()
    app: Starlette = server.sdk.streamable_http_app(
        streamable_http_path=settings.path,
        # Checked before, more strictly than the SDK does.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_sessions=settings.max_sessions,
        custom_starlette_routes=[
            Route(HEALTH, healthy, methods=["GET"]),
            Route(METRICS, measured, methods=["GET"]),
            *more,
        ],
    )
    if shared is None:
        return _AuthMiddleware(app, settings, server, refusals=refusals, resource=resource, page=page)
    sessions = SharedSessions(app, server, shared, path=settings.path, max_sessions=settings.max_sessions)
    replica = shared.replica
    return _AuthMiddleware(sessions, settings, server, replica=replica, refusals=refusals, resource=resource, page=page)


def _build_resource(settings: HttpSettings, oauth: ResourceSettings) -> "ResourceServer":
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    # No client uses the address of all networks.
    address = "" if settings.host in EVERYWHERE else f"{settings.scheme}://{host}:{settings.port}{settings.path}"
    return doors.ResourceServer(oauth, address=address)


class _AuthMiddleware:
    """ASGI middleware that checks Host, Origin and the bearer token, without revealing which tokens exist."""

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        server: ToolServer,
        *,
        replica: Replica | None = None,
        refusals: Counter[int] | None = None,
        resource: "ResourceServer | None" = None,
        page: "PageRoute | None" = None,
    ) -> None:
        self._app, self._settings, self._server = app, settings, server
        self._page = page
        self._refusals: Counter[int] = Counter() if refusals is None else refusals
        open_paths = (HEALTH, *(() if resource is None else resource.paths))
        self._tokens = TokenCheck(settings.tokens, resource, is_open=self._is_open(open_paths))
        security = settings.build_security()
        self._hosts = [parse_host(entry) for entry in security.allowed_hosts]
        self._origins = [parse_origin(entry) for entry in security.allowed_origins]
        self._replica = replica
        report = None if replica is None else self._report_requests
        self._rates = RequestRates(settings.max_requests_per_minute, report=report)
        if replica is not None:
            replica.on("requests", self._hear_of_requests)

    def _is_open(self, paths: Sequence[str]) -> Callable[[str], bool]:
        page = self._page
        return lambda path: path in paths or (page is not None and page.owns(path))

    def _report_requests(self, key: str, requests: int) -> None:
        if self._replica is not None:
            self._replica.post("requests", {"token": key, "requests": requests})

    async def _hear_of_requests(self, content: JsonObject) -> None:
        self._rates.spend(str(content["token"]), int(content["requests"]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refused = self._check_host_and_origin(request)
        if self._page is not None and scope["path"] == self._settings.path:
            refused = refused or self._page.redirect_browser(request)
        refused = refused or await self._tokens.check(request, scope)
        refused = refused or self._check_rate(request) or self._check_stopping(scope)
        if refused is None and request.method == "POST" and scope["path"] == self._settings.path:
            send = self._explain_session_limit(scope, receive, send)
            if self._server.load.has_full_clients:
                refused, receive = await self._check_calls(request, receive)
        if refused is not None and refused.status_code >= _REFUSED:
            self._refusals[refused.status_code] += 1
        if request.method == "DELETE":
            send = self._forget_on_delete(request, send)
        is_page = self._page is not None and self._page.owns(scope["path"])
        await (refused or (self._page.app if self._page is not None and is_page else self._app))(scope, receive, send)

    def _check_stopping(self, scope: Scope) -> Response | None:
        """Refuse requests while the server stops, if there are replicas to which a balancer can send them."""
        if self._replica is None or not self._server.load.is_stopping or scope["path"] in (HEALTH, METRICS):
            return None
        return build_busy("This replica is stopping.", 1, status=_UNAVAILABLE)

    def _check_rate(self, request: Request) -> Response | None:
        token = get_token(request)
        seconds = 0 if token is None else self._rates.count(token.client_id)
        if not seconds:
            return None
        limit = self._settings.max_requests_per_minute
        return build_busy(
            f"This token has sent more than {limit} requests in a minute (max_requests_per_minute).", seconds
        )

    async def _check_calls(self, request: Request, receive: Receive) -> tuple[Response | None, Receive]:
        """Refuse a call of a client that has too many in progress; what was read of the request is replayed."""
        messages: list[Message] = []
        while not messages or messages[-1].get("more_body"):
            messages.append(await receive())
            if sum(len(each.get("body", b"")) for each in messages) > _MAX_PEEKED_BYTES:
                break
        played = iter(messages)

        async def replay() -> Message:
            following = next(played, None)
            return await receive() if following is None else following

        conversation, request_id = _find_call(request, b"".join(each.get("body", b"") for each in messages))
        if conversation is None or not self._server.load.is_full(conversation):
            return None, replay
        return build_busy(self._server.load.explain_full(), 1, request_id), replay

    def _explain_session_limit(self, scope: Scope, receive: Receive, send: Send) -> Send:
        """Wrap `send` to replace the SDK's refusal of another session by one that says when to come back."""
        is_refused = False

        async def explaining(message: Message) -> None:
            nonlocal is_refused
            is_limit = not self._server.load.is_stopping and message.get("status") == _UNAVAILABLE
            if message["type"] == "http.response.start" and is_limit:
                is_refused = True
                text = (
                    f"This server has {self._settings.max_sessions} open sessions, which is the limit (max_sessions)."
                )
                await build_busy(text, _SESSION_SECONDS, status=_UNAVAILABLE)(scope, receive, send)
            elif not is_refused:
                await send(message)

        return explaining

    def _forget_on_delete(self, request: Request, send: Send) -> Send:
        """Wrap `send` to drop the session once its DELETE has succeeded."""

        async def watching(message: Message) -> None:
            session = request.headers.get(SESSION_HEADER)
            if session is not None and message.get("status") == _DONE:
                self._server.forget(build_session_key(session, get_token(request)))
            await send(message)

        return watching

    def _check_host_and_origin(self, request: Request) -> Response | None:
        """Reject requests with a Host or Origin that is not allowed."""
        hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
        host = parse_host(hosts[0]) if len(hosts) == 1 else None
        if host is None or not is_listed(host, self._hosts):
            shown = to_printable(hosts[0] if hosts else "", 100)
            hint = f"Add {shown!r} to allowed_hosts" if host is not None else "Send one valid Host header"
            return build_refusal(f"Host {shown!r} is not allowed here. {hint}, or use the server's address.", 421)
        if not origins:
            return None
        origin = parse_origin(origins[0]) if len(origins) == 1 else None
        same_scheme = [each[1] for each in self._origins if each is not None and origin and each[0] == origin[0]]
        if origin is None or not is_listed(origin[1], same_scheme):
            shown = to_printable(origins[0], 100)
            return build_refusal(f"Origin {shown!r} is not allowed here; see allowed_origins.", 403)
        return None


def _find_call(request: Request, body: bytes) -> tuple[str | None, JsonValue]:
    """Return the conversation and the id of a request that starts a call; no conversation for any other request."""
    try:
        message: object = json.loads(body)
    except (ValueError, RecursionError):
        return None, None
    params = message.get("params") if is_object(message) else None
    if not is_object(message) or message.get("method") != "tools/call" or not is_object(params):
        return None, None
    token, session = get_token(request), request.headers.get(SESSION_HEADER)
    if params.get("requestState") is not None:
        return None, None
    if session is not None and request.headers.get("mcp-protocol-version") not in MODERN_PROTOCOL_VERSIONS:
        return build_session_key(session, token), message.get("id")
    meta = params.get("_meta")
    info = meta.get(CLIENT_INFO_META_KEY) if is_object(meta) else None
    client = hash_names(info.get("name"), info.get("version")) if is_object(info) else hash_names()
    return Caller(key=describe_client(token), client=client).conversation, message.get("id")
