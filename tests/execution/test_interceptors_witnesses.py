"""Those who look on see every call, whatever becomes of it, and change none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest

from spindle import Call, Err, Journal, ToolContext
from spindle.execution.call_state import CallState
from tests.execution.calling import call, counting, err, execute, giving, hearing, make, ok

pytestmark = pytest.mark.anyio


class Witness:
    """Notes what it is told."""

    def __init__(self, *, wants: bool = True, broken: Sequence[str] = ()) -> None:
        self.told: list[tuple[str, Any]] = []
        self._wants = wants
        self._broken = broken

    def watch(self, context: ToolContext) -> "Witness | None":
        self._tell("watch", context.session_id)
        return self if self._wants else None

    def begin(self, job: CallState) -> None:
        self._tell("begin", job.call.tool_call_id)

    def end(self, job: CallState) -> None:
        self._tell("end", job.call.tool_call_id)

    def close(self, jobs: Sequence[CallState]) -> None:
        self._tell("close", [(job.call.tool_call_id, job.reduced and job.reduced.ok) for job in jobs])

    def _tell(self, what: str, of: Any) -> None:
        self.told.append((what, of))
        if what in self._broken:
            raise RuntimeError(what)


async def test_it_sees_what_runs_and_hears_of_what_does_not() -> None:
    witness = Witness()

    await execute([giving("")], [call("give", call_id="a"), call("nobody", call_id="b")], interceptors=[witness])

    assert witness.told == [("watch", "s1"), ("begin", "a"), ("end", "a"), ("close", [("a", True), ("b", False)])]


async def test_it_is_asked_once_for_each_batch_and_may_say_no() -> None:
    witness = Witness(wants=False)

    await execute([giving("")], [call("give", call_id="a"), call("give", call_id="b")], interceptors=[witness])

    assert witness.told == [("watch", "s1")]


@pytest.mark.parametrize("broken", ["watch", "begin", "end", "close"])
async def test_one_that_fails_is_a_warning_and_changes_no_outcome(broken: str) -> None:
    ctx, warned = hearing()
    healthy = Witness()

    calls = [call("give", call_id="a"), call("nobody", call_id="b")]
    outcomes = await execute([giving("fine")], calls, ctx=ctx, interceptors=[Witness(broken=[broken]), healthy])

    assert ok(outcomes[0]).value == "fine"
    assert err(outcomes[1]).code == "not_available"
    assert [(warning.source, str(warning.error)) for warning in warned] == [("witness", broken)]
    assert healthy.told[-1] == ("close", [("a", True), ("b", False)])


async def test_it_hears_the_end_also_when_the_caller_leaves() -> None:
    witness = Witness()

    async def leave(_args: Any, _ctx: Any, _meta: Any) -> None:
        scope.cancel()
        await anyio.sleep_forever()

    with anyio.fail_after(30), anyio.CancelScope() as scope:
        await execute([make("leave", leave)], [call("leave")], interceptors=[witness])

    assert [what for what, _ in witness.told] == ["watch", "begin", "end", "close"]
    assert witness.told[-1] == ("close", [("c1", False)])


async def test_calls_are_written_down_at_once_as_if_nobody_looked_on() -> None:
    tool, runs = counting()
    witness = Witness()
    async with Journal.memory() as journal:
        for _ in range(2):
            await execute([tool], [call("count")], journal=journal, interceptors=[witness])
        entries = await journal.list()

    assert len(runs) == 1
    assert [entry.state for entry in entries] == ["finished"]
    assert [what for what, _ in witness.told] == ["watch", "begin", "end", "close", "watch", "close"]


async def test_an_interceptor_that_answers_to_any_name_is_still_one() -> None:
    answer = AsyncMock(side_effect=_denied)

    (outcome,) = await execute([giving("")], [call("give")], interceptors=[answer])

    assert err(outcome).code == "denied"


async def _denied(one: Call, _ctx: Any, next: Any) -> Any:
    return replace(await next(), result=Err("denied", f"not {one.name}"))
