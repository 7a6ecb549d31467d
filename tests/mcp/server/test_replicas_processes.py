"""Real replicas behind a balancer without sticky sessions, over a real PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from tests.mcp.gateways import LEGACY, MODERN, text_of
from tests.mcp.replica_processes import Cluster, cluster

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

both_revisions = pytest.mark.parametrize("mode", [LEGACY, MODERN])
IN_TIME = 120
YES = types.ElicitResult(action="accept", content={"approve": True})
ANN = types.ElicitResult(action="accept", content={"answer": "Ann"})


@pytest.fixture
def two(tmp_path: Path, postgres_dsn: str) -> Iterator[Cluster]:
    """Two replicas."""
    with cluster(tmp_path, postgres_dsn) as made:
        made.start()
        made.start()
        yield made


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
