"""The records of tasks: whom they belong to, how long they are kept, and that of two changes one is made."""

from typing import Any

import pytest

from spindle import Journal
from spindle.execution import StateKey
from spindle.journal import StateQuery
from spindle.mcp.server.tasks.records import TASK, KeptTask, TaskRecords
from spindle.mcp.server.tasks.state import TaskState
from tests.mcp.server.tasks.test_state import new_state

pytestmark = pytest.mark.anyio
NOW = 1_000_000


class Clock:
    now = NOW

    def __call__(self) -> int:
        return self.now


def build(**more: Any) -> tuple[TaskRecords, Any, Clock]:
    states, clock = Journal.memory().states, Clock()
    assert states is not None
    return TaskRecords(states, now=clock, **more), states, clock


async def create(records: TaskRecords, state: TaskState, args: dict[str, Any]) -> KeptTask:
    made = await records.create(state, args, has_secrets=False)
    assert made is not None
    return made


async def test_a_task_is_found_by_its_owner_until_it_expires() -> None:
    records, _, clock = build()
    made = await create(records, new_state(), {"a": 1})
    found = await records.find("t", "o")
    others = [await records.find("t", "eve"), await records.find("", "o"), await records.find("x" * 500, "o")]
    clock.now = made.state.expires_at
    assert found is not None
    assert (found.state, found.args) == (made.state, {"a": 1})
    assert others == [None] * 3
    assert await records.find("t", "o") is None
    assert await records.list("o") == []


async def test_of_two_changes_of_one_version_only_the_first_is_made() -> None:
    records, _, _ = build()
    made = await create(records, new_state(), {})
    ended, cancelled = made.state.end("completed", now=2), made.state.end("cancelled", now=2)
    assert ended is not None
    assert cancelled is not None
    first, second = await records.replace(made, ended), await records.replace(made, cancelled)
    found = await records.find("t", "o")
    assert (first is None, second) == (False, None)
    assert found is not None
    assert found.state.status == "completed"


async def test_secret_arguments_are_only_kept_sealed() -> None:
    states = Journal.memory().states
    assert states is not None
    plain, sealing = TaskRecords(states, now=Clock()), TaskRecords(states, StateKey("a key"), now=Clock())
    await plain.create(new_state(), {"password": "hunter2"}, has_secrets=True)
    await sealing.create(new_state(id="u"), {"password": "hunter2"}, has_secrets=True)
    found = [await plain.find("t", "o"), await sealing.find("u", "o"), await plain.find("u", "o")]
    assert [each and each.args for each in found] == [None, {"password": "hunter2"}, None]
    assert all("hunter2" not in each.data for each in await states.select(StateQuery(TASK)))


async def test_an_owner_over_the_limit_loses_its_oldest_ended_task_and_gets_none_if_all_are_open() -> None:
    records, _, _ = build(max_tasks=3)
    for number in range(5):
        made = await create(records, new_state(id=f"t{number}"), {})
        ended = made.state.end("completed", now=2)
        assert ended is not None
        await records.write_result(ended, {"result": {}})
        await records.replace(made, ended)
    kept = [each.id for each in await records.list("o")]
    for number in range(3):
        await records.create(new_state(id=f"open{number}"), {}, has_secrets=False)
    assert await records.create(new_state(id="one more"), {}, has_secrets=False) is None
    await records.create(new_state(id="other", owner="another"), {}, has_secrets=False)
    assert kept == ["t4", "t3", "t2"]
    assert [each.id for each in await records.list("o")] == ["open2", "open1", "open0"]
    assert await records.read_result("t0") is None


async def test_expired_tasks_are_deleted_with_their_results_when_another_is_created() -> None:
    records, states, clock = build()
    made = await create(records, new_state(), {})
    await records.write_result(made.state, {"result": {}})
    clock.now = made.state.expires_at + 1
    await records.create(new_state(id="next", created_at=clock.now), {}, has_secrets=False)
    assert [each.id for each in await states.select(StateQuery(TASK))] == ["next"]
    assert await records.read_result("t") is None
