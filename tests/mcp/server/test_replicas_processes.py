"""Real replicas behind a balancer without sticky sessions, over a real PostgreSQL."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import anyio
import httpx2
import mcp_types as types
import pytest

from tests.journal.postgres_fixtures import execute
from tests.journal.postgres_server import Server
from tests.mcp.gateways import LEGACY, MODERN, code_of, text_of
from tests.mcp.replica_processes import Cluster, cluster

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

both_revisions = pytest.mark.parametrize("mode", [LEGACY, MODERN])
IN_TIME = 60
NOT_FOUND = 404
NOTHING: dict[str, Any] = {}
YES = types.ElicitResult(action="accept", content={"approve": True})
ANN = types.ElicitResult(action="accept", content={"answer": "Ann"})


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Cluster]:
    """Two replicas, which stay alive."""
    with cluster(tmp_path_factory.mktemp("replicas"), make_schema(postgres)) as made:
        made.start()
        made.start()
        yield made


@pytest.fixture(autouse=True)
def forget_lines(request: pytest.FixtureRequest) -> None:
    if "two" in request.fixturenames:
        request.getfixturevalue("two").log.write_text("")


def make_schema(server: Server) -> str:
    """Return the dsn of a schema of its own."""
    schema = f"test_{uuid4().hex}"
    asyncio.run(execute(server.dsn(), f"CREATE SCHEMA {schema}"))
    return server.dsn(schema=schema)


class Person:
    """A user who answers what is asked."""

    def __init__(self, answer: types.ElicitResult) -> None:
        self.answer = answer
        self.questions: list[str] = []
        self.asked = anyio.Event()
        self.may_answer = anyio.Event()
        self.may_answer.set()

    async def __call__(self, _context: Any, params: types.ElicitRequestParams) -> Any:
        self.questions.append(params.message)
        self.asked.set()
        await self.may_answer.wait()
        return self.answer


@both_revisions
async def test_requests_of_one_client_are_served_by_every_replica(two: Cluster, mode: str) -> None:
    with anyio.fail_after(IN_TIME):
        async with two.client(mode) as (client, _):
            names = {each.name for each in (await client.list_tools()).tools}
            pids = {text_of(await client.call_tool("who", {})) for _ in range(4)}

    assert {"who", "pay"} <= names
    assert pids == {str(each.pid) for each in two.replicas}


@both_revisions
@pytest.mark.parametrize("tool", ["pay", "once"])
async def test_a_question_of_one_replica_is_answered_at_another(two: Cluster, mode: str, tool: str) -> None:
    person = Person(YES if tool == "pay" else ANN)
    is_called = False

    def route(kind: str) -> int | None:
        # The first request of the call goes to the first replica, everything after it to the second.
        nonlocal is_called
        if kind == "tools/call" and not is_called:
            is_called = True
            return 0
        return 1 if is_called else None

    with anyio.fail_after(IN_TIME):
        async with two.client(mode, elicitation_callback=person) as (client, balancer):
            balancer.route = route
            result = await client.call_tool(tool, {"amount": 5} if tool == "pay" else {})

    asked_by = two.replicas[0].pid
    assert text_of(result) == (f"paid 5 by {asked_by}" if tool == "pay" else f"hello Ann from {asked_by}")
    assert two.lines == (["paid 5"] if tool == "pay" else ["once began", "once greeted Ann"])
    assert len(person.questions) == 1


def to(place: int) -> Callable[[str], int]:
    """Route every request to one replica."""

    def route(_kind: str) -> int:
        return place

    return route


def round_robin(_kind: str) -> None:
    """Route each request to the next replica."""


@both_revisions
async def test_an_artifact_is_read_at_another_replica_by_its_own_client_only(two: Cluster, mode: str) -> None:
    with anyio.fail_after(IN_TIME):
        async with two.client(mode) as (client, balancer), two.client(mode) as (other, others):
            balancer.route = to(0)
            shown = text_of(await client.call_tool("report", {}))
            [call_id] = set(re.findall(r"c_[0-9a-f]{16}", shown))
            balancer.route = to(1)
            tail = await client.call_tool("artifact_tail", {"call_id": call_id, "n": 1})
            again = await client.call_tool("artifact_tail", {"call_id": call_id, "n": 1})
            others.route = to(1)
            refused = await other.call_tool("artifact_tail", {"call_id": call_id, "n": 1})

    assert '"line": 19999' in text_of(tail)
    assert text_of(again) == text_of(tail)
    if mode == LEGACY:
        assert refused.is_error
        assert call_id in text_of(refused)
    else:  # the same token, here none: the id is the secret
        assert text_of(refused) == text_of(tail)


async def test_readers_appear_at_every_replica_and_the_client_is_notified_where_it_listens(two: Cluster) -> None:
    notified = anyio.Event()

    async def receive(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            notified.set()

    with anyio.fail_after(IN_TIME):
        async with two.client(LEGACY, message_handler=receive) as (client, balancer):
            balancer.route = to(1)
            before = {each.name for each in (await client.list_tools()).tools}
            balancer.route = lambda kind: 1 if kind == "GET" else 0
            await client.call_tool("report", {})
            await notified.wait()
            balancer.route = to(1)
            after = {each.name for each in (await client.list_tools(cache_mode="refresh")).tools}

    assert after > before


@both_revisions
async def test_a_change_of_tools_at_one_replica_reaches_the_clients_of_another(two: Cluster, mode: str) -> None:
    notified = anyio.Event()

    async def receive(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            notified.set()

    with anyio.fail_after(IN_TIME):
        async with two.client(mode, message_handler=receive) as (client, there), two.client(mode) as (other, here):
            there.route, here.route = to(1), to(0)
            assert "mcp__one__grow" in {each.name for each in (await client.list_tools()).tools}
            if mode == LEGACY:
                await other.call_tool("mcp__one__grow", {"name": f"new_{mode}"})
                await notified.wait()
            else:
                async with client.listen(tools_list_changed=True) as news:
                    await other.call_tool("mcp__one__grow", {"name": "new_modern"})
                    await anext(aiter(news))


@both_revisions
async def test_taint_is_carried_to_another_replica(two: Cluster, mode: str) -> None:
    info = types.Implementation(name=f"tainted {mode}", version="1")
    with anyio.fail_after(IN_TIME):
        async with two.client(mode, client_info=info) as (client, balancer):
            balancer.route = to(0)
            before = await client.call_tool("drop", {"table": "a"})
            await client.call_tool("who", {})
            balancer.route = to(1)
            after = await client.call_tool("drop", {"table": "b"})

    assert (code_of(before), code_of(after)) == (None, "needs_approval")
    assert two.lines == ["dropped a"]


async def test_a_call_is_cancelled_at_the_replica_that_runs_it(two: Cluster) -> None:
    with anyio.fail_after(IN_TIME):
        async with two.client(LEGACY) as (client, balancer):
            balancer.route = lambda kind: 0 if kind == "tools/call" else 1
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "slow", NOTHING)
                await two.wait_for_lines("slow began")
                tasks.cancel_scope.cancel()
            await two.wait_for_lines("slow began", "slow was cancelled")


async def test_a_session_that_has_ended_is_unknown_everywhere(two: Cluster) -> None:
    seen: list[tuple[str, Any]] = []
    with anyio.fail_after(IN_TIME):
        async with two.client(LEGACY) as (client, balancer):
            inner = balancer.handle_async_request

            async def note(request: Any) -> Any:
                seen.append((request.method, request.headers.get("mcp-session-id")))
                return await inner(request)

            balancer.handle_async_request = note  # pyright: ignore[reportAttributeAccessIssue]  of this object only
            for _ in range(2):
                await client.call_tool("who", {})
        session = next(each for _, each in seen if each is not None)
        async with httpx2.AsyncClient() as http:
            headers = {"mcp-session-id": session, "accept": "application/json, text/event-stream"}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            for replica in two.replicas:
                status = 0
                while status != NOT_FOUND:  # the notice that it has ended takes a moment
                    with suppress(httpx2.RemoteProtocolError):  # it arrived in the middle of the response
                        status = (await http.post(replica.address, json=body, headers=headers)).status_code
                        assert status in {200, NOT_FOUND}

    assert ("DELETE", session) in seen


@pytest.fixture(scope="module")
def survivor(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Cluster]:
    """One replica that stays alive; a test starts another one, and ends it."""
    with cluster(tmp_path_factory.mktemp("survivor"), make_schema(postgres)) as made:
        made.start()
        yield made


FATES = {
    "pay": ["paid 5"],
    "again": ["again began", "again began", "again greeted Ann"],
    "once": ["once began"],
}
"""What the tools have done when the replica that asked was ended, and the answer was given at another one."""


@pytest.mark.parametrize("ending", ["kill", "stop"])
@pytest.mark.parametrize("tool", FATES)
async def test_the_question_of_a_replica_that_has_ended_is_answered_at_another(
    survivor: Cluster, tool: str, ending: str
) -> None:
    person = Person(YES if tool == "pay" else ANN)
    person.may_answer = anyio.Event()
    survivor.log.write_text("")
    victim = survivor.start()
    survivor.replicas.remove(victim)
    calls = 0

    def route(kind: str) -> int:
        nonlocal calls
        calls += kind == "tools/call"
        return 1 if calls < 2 else 0

    with anyio.fail_after(IN_TIME):
        async with survivor.client(MODERN, elicitation_callback=person) as (client, balancer):
            balancer.replicas.append(victim)
            balancer.route = route
            results: list[Any] = []

            async def call() -> None:
                results.append(await client.call_tool(tool, {"amount": 5} if tool == "pay" else {}))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await person.asked.wait()
                if ending == "kill":
                    victim.kill()
                else:
                    victim.stop()
                    await anyio.to_thread.run_sync(victim.process.wait)
                person.may_answer.set()

    codes = {("once", "kill"): "interrupted", ("once", "stop"): "cancelled"}
    assert code_of(results[0]) == codes.get((tool, ending))
    if tool != "once":
        assert text_of(results[0]).endswith(str(survivor.replicas[0].pid))
    assert survivor.lines == FATES[tool]


async def test_a_session_goes_on_after_the_replica_of_its_question_was_killed(survivor: Cluster) -> None:
    person = Person(YES)
    person.may_answer = anyio.Event()
    survivor.log.write_text("")
    victim = survivor.start()
    survivor.replicas.remove(victim)
    failures: list[Exception] = []

    with anyio.fail_after(IN_TIME):
        async with survivor.client(LEGACY, elicitation_callback=person, read_timeout_seconds=20) as (client, balancer):
            balancer.replicas.append(victim)
            balancer.route = lambda kind: 1 if kind == "tools/call" else 0

            async def call() -> None:
                try:
                    await client.call_tool("pay", {"amount": 5})
                except Exception as error:  # noqa: BLE001  what a client raises is its own affair
                    failures.append(error)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await person.asked.wait()
                victim.kill()
                balancer.route = lambda _kind: 0
                person.may_answer.set()
            lines = survivor.lines
            after = await client.call_tool("pay", {"amount": 6})

    assert len(failures) == 1
    assert lines == []
    assert text_of(after) == f"paid 6 by {survivor.replicas[0].pid}"
    assert survivor.lines == ["paid 6"]


@both_revisions
async def test_a_rolling_restart_loses_no_call(survivor: Cluster, mode: str) -> None:
    survivor.log.write_text("")
    leaving = survivor.start()
    survivor.replicas.remove(leaving)
    slept: list[str] = []

    with anyio.fail_after(IN_TIME):
        async with survivor.client(mode) as (client, balancer):
            balancer.replicas.append(leaving)

            async def nap() -> None:
                slept.append(text_of(await client.call_tool("nap", {})))

            async with anyio.create_task_group() as tasks:
                balancer.route = to(1)
                tasks.start_soon(nap)
                await survivor.wait_for_lines("nap began")
                balancer.route = round_robin
                for number in range(20):
                    if number == 5:
                        leaving.stop()
                    assert text_of(await client.call_tool("mark", {"number": number})) == "marked"
                    await anyio.sleep(0.02)
            await anyio.to_thread.run_sync(leaving.process.wait)

    assert slept == ["slept"]
    assert survivor.lines == ["nap began", *(f"mark {number}" for number in range(20))]
    assert leaving.process.returncode == 0
