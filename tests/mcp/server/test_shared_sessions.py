"""Two servers in this process that share a journal in memory, and clients whose requests go to either."""

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
import httpx2
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.subscriptions import ResourceUpdated

from spindle import Executor, Spool, ToolRegistry, tool
from spindle.execution import StateKey
from spindle.journal import Journal, StateQuery, StateStore
from spindle.mcp import HttpSettings, McpServers, ToolServer, http_app
from spindle.mcp.server.http_callers import identify_caller
from spindle.mcp.server.replicas import Replica
from spindle.mcp.server.serve import serve_http
from spindle.mcp.server.shared_records import SharedRecords
from spindle.tools import ToolContext
from spindle.trust import SinkPolicy
from spindle.turns import Gate
from tests.mcp.gateways import LEGACY, MODERN, code_of, text_of
from tests.mcp.memory_upstreams import Upstream, memory_servers
from tests.mcp.replica_processes import Balancer
from tests.mcp.server.test_http import READER, TOKENS, WRITER
from tests.mcp.server.test_http_attacks import INITIALIZE, PLAIN

pytestmark = pytest.mark.anyio

both_revisions = pytest.mark.parametrize("mode", [LEGACY, MODERN])
YES = types.ElicitResult(action="accept", content={"approve": True})
ANN = types.ElicitResult(action="accept", content={"answer": "Ann"})
SINKS = SinkPolicy(["drop"])
NOT_FOUND, BUSY, STOPPING = 404, 429, 503


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn supports only asyncio


@dataclass
class Place:
    """One of the servers."""

    name: str
    server: ToolServer
    executor: Executor
    replica: Replica
    shared: SharedRecords
    address: str = ""


@dataclass
class Places:
    """The servers, their journal, and the effects of their tools."""

    journal: Journal
    done: list[str]
    replicas: list[Place]

    @asynccontextmanager
    async def client(
        self, mode: str, token: str | None = None, *, route: Callable[[str], int] | None = None, **options: Any
    ) -> AsyncGenerator[tuple[Client, Any]]:
        """Connect to all of them."""
        balancer = Balancer(self.replicas)
        if route is not None:
            balancer.route = route
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(transport=balancer, headers=headers, timeout=60) as http:
            connection = streamable_http_client(self.replicas[0].address, http_client=http)
            async with Client(connection, mode=mode, **options) as client:
                yield client, balancer


def build_tools(name: str, done: list[str]) -> ToolRegistry:
    @tool(trusted=True)
    def who() -> str:
        """Name the server."""
        return name

    @tool(requires_approval=True, trusted=True)
    def pay(amount: int) -> str:
        """Pay."""
        done.append(f"paid {amount} at {name}")
        return f"paid {amount}"

    @tool(trusted=True)
    async def greet(ctx: ToolContext) -> str:
        """Ask in the middle."""
        answer = await ctx.wait_for(
            Gate("name", {"question": "Your name?"}, schema={"type": "string"}, timeout_seconds=60)
        )
        return f"hello {answer} at {name}"

    @tool
    def report() -> str:
        """Write much."""
        return "\n".join(f"line {number}" for number in range(20_000))

    @tool(trusted=True)
    def drop() -> str:
        """Drop a table."""
        return "dropped"

    @tool(trusted=True)
    def say(ctx: ToolContext) -> str:
        """Write to the log."""
        ctx.log("debug", "details")
        return "said"

    return ToolRegistry([who, pay, greet, report, drop, say])


@asynccontextmanager
async def two_servers(*, upstream: Mapping[str, McpServers] | None = None, **door: Any) -> AsyncGenerator[Places]:
    """Serve the same tools twice; `upstream` has the upstream servers of each."""
    places = Places(Journal.memory(), [], [])
    spool, states, notices = Spool.memory(), places.journal.states, places.journal.notices
    assert states is not None
    assert notices is not None
    async with AsyncExitStack() as stack:
        stack.enter_context(anyio.fail_after(60))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        for name in ("A", "B"):
            registry = build_tools(name, places.done)
            executor = Executor(registry, journal=places.journal, spool=spool, state_key="k" * 40, sinks=SINKS)
            replica = Replica(states, notices, StateKey("k" * 40), beat_seconds=0.05, gone_seconds=0.5)
            shared = SharedRecords(replica, spool, sinks=SINKS)
            server = ToolServer(
                executor,
                registry,
                identify=identify_caller,
                is_fenced=False,
                shared=shared,
                upstream=(upstream or {}).get(name),
            )
            tasks.start_soon(server.features.changes.propagate)
            settings = HttpSettings(port=0, **door)
            app = http_app(server, settings, shared=shared)
            await stack.enter_async_context(replica.open())
            place, ready = Place(name, server, executor, replica, shared), anyio.Event()

            def is_ready(address: str, place: Place = place, ready: anyio.Event = ready) -> None:
                place.address = address
                ready.set()

            async def run(server: Any = server, app: Any = app, door: Any = settings, ready: Any = is_ready) -> None:
                await serve_http(server, app, door, on_ready=ready)

            tasks.start_soon(run)
            await ready.wait()
            places.replicas.append(place)
        yield places
        tasks.cancel_scope.cancel()


def to(place: int) -> Callable[[str], int]:
    """Route every request to one server."""

    def route(_kind: str) -> int:
        return place

    return route


def first_then(first: int, rest: int) -> Callable[[str], int]:
    """Route the first call to one server, and what follows to another."""
    calls = 0

    def route(kind: str) -> int:
        nonlocal calls
        calls += kind == "tools/call"
        return first if kind == "tools/call" and calls == 1 else rest

    return route


@pytest.mark.slow
@both_revisions
async def test_every_server_serves_the_requests_of_one_client(mode: str) -> None:
    async with two_servers() as places, places.client(mode) as (client, _):
        await client.list_tools()
        names = {text_of(await client.call_tool("who", {})) for _ in range(4)}

    assert names == {"A", "B"}


@pytest.mark.slow
@both_revisions
@pytest.mark.parametrize("asks", ["pay", "greet"])
async def test_a_question_of_one_server_is_answered_at_the_other(mode: str, asks: str) -> None:
    asked: list[str] = []

    async def answer(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return YES if asks == "pay" else ANN

    async with two_servers() as places, places.client(mode, elicitation_callback=answer) as (client, balancer):
        balancer.route = first_then(0, 1)
        result = await client.call_tool(asks, {"amount": 5} if asks == "pay" else {})

    assert text_of(result) == ("paid 5" if asks == "pay" else "hello Ann at A")
    assert places.done == (["paid 5 at A"] if asks == "pay" else [])
    assert len(asked) == 1


async def test_a_question_of_a_server_that_stops_is_answered_at_the_other() -> None:
    async with two_servers() as places:

        async def answer(_context: Any, _params: types.ElicitRequestParams) -> types.ElicitResult:
            await places.replicas[0].server.drain(0)  # its replica stays, as while other calls run
            return YES

        async with places.client(MODERN, elicitation_callback=answer) as (client, balancer):
            balancer.route = first_then(0, 1)
            result = await client.call_tool("pay", {"amount": 5})

    assert text_of(result) == "paid 5"
    assert places.done == ["paid 5 at B"]


async def test_a_question_is_answered_once_however_often_the_answer_is_sent() -> None:
    async def answer(_context: Any, _params: types.ElicitRequestParams) -> types.ElicitResult:
        return YES

    sent: list[Any] = []
    async with two_servers() as places, places.client(MODERN, elicitation_callback=answer) as (client, balancer):
        inner = balancer.handle_async_request

        async def keep(request: Any) -> Any:
            sent.append((dict(request.headers), await request.aread()))
            return await inner(request)

        balancer.handle_async_request = keep
        await client.call_tool("pay", {"amount": 7})
        headers, body = next(each for each in reversed(sent) if b"requestState" in each[1])
        async with httpx2.AsyncClient() as http:
            for place in places.replicas:
                headers["host"] = place.address.split("/")[2]
                again = await http.post(place.address, headers=headers, content=body)
                assert "no longer open" in again.text

    assert len(places.done) == 1


@pytest.mark.slow
@both_revisions
async def test_an_artifact_belongs_to_its_client_at_every_server(mode: str) -> None:
    async with (
        two_servers(tokens=TOKENS) as places,
        places.client(mode, READER) as (client, balancer),
        places.client(mode, WRITER) as (other, others),
    ):
        balancer.route, others.route = to(0), to(1)
        [call_id] = set(re.findall(r"c_[0-9a-f]{16}", text_of(await client.call_tool("report", {}))))
        balancer.route = to(1)
        read = await client.call_tool("artifact_tail", {"call_id": call_id, "n": 1})
        refused = await other.call_tool("artifact_tail", {"call_id": call_id, "n": 1})
        kept = await places.replicas[1].server.find_calls_readable_elsewhere()

    assert "line 19999" in text_of(read)
    assert refused.is_error
    assert "line 19999" not in text_of(refused)
    assert kept == {call_id}


@both_revisions
async def test_taint_is_known_at_every_server(mode: str) -> None:
    async with two_servers() as places, places.client(mode) as (client, balancer):
        balancer.route = to(1)
        before = await client.call_tool("drop", {})
        balancer.route = to(0)
        await client.call_tool("report", {})
        balancer.route = to(1)
        after = await client.call_tool("drop", {})

    assert (code_of(before), code_of(after)) == (None, "needs_approval")


async def test_a_call_that_waits_for_approval_is_found_at_every_server() -> None:
    async with two_servers() as places, places.client(LEGACY) as (client, balancer):
        balancer.route = to(0)
        waiting = await client.call_tool("pay", {"amount": 9})
        states = places.journal.states
        assert states is not None
        [approval] = await states.select(StateQuery("approval"))
        balancer.route = to(1)
        still = await client.call_tool("pay", {"amount": 9})
        approvals = await states.select(StateQuery("approval"))
        waits = await states.select(StateQuery("mcp_waiting"))

    assert (code_of(waiting), code_of(still)) == ("needs_approval", "needs_approval")
    assert [each.id for each in approvals] == [approval.id]
    assert len(waits) == 1


class CountedStates:
    """Counts the operations on records, except those that replicas do at intervals."""

    def __init__(self, states: StateStore) -> None:
        self._states = states
        self.used: list[str] = []

    def __getattr__(self, name: str) -> Any:
        async def run(first: Any, *more: Any) -> Any:
            kind = first if isinstance(first, str) else first.kind
            is_cleaning = isinstance(first, StateQuery) and first.expired_at is not None
            if not kind.startswith("replica") and not is_cleaning:
                self.used.append(f"{name} {kind}")
            return await getattr(self._states, name)(first, *more)

        return run


@both_revisions
async def test_a_call_rarely_waits_for_the_store(mode: str) -> None:
    used: list[list[str]] = []
    async with two_servers() as places, places.client(mode) as (client, balancer):
        balancer.route = to(0)
        await client.list_tools()
        states = CountedStates(places.replicas[0].replica.states)
        for each in (places.replicas[0].replica, places.replicas[0].shared):
            vars(each)["_states" if each is places.replicas[0].shared else "states"] = states
        for name in ("who", "report", "report", "who"):
            states.used.clear()
            await client.call_tool(name, {})
            used.append(sorted(states.used))

    assert used == [
        ["get mcp_taint"],
        ["get mcp_taint", "insert mcp_artifact", "insert mcp_taint"],
        ["insert mcp_artifact"],
        [],
    ]


async def test_requests_of_a_token_are_counted_together() -> None:
    async with two_servers(tokens=TOKENS, max_requests_per_minute=20) as places, httpx.AsyncClient() as http:
        headers = {"Authorization": f"Bearer {READER}"}
        statuses: list[int] = []
        for _ in range(15):
            for place in places.replicas:
                url = place.address.replace("/mcp", "/health")
                statuses.append((await http.get(url, headers=headers)).status_code)
                await anyio.sleep(0.005)  # a notice takes a moment

    assert BUSY in statuses  # each alone would have answered all of its fifteen


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_the_log_level_of_a_session_holds_at_every_server() -> None:
    lines: list[Any] = []
    came = anyio.Event()

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        lines.append(params.data)
        came.set()

    async with two_servers() as places, places.client(LEGACY, logging_callback=log) as (client, balancer):
        balancer.route = to(0)
        await client.set_logging_level("debug")  # pyright: ignore[reportDeprecated]  clients still use it
        balancer.route = to(1)
        await client.call_tool("say", {})
        await came.wait()

    assert lines == ["details"]


async def test_a_session_of_another_token_is_not_found() -> None:
    async with two_servers(tokens=TOKENS) as places, httpx.AsyncClient() as http:
        own = {**PLAIN, "Authorization": f"Bearer {READER}"}
        opened = await http.post(places.replicas[0].address, json=INITIALIZE, headers=own)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        statuses = [
            (
                await http.post(
                    place.address, json=body, headers={**PLAIN, **session, "Authorization": f"Bearer {token}"}
                )
            ).status_code
            for place in places.replicas
            for token in (READER, WRITER)
        ]

    assert statuses == [200, NOT_FOUND, 200, NOT_FOUND]


async def test_the_store_has_no_session_id() -> None:
    async with two_servers() as places, httpx.AsyncClient() as http:
        opened = await http.post(places.replicas[0].address, json=INITIALIZE, headers=PLAIN)
        states = places.journal.states
        assert states is not None
        [record] = await states.select(StateQuery("mcp_session"))

    assert opened.headers["mcp-session-id"] not in repr(record)


async def test_a_server_that_stops_says_so_to_a_balancer() -> None:
    async with two_servers() as places, httpx.AsyncClient() as http:
        url = places.replicas[0].address.replace("/mcp", "/health")
        while places.replicas[0].replica.others < 1:  # noqa: ASYNC110  it looks at intervals
            await anyio.sleep(0.01)
        before = await http.get(url)
        places.replicas[0].server.load.is_stopping = True
        after = await http.get(url)
        refused = await http.post(places.replicas[0].address, json=INITIALIZE, headers=PLAIN)

    assert (before.status_code, before.json()["replicas"]) == (200, 2)
    assert (after.status_code, after.json()["status"]) == (STOPPING, "stopping")
    assert refused.status_code == STOPPING
    assert "retry-after" in refused.headers


async def test_the_oldest_session_makes_room_for_one_of_another_server() -> None:
    async with two_servers(max_sessions=2) as places, httpx.AsyncClient() as http:
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        sessions: list[dict[str, str]] = []
        for place in (0, 1, 0, 1):
            opened = await http.post(places.replicas[place].address, json=INITIALIZE, headers=PLAIN)
            sessions.append({"mcp-session-id": opened.headers["mcp-session-id"]})
        statuses = [
            (await http.post(place.address, json=body, headers={**PLAIN, **session})).status_code
            for session in sessions
            for place in places.replicas
        ]

    assert statuses == [200] * 8


async def test_a_client_subscribed_at_one_server_is_notified_through_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    uri, heard = "spindle://fs/x:1", anyio.Event()
    upstream = Upstream(resources={"x:1": "X"})

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification) and message.params.uri == uri:
            heard.set()

    def stream_elsewhere(kind: str) -> int:
        return 1 if kind == "GET" else 0

    async with (
        memory_servers(monkeypatch, {"fs": upstream}) as (behind_a, _),
        two_servers(upstream={"A": behind_a}) as places,
        places.client(LEGACY, route=stream_elsewhere, message_handler=hear) as (client, _),
    ):
        request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
        await client.session.send_request(request, types.EmptyResult)
        while not heard.is_set():  # the stream of notifications may open later
            await upstream.report(ResourceUpdated("x:1"))
            await anyio.sleep(0.05)
