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


class RecordingObserver:
    """Records the notifications."""

    def __init__(self, *, wants: bool = True, broken: Sequence[str] = ()) -> None:
        self.reported: list[tuple[str, Any]] = []
        self._wants = wants
        self._broken = broken

    def watch(self, context: ToolContext) -> "RecordingObserver | None":
        self._report("watch", context.session_id)
        return self if self._wants else None

    def begin(self, state: CallState) -> None:
        self._report("begin", state.call.tool_call_id)

    def end(self, state: CallState) -> None:
        self._report("end", state.call.tool_call_id)

    def close(self, states: Sequence[CallState]) -> None:
        self._report("close", [(state.call.tool_call_id, state.reduced and state.reduced.ok) for state in states])

    def _report(self, what: str, of: Any) -> None:
        self.reported.append((what, of))
        if what in self._broken:
            raise RuntimeError(what)


async def test_an_observer_is_notified_of_calls_that_run_and_of_refused_ones() -> None:
    observer = RecordingObserver()

    await execute([giving("")], [call("give", call_id="a"), call("nobody", call_id="b")], interceptors=[observer])

    assert observer.reported == [("watch", "s1"), ("begin", "a"), ("end", "a"), ("close", [("a", True), ("b", False)])]


async def test_an_observer_is_asked_once_for_each_batch_and_may_decline() -> None:
    observer = RecordingObserver(wants=False)

    await execute([giving("")], [call("give", call_id="a"), call("give", call_id="b")], interceptors=[observer])

    assert observer.reported == [("watch", "s1")]


@pytest.mark.parametrize("broken", ["watch", "begin", "end", "close"])
async def test_one_that_fails_is_a_warning_and_changes_no_outcome(broken: str) -> None:
    ctx, warned = hearing()
    healthy = RecordingObserver()

    calls = [call("give", call_id="a"), call("nobody", call_id="b")]
    outcomes = await execute(
        [giving("fine")], calls, ctx=ctx, interceptors=[RecordingObserver(broken=[broken]), healthy]
    )

    assert ok(outcomes[0]).value == "fine"
    assert err(outcomes[1]).code == "not_available"
    assert [(warning.source, str(warning.error)) for warning in warned] == [("observer", broken)]
    assert healthy.reported[-1] == ("close", [("a", True), ("b", False)])


async def test_an_observer_is_notified_of_the_end_when_the_caller_leaves() -> None:
    observer = RecordingObserver()

    async def leave(_args: Any, _ctx: Any, _meta: Any) -> None:
        scope.cancel()
        await anyio.sleep_forever()

    with anyio.fail_after(30), anyio.CancelScope() as scope:
        await execute([make("leave", leave)], [call("leave")], interceptors=[observer])

    assert [what for what, _ in observer.reported] == ["watch", "begin", "end", "close"]
    assert observer.reported[-1] == ("close", [("c1", False)])


async def test_observed_calls_are_journaled_like_others() -> None:
    tool, runs = counting()
    observer = RecordingObserver()
    async with Journal.memory() as journal:
        for _ in range(2):
            await execute([tool], [call("count")], journal=journal, interceptors=[observer])
        entries = await journal.list()

    assert len(runs) == 1
    assert [entry.state for entry in entries] == ["finished"]
    assert [what for what, _ in observer.reported] == ["watch", "begin", "end", "close", "watch", "close"]


async def test_an_interceptor_that_answers_to_any_name_is_still_one() -> None:
    answer = AsyncMock(side_effect=_denied)

    (outcome,) = await execute([giving("")], [call("give")], interceptors=[answer])

    assert err(outcome).code == "denied"


async def _denied(one: Call, _ctx: Any, next: Any) -> Any:
    return replace(await next(), result=Err("denied", f"not {one.name}"))
