"""The scenarios of turns on engines: what the model says, what is killed, and what must come of it.

An engine's tests implement `TurnHarness` and run each of `TURN_SCENARIOS`. Workers build the runner of the turns with
`spindle.testing.engine_suite.turn_scenarios:build_turn_runner`; its model says what the first message tells it to.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import anyio
import anyio.abc

from spindle.calls import Call
from spindle.json_types import JsonObject, JsonValue
from spindle.testing.engine_suite.scenarios import Case, EngineHarness
from spindle.testing.engine_suite.tools import RELEASE, note_effect
from spindle.testing.engine_suite.worker_process import WAIT_SECONDS
from spindle.turns.context import DispatchContext
from spindle.turns.report import TurnReport
from spindle.turns.runner import TurnRunner

HOLD: Final = "hold"
"""A reply of the model that is not given until the held calls are released; the next one follows at once."""

_PAUSE_SECONDS: Final = 0.02

Reply: TypeAlias = str | Sequence[Call]
"""What the model says in one iteration: calls, or the final text. Text that begins with `HOLD` waits first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnReply:
    """The report of a turn, as the suite compares it."""

    status: str
    text: str
    calls: tuple[tuple[str, str], ...]
    """The id of each call, with `ok` or the code of its error."""
    state: JsonObject | None = None

    @classmethod
    def from_report(cls, report: TurnReport) -> "TurnReply":
        """Build the reply of a report."""
        calls = tuple((record.id, record.code or "ok") for record in report.tool_calls)
        return cls(status=report.status, text=report.text, calls=calls, state=report.state)


class TurnHarness(EngineHarness, Protocol):
    """One engine under test that also runs turns."""

    async def run_turn(self, message: str, *, turn_id: str) -> TurnReply:
        """Run a turn as a new caller would; cancelling it cancels the turn."""
        ...

    async def resume_turn(self, state: JsonObject, answers: Mapping[str, JsonValue]) -> TurnReply:
        """Resume a suspended turn, as a new caller with the same journal."""
        ...


def build_turn_runner(**settings: Any) -> TurnRunner:
    """Build the runner of the suite, for callers and workers."""
    return TurnRunner(executor_callback=_reply, on_wait="suspend", abort_grace_seconds=0.1, **settings)


async def _reply(ctx: DispatchContext) -> str | list[Call]:
    script = json.loads(str(ctx.messages[0]))
    note_effect(script["folder"], "model", f"{script['name']}-{ctx.iteration}")
    said = script["replies"][ctx.iteration]
    if isinstance(said, str):
        while said.startswith(HOLD) and not (Path(script["folder"]) / RELEASE).exists():  # noqa: ASYNC110
            await anyio.sleep(_PAUSE_SECONDS)
        return said
    return [Call(*each) for each in said]


@dataclass(kw_only=True)
class TurnCase(Case):
    """The state of one scenario of turns."""

    turns: TurnHarness
    """The same as the harness."""

    async def run(self, name: str, *replies: Reply) -> TurnReply:
        """Run a turn in which the model gives these replies; the same name is the same turn."""
        plain = [
            reply if isinstance(reply, str) else [[call.tool_call_id, call.name, call.args] for call in reply]
            for reply in replies
        ]
        message = json.dumps({"folder": str(self.harness.folder), "name": name, "replies": plain})
        return await self.turns.run_turn(message, turn_id=f"{self.session_id} {name}")


TurnScenario: TypeAlias = Callable[[TurnCase], Awaitable[None]]


async def plain_turn(case: TurnCase) -> None:
    """Run a turn of three iterations."""
    await case.harness.start_worker()
    reply = await case.run("t", [case.call("note", "a")], [case.call("note", "b"), case.call("note", "c")], "done")
    _expect(reply, "ok", "done", ("note-a", "ok"), ("note-b", "ok"), ("note-c", "ok"))
    for name in ("a", "b", "c"):
        _expect_count(case, name, 1)
    for number in range(3):
        _expect_count(case, f"t-{number}", 1, kind="model")


async def worker_killed_between_iterations(case: TurnCase) -> None:
    """Kill the worker after the calls of one iteration: another one goes on, and repeats no call."""
    first = await case.harness.start_worker()
    pending = _PendingTurn()
    async with anyio.create_task_group() as tasks:
        pending.start(tasks, case, "t", [case.call("note", "one")], f"{HOLD}: done")
        await case.wait_for("t-1", "model")
        await first.kill()
        case.release()
        await case.harness.start_worker()
    _expect(pending[0], "ok", f"{HOLD}: done", ("note-one", "ok"))
    _expect_count(case, "one", 1)
    _expect_count(case, "t-0", 1, kind="model")


async def worker_killed_inside_a_call(case: TurnCase) -> None:
    """Kill the worker inside of calls: a repeatable one runs again, the outcome of another one is unknown."""
    first = await case.harness.start_worker()
    pending = _PendingTurn()
    async with anyio.create_task_group() as tasks:
        calls = [case.call("hold", "once"), case.call("hold_again", "twice")]
        pending.start(tasks, case, "t", [case.call("note", "before")], calls, "done")
        await case.wait_for("once")
        await case.wait_for("twice")
        await first.kill()
        case.release()
        await case.harness.start_worker()
    _expect(pending[0], "ok", "done", ("note-before", "ok"), ("hold-once", "interrupted"), ("hold_again-twice", "ok"))
    _expect_count(case, "before", 1)
    _expect_count(case, "once", 1)
    _expect_count(case, "twice", 2)
    _expect_count(case, "t-1", 1, kind="model")


async def another_worker_takes_over_a_turn(case: TurnCase) -> None:
    """Kill the one of two workers that runs a turn: the other one goes on with it unaided."""
    workers = {each.pid: each for each in (await case.harness.start_worker(), await case.harness.start_worker())}
    pending = _PendingTurn()
    first = second = 0
    async with anyio.create_task_group() as tasks:
        pending.start(tasks, case, "t", [case.call("hold_again", "moved")], [case.call("note", "after")], "done")
        first = await case.wait_for("moved")
        await workers[first].kill()
        second = await case.wait_for("moved", times=2)
        case.release()
    _expect(pending[0], "ok", "done", ("hold_again-moved", "ok"), ("note-after", "ok"))
    _require({first, second} == set(workers), f"expected both workers to have run the call, got {first} and {second}")
    _expect_count(case, "after", 1)


async def turn_approved_across_restart(case: TurnCase) -> None:
    """Suspend a turn for an approval, restart caller and worker, approve: the call runs once."""
    first = await case.harness.start_worker()
    asked = await case.run("t", [case.call("note", "early"), case.call("pay", "bill")], "done")
    _require(asked.status == "suspended" and asked.state is not None, f"expected a suspended turn, got {asked}")
    state = json.loads(json.dumps(asked.state))
    await first.kill()
    await case.harness.start_worker()
    answers = {each["id"]: True for each in state["pending"]}
    paid = await case.turns.resume_turn(state, answers)
    again = await case.turns.resume_turn(state, answers)
    for reply in (paid, again):
        _expect(reply, "ok", "done", ("note-early", "ok"), ("pay-bill", "ok"))
    _expect_count(case, "early", 1)
    _expect_count(case, "bill", 1)


async def cancelled_turn(case: TurnCase) -> None:
    """Cancel a turn inside of a call: the call is cancelled, and the turn has ended for everybody."""
    await case.harness.start_worker()
    replies: tuple[Reply, ...] = ([case.call("hold", "stopped")], "done")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(case.run, "t", *replies)
        await case.wait_for("stopped")
        tasks.cancel_scope.cancel()
    await case.wait_for("stopped", "cancelled")
    again = await case.run("t", *replies)
    _require(again.status == "aborted", f"expected an aborted turn, got {again}")
    _expect_count(case, "stopped", 1)
    _expect_count(case, "t-1", 0, kind="model")


async def turn_started_twice(case: TurnCase) -> None:
    """Start the same turn twice at once, and again after its end: one run, one report."""
    await case.harness.start_worker()
    first, second = _PendingTurn(), _PendingTurn()
    replies: tuple[Reply, ...] = ([case.call("hold", "same")], "done")
    async with anyio.create_task_group() as tasks:
        first.start(tasks, case, "t", *replies)
        await case.wait_for("same")
        second.start(tasks, case, "t", *replies)
        await anyio.sleep(1)  # for the second start to arrive while the first is running
        case.release()
    third = await case.run("t", *replies)
    _expect(third, "ok", "done", ("hold-same", "ok"))
    _require([*first, *second] == [third, third], f"expected the same report three times: {first} {second} {third}")
    _expect_count(case, "same", 1)
    _expect_count(case, "t-0", 1, kind="model")
    _expect_count(case, "t-1", 1, kind="model")


TURN_SCENARIOS: Final[Mapping[str, TurnScenario]] = {
    each.__name__: each
    for each in (
        plain_turn,
        worker_killed_between_iterations,
        worker_killed_inside_a_call,
        another_worker_takes_over_a_turn,
        turn_approved_across_restart,
        cancelled_turn,
        turn_started_twice,
    )
}
"""The scenarios of turns by name."""


async def run_turn_scenario(name: str, harness: TurnHarness) -> None:
    """Run one scenario of turns.

    Raises:
        AssertionError: A report or an effect is not as expected.
        TimeoutError: Something did not happen in time.
    """
    with anyio.fail_after(2 * WAIT_SECONDS):
        await TURN_SCENARIOS[name](TurnCase(harness=harness, turns=harness))


class _PendingTurn(list[TurnReply]):
    """The report of a turn that is run in a task; complete once the task has ended."""

    def start(self, tasks: anyio.abc.TaskGroup, case: TurnCase, name: str, *replies: Reply) -> None:
        """Run a turn in a task."""

        async def run() -> None:
            self.append(await case.run(name, *replies))

        tasks.start_soon(run)


def _expect(reply: TurnReply, status: str, text: str, *calls: tuple[str, str]) -> None:
    found = (reply.status, reply.text, reply.calls)
    _require(found == (status, text, calls), f"expected {(status, text, calls)}, got {reply}")


def _expect_count(case: TurnCase, name: str, count: int, *, kind: str = "start") -> None:
    _require(case.count(name, kind) == count, f"expected {count} of {kind} {name!r}, got {case.effects()}")


def _require(condition: bool, problem: str) -> None:  # noqa: FBT001
    if not condition:
        raise AssertionError(problem)
