"""An authorization server and protected MCP servers on loopback, in threads of this process."""

import base64
import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from anyio import to_thread
from joserfc import jwt
from joserfc.jwk import ECKey

from spindle.execution import StateKey
from spindle.mcp import ServerSpec
from spindle.mcp.oauth import Logins, LoginSettings, TokenStore


@dataclass(frozen=True)
class Received:
    """One request, as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))


@dataclass(frozen=True)
class Reply:
    status: int = 200
    content: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])


@contextmanager
def listening(answer: Callable[[Received], Reply]) -> Generator[tuple[str, list[Received]]]:
    """Serve on a free port; give the address and the list of requests."""
    received: list[Received] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Received(self.command, parts.path, query, headers, body)
            received.append(request)
            reply = answer(request)
            data = reply.content if isinstance(reply.content, bytes) else json.dumps(reply.content).encode()
            self.send_response(reply.status)
            for name, value in {"content-type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = handle_any

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # a client has left
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Issuer:
    """A small authorization server: metadata, keys, registration, codes with PKCE, rotating refresh tokens."""

    def __init__(self) -> None:
        self.url = ""
        self.keys = [make_key("k1")]
        self.user = "alice"
        """Who is logged in at its pages, and consents to everything."""
        self.expires_in = 3_600
        self.metadata: dict[str, Any] = {}
        """What its metadata says differently."""
        self.extra: dict[str, Any] = {}
        """What the redirect says differently; `None` leaves a parameter out."""
        self.refuses_refresh = False
        self.requests: list[Received] = []
        self.access: dict[str, tuple[str, str]] = {}
        """Access token → user and resource."""
        self.refreshable: dict[str, tuple[str, str]] = {}
        self._codes: dict[str, tuple[dict[str, str], str]] = {}
        self._lock = threading.Lock()

    def count(self, path: str) -> int:
        return sum(request.path == path for request in self.requests)

    def make_token(self, key: ECKey | None = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Sign a token; a claim that is `None` is left out."""
        now = int(time.time())
        full: dict[str, Any] = {
            "iss": self.url,
            "sub": "alice",
            "aud": "http://127.0.0.1/mcp",
            "exp": now + 600,
            "iat": now,
        }
        full |= {"scope": "tools"}
        kept = {name: value for name, value in (full | claims).items() if value is not None}
        signer = self.keys[0] if key is None else key
        return jwt.encode({"alg": "ES256", "kid": signer.kid, **(header or {})}, kept, signer)

    def answer(self, request: Received) -> Reply:
        with self._lock:
            match request.path:
                case "/.well-known/oauth-authorization-server":
                    return Reply(content=self._describe())
                case "/jwks":
                    return Reply(content={"keys": [key.as_dict(private=False) for key in self.keys]})
                case "/register":
                    asked = json.loads(request.body)
                    return Reply(201, {**asked, "client_id": f"client-{token_urlsafe(8)}"})
                case "/authorize":
                    return self._authorize(request.query)
                case "/token":
                    return self._issue(request.form)
                case _:
                    return Reply(404)

    def _describe(self) -> dict[str, Any]:
        own = {"authorization_endpoint": "authorize", "token_endpoint": "token", "registration_endpoint": "register"}
        found: dict[str, Any] = {name: f"{self.url}/{path}" for name, path in own.items()}
        found |= {"issuer": self.url, "jwks_uri": f"{self.url}/jwks", "code_challenge_methods_supported": ["S256"]}
        found |= {"authorization_response_iss_parameter_supported": True, "scopes_supported": ["tools"]}
        found["token_endpoint_auth_methods_supported"] = ["none", "client_secret_post"]
        return {name: value for name, value in (found | self.metadata).items() if value is not None}

    def _authorize(self, query: dict[str, str]) -> Reply:
        code = token_urlsafe(16)
        self._codes[code] = query, self.user
        facts = {"code": code, "state": query["state"], "iss": self.url} | self.extra
        kept = {name: value for name, value in facts.items() if value is not None}
        return Reply(302, headers={"location": f"{query['redirect_uri']}?{urlencode(kept)}"})

    def _issue(self, form: dict[str, str]) -> Reply:
        if form.get("grant_type") == "authorization_code":
            query, user = self._codes.pop(form.get("code", ""), ({}, ""))
            digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            named = ("client_id", "redirect_uri", "resource")
            if query.get("code_challenge") != challenge or any(form.get(name) != query.get(name) for name in named):
                return Reply(400, {"error": "invalid_grant"})
            resource = query["resource"]
        else:
            user, resource = self.refreshable.pop(form.get("refresh_token", ""), ("", ""))
            if not user or self.refuses_refresh or form.get("resource") != resource:
                return Reply(400, {"error": "invalid_grant"})
        access, refresh = f"at-{user}-{token_urlsafe(24)}", f"rt-{user}-{token_urlsafe(24)}"
        self.access[access], self.refreshable[refresh] = (user, resource), (user, resource)
        issued = {"access_token": access, "token_type": "bearer", "expires_in": self.expires_in}
        return Reply(content={**issued, "refresh_token": refresh, "scope": "tools"})


def make_key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", parameters={"kid": kid, "use": "sig"})


@contextmanager
def running_issuer() -> Generator[Issuer]:
    """Run an authorization server."""
    issuer = Issuer()
    with listening(issuer.answer) as (issuer.url, issuer.requests):
        yield issuer


class Upstream:
    """An MCP server of the older revision that asks for tokens of an issuer; each user sees a tool of his own."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.url = ""
        self.requests: list[Received] = []
        self.sessions: dict[str, str] = {}
        """Session → the user who opened it."""
        self.crossings: list[str] = []
        """Requests whose token is not the one of the session's user."""
        self.metadata: dict[str, Any] = {}
        self.tools: dict[str, list[str]] = {}
        self.says = ""
        self.has_features = False
        """Whether it has prompts and resources beside tools: some for all, one for each user."""
        self.descriptions: dict[tuple[str, str], str] = {}
        """What it says about a definition to one user: user and name → description."""
        self.served: list[tuple[str, str, str]] = []
        """What was asked of its features: the method, the user of the token, the name."""

    @property
    def tokens(self) -> set[str]:
        """Every token that it was sent."""
        found = {request.headers.get("authorization", "") for request in self.requests}
        return {header.removeprefix("Bearer ") for header in found if header}

    def answer(self, request: Received) -> Reply:
        if request.path.startswith("/.well-known/oauth-protected-resource"):
            own = {"resource": self.url, "authorization_servers": [self.issuer.url], "scopes_supported": ["tools"]}
            return Reply(content=own | self.metadata)
        if request.path != "/mcp":
            return Reply(404)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        user, resource = self.issuer.access.get(token, ("", ""))
        if not user or resource != self.url:
            origin = self.url.removesuffix("/mcp")
            where = f'Bearer resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp", scope="tools"'
            return Reply(401, {"error": "invalid_token"}, {"www-authenticate": where})
        session = request.headers.get("mcp-session-id")
        if session is not None and self.sessions.get(session) != user:
            self.crossings.append(f"{user} in a session of {self.sessions.get(session)}")
        if request.method != "POST":
            return Reply(405 if request.method == "GET" else 200)
        return self._reply(json.loads(request.body), user)

    def _reply(self, message: dict[str, Any], user: str) -> Reply:
        named, headers = self.tools.get(user, ["whoami", f"only_{user}"]), dict[str, str]()
        match message.get("method"):
            case "initialize":
                session = token_urlsafe(12)
                self.sessions[session] = user
                headers["mcp-session-id"] = session
                features: dict[str, Any] = {"prompts": {}, "resources": {}, "completions": {}}
                capabilities: dict[str, Any] = {"tools": {}, **(features if self.has_features else {})}
                result: Any = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
                result["serverInfo"] = {"name": "upstream", "version": "1"}
            case "tools/list":
                schema = {"type": "object"}
                result = {"tools": [{**self._describe(user, name), "inputSchema": schema} for name in named]}
            case "tools/call":
                result = {"content": [{"type": "text", "text": f"{user} {self.says}"}]}
            case "ping":
                result = {}
            case str(method) if self.has_features and method.startswith(("prompts/", "resources/", "completion/")):
                result = self._serve(method, message.get("params") or {}, user)
            case _ if "id" not in message:
                return Reply(202)
            case _:
                error = {"code": -32601, "message": "unknown"}
                return Reply(content={"jsonrpc": "2.0", "id": message["id"], "error": error})
        return Reply(content={"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)

    def _describe(self, user: str, name: str) -> dict[str, Any]:
        return {"name": name, "description": self.descriptions.get((user, name), name)}

    def _serve(self, method: str, params: dict[str, Any], user: str) -> dict[str, Any]:
        ref: dict[str, Any] = params.get("ref") or {}
        name: str = params.get("name") or params.get("uri") or ref.get("name") or ref.get("uri") or ""
        self.served.append((method, user, name))
        said = f"{name} of {user}"
        match method:
            case "prompts/list":
                return {"prompts": [self._describe(user, each) for each in ("greet", f"for_{user}")]}
            case "resources/list":
                uris = ("note:all", f"note:{user}", "ui://app/page")
                return {"resources": [{**self._describe(user, uri), "uri": uri} for uri in uris]}
            case "resources/templates/list":
                found = (f"file:///{user}/{{name}}",)
                return {"resourceTemplates": [{**self._describe(user, each), "uriTemplate": each} for each in found]}
            case "prompts/get":
                return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
            case "resources/read":
                page = f"<p>{self.says}</p>" if name.startswith("ui:") else said
                return {"contents": [{"uri": name, "text": page}]}
            case _:
                return {"completion": {"values": [said]}}


@contextmanager
def running_upstream(issuer: Issuer) -> Generator[Upstream]:
    """Run a protected MCP server."""
    upstream = Upstream(issuer)
    with listening(upstream.answer) as (address, upstream.requests):
        upstream.url = f"{address}/mcp"
        yield upstream


def oauth_spec(upstream: Upstream, name: str = "up", **settings: Any) -> ServerSpec:
    """The configuration of a protected server."""
    return ServerSpec(name=name, url=upstream.url, oauth=LoginSettings(issuer=upstream.issuer.url, **settings))


def open_logins(folder: Path, **more: Any) -> Logins:
    return Logins(TokenStore(folder, StateKey("a state key")), **more)


async def visit(url: str) -> dict[str, str]:
    """Open the authorization URL as a browser would; return the parameters of the redirect."""

    def open_page() -> str:
        parts = urlsplit(url)
        connection = HTTPConnection(parts.netloc)
        connection.request("GET", f"{parts.path}?{parts.query}")
        location = connection.getresponse().getheader("location") or ""
        connection.close()
        return location

    return dict(parse_qsl(urlsplit(await to_thread.run_sync(open_page)).query))


async def log_in(logins: Logins, spec: ServerSpec, user: str, issuer: Issuer, account: str) -> None:
    """Log a user in with an account of the issuer."""
    issuer.user = account
    pending = await logins.begin(spec, user, redirect_uri="http://127.0.0.1:7777/callback")
    await logins.finish(spec, user, pending, await visit(pending.authorization_url))
