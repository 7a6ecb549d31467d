"""A page without a server: its application on a journal in memory, and requests of browsers, tokens and commands."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import httpx2

from spindle import Call, Err, Executor, Journal, Spool, Tool, ToolContext, ToolFilter, ToolRegistry, tool
from spindle.execution import StateKey, TicketSettings, open_office
from spindle.inspector import InspectorApp, PageLogins, Workbench
from spindle.inspector.command_login import COMMAND_HEADER, sign_command
from spindle.inspector.endpoints import Role
from spindle.inspector.logins import PAGE_HEADER, issue_code
from spindle.mcp import HttpSettings, ToolServer, http_app
from spindle.mcp.server import PageRoute

KEY = "the key of the tests"
HOST = "127.0.0.1:8321"
ORIGIN = f"http://{HOST}"
TOKEN = "a-token-of-the-reader-5n3Kx2"


def paying(runs: list[dict[str, Any]]) -> Tool:
    """Build a tool that needs approval, and notes its runs."""

    @tool(requires_approval=True, secret_fields=["password"])
    async def pay(amount: int, password: str = "", note: str = "", to: list[str] | None = None) -> str:
        """Pay an amount."""
        runs.append({"amount": amount, "password": password, "note": note, "to": to})
        return f"paid {amount}"

    return pay


@dataclass(kw_only=True)
class Bench:
    """A page on a journal, and what its tool has run."""

    runs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    journal: Journal = field(default_factory=Journal.memory)
    roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    filters: Mapping[str, ToolFilter] = field(default_factory=dict[str, ToolFilter])
    tools: Sequence[Tool] = ()
    is_secure: bool = False
    now: float | None = None
    """The time of the logins; `None` for the real one."""

    def __post_init__(self) -> None:
        self.key = StateKey(KEY)
        self.registry = ToolRegistry([paying(self.runs), *self.tools])
        self.executor = Executor(self.registry, journal=self.journal, state_key=KEY)
        settings = TicketSettings(self.journal, KEY, ttl_seconds=1, policy=None)
        self.bench = Workbench(
            registry=self.registry,
            executor=self.executor,
            journal=self.journal,
            spool=Spool.memory(),
            tickets=open_office(settings),
            get_filter=lambda profile: self.filters.get(profile or ""),
            version="1.2.3",
        )
        self.logins = self.build_logins()
        self.app = InspectorApp(self.bench, self.logins)

    def build_logins(self) -> PageLogins:
        """Build the logins of this server, or of a replica of it."""
        options: dict[str, Any] = {} if self.now is None else {"clock": lambda: self.now}
        return PageLogins(
            key=self.key, states=self.journal.states, roles=self.roles, is_secure=self.is_secure, **options
        )

    def build_server(self) -> Any:
        """Build the whole HTTP application, with the MCP endpoint and its checks of Host, Origin and tokens."""
        server = ToolServer(self.executor, self.registry)
        tokens = {sha256(TOKEN.encode()).hexdigest(): "reader"} if self.roles else {}
        route = PageRoute(app=self.app, owns=lambda path: path == "/" or path.startswith(("/page", "/api/")))
        return http_app(server, HttpSettings(tokens=tokens), page=route)

    @asynccontextmanager
    async def connect(self, app: Any = None, **headers: str) -> AsyncGenerator["PageClient"]:
        """Open a client without a login."""
        transport = httpx2.ASGITransport(app=self.app if app is None else app, raise_app_exceptions=False)
        scheme = "https" if self.is_secure else "http"
        async with httpx2.AsyncClient(transport=transport, base_url=f"{scheme}://{HOST}", headers=headers) as client:
            yield PageClient(client)

    @asynccontextmanager
    async def log_in(self, app: Any = None) -> AsyncGenerator["PageClient"]:
        """Open a client that has followed a one-time link."""
        async with self.connect(app) as client:
            assert (await client.redeem(await self.issue())).status_code == 200
            yield client

    @asynccontextmanager
    async def command(self, by: str = "ann") -> AsyncGenerator["PageClient"]:
        """Open a client that is the command of the owner."""
        async with self.connect(**{COMMAND_HEADER: sign_command(self.key, by)}) as client:
            yield client

    async def issue(self, role: Role = "operator", profile: str | None = None) -> str:
        """Return the code of a new link."""
        assert self.journal.states is not None
        return await issue_code(self.journal.states, role=role, by="ann", profile=profile)

    async def ask(
        self, number: int = 1, session: str = "s1", name: str = "pay", caller: dict[str, Any] | None = None, **args: Any
    ) -> str:
        """Let a call wait for approval, and return the id of the approval."""
        context = ToolContext(session, turn_id="t1", caller=caller or {"user": "ann"})
        [outcome] = await self.executor.execute_parallel([Call(f"c{number}", name, {"amount": 5} | args)], context)
        assert isinstance(outcome.result, Err)
        assert outcome.result.ticket is not None
        return outcome.result.ticket.partition("-")[0]


@dataclass
class PageClient:
    """A browser, or a program, that uses the page."""

    http: httpx2.AsyncClient
    token: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """What the script of the page adds to each request."""
        return {PAGE_HEADER: self.token} if self.token else {}

    def copy_login(self, other: "PageClient") -> None:
        """Use the login of another client."""
        self.http.cookies.update(other.http.cookies)
        self.token = other.token

    async def redeem(self, code: str, **headers: str) -> httpx2.Response:
        """Log in with a code, and keep the token of the page, as its script does."""
        answer = await self.http.post("/api/v1/login", json={"code": code}, headers=headers)
        if answer.is_success:
            self.token = answer.json()["token"]
        return answer

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        """Read something from the API."""
        return await self.http.get(f"/api/v1{path}", params=query, headers=self.headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        """Change something."""
        given = self.headers | headers
        return await self.http.post(f"/api/v1{path}", json={} if body is None else body, headers=given)
