"""Which states and answers are accepted, states that are resumed twice, and turns whose process died."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from spindle import Call, DispatchContext, Executor, Journal, ToolRegistry, TurnReport, tool
from spindle.errors import (
    InvalidAnswersError,
    InvalidTurnContextError,
    InvalidTurnRunnerConfigError,
    InvalidTurnStateError,
    NackError,
    TurnConflictError,
)
from spindle.journal import StateQuery
from spindle.testing import ScriptedModel
from spindle.turns import Records
from tests.bounds import wait_until
from tests.journal.conftest import Place, place
from tests.turns.crashing_turns import TURN, act
from tests.turns.suspended_scene import KEY, LOOK, PAY, Shop, results, waits

pytestmark = pytest.mark.anyio
__all__ = ["place"]

ROOT = Path(__file__).resolve().parents[2]


async def count_saved(journal: Journal) -> int:
    assert journal.states is not None
    return len(await journal.states.select(StateQuery("turn")))


async def test_an_unknown_answer_is_refused_before_anything_runs(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")
    report = await shop.run()

    with pytest.raises(InvalidAnswersError) as caught:
        await shop.resume(report.state, {waits(report)[0]: True, "another": True})

    assert (caught.value.reason, caught.value.ids, shop.ran) == ("unknown", ("another",), [])
    assert (await shop.resume(report.state, {waits(report)[0]: True})).status == "ok"


async def test_a_turn_without_any_answer_is_refused(place: Place) -> None:
    shop = Shop(place.journal(), [PAY, Call("c2", "confirm", {"question": "sure"})], "done")
    report = await shop.run()

    with pytest.raises(InvalidAnswersError) as caught:
        await shop.resume(report.state)

    assert (caught.value.reason, set(caught.value.ids)) == ("missing", set(waits(report)))


@pytest.mark.parametrize("answer", ["yes", 1, None, {}, {"approved": 1}, {"approved": True, "more": 1}, {"args": {}}])
async def test_a_ticket_is_answered_by_yes_or_no(answer: Any) -> None:
    shop = Shop(Journal.memory(), [PAY], "done")
    report = await shop.run()

    with pytest.raises(InvalidAnswersError) as caught:
        await shop.resume(report.state, {waits(report)[0]: answer})

    assert (caught.value.reason, caught.value.ids) == ("invalid", tuple(waits(report)))


async def test_the_answer_of_a_gate_must_be_json() -> None:
    shop = Shop(Journal.memory(), [Call("c1", "confirm", {"question": "sure"})], "done")
    report = await shop.run()

    with pytest.raises(InvalidAnswersError) as caught:
        await shop.resume(report.state, {"confirm sure": object()})

    assert caught.value.reason == "invalid"


async def test_a_state_that_is_resumed_twice_gives_the_same_report_and_no_second_effect(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], [LOOK], "done")
    report = await shop.run()
    answers = {waits(report)[0]: True}
    first = await shop.resume(report.state, answers)

    second = await shop.resume(report.state, answers)

    assert (second.status, second.text, second.iterations) == (first.status, first.text, first.iterations)
    assert results(second) == results(first)
    assert shop.ran == ["pay 5", "look tea"]


async def test_an_old_state_continues_where_the_turn_is_now(place: Place) -> None:
    other = Call("c3", "pay", {"amount": 7})
    shop = Shop(place.journal(), [PAY], [other], "done")
    report = await shop.run()
    answers = {waits(report)[0]: True}
    newer = await shop.resume(report.state, answers)

    again = await shop.resume(report.state, answers)

    assert (waits(again), again.state) == (waits(newer), newer.state)
    assert (await shop.resume(report.state, {waits(newer)[0]: True})).text == "done"
    assert shop.ran == ["pay 5", "pay 7"]


async def test_of_two_runners_that_resume_at_once_one_goes_on(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], [LOOK], "done")
    report = await shop.run()
    answers = {waits(report)[0]: True}
    ends: list[TurnReport | TurnConflictError] = []

    async def resume() -> None:
        try:
            ends.append(await shop.resume(report.state, answers))
        except TurnConflictError as error:
            ends.append(error)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(resume)

    assert sorted(shop.ran) == ["look tea", "pay 5"]
    reports = [each for each in ends if isinstance(each, TurnReport)]
    assert any(each.status == "ok" for each in reports)
    assert all(each.status == "ok" or isinstance(each.error, TurnConflictError) for each in reports)


async def test_a_runner_whose_turn_was_taken_over_runs_no_more_calls(place: Place) -> None:
    """The first one waits for its model while another one resumes the turn from the journal."""
    shop = Shop(place.journal())
    reached, released = anyio.Event(), anyio.Event()

    async def slow_model(ctx: Any) -> Any:
        reached.set()
        await released.wait()
        return [LOOK]

    ends: list[TurnReport] = []
    taken: TurnReport | None = None

    async def first() -> None:
        ends.append(await shop.runner(executor_callback=slow_model).run(turn_id="t1"))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await reached.wait()
            taken = await shop.runner(executor_callback=ScriptedModel([PAY], "done")).resume(turn_id="t1")
            released.set()

    assert taken is not None
    assert taken.status == "suspended"
    assert (ends[0].status, shop.ran) == ("error", [])
    assert isinstance(ends[0].error, TurnConflictError)
    assert ends[0].error.turn_id == "t1"


async def test_a_turn_of_another_journal_is_unknown(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")
    report = await shop.run()
    shop.journal = Journal.memory()

    both: list[dict[str, Any]] = [
        {"state": report.state, "answers": {waits(report)[0]: True}},
        {"turn_id": report.turn_id},
    ]
    for arguments in both:
        with pytest.raises(InvalidTurnStateError) as caught:
            await shop.runner().resume(**arguments)
        assert caught.value.reason == "unknown"


async def test_a_state_without_tickets_is_resumed_in_another_journal(place: Place) -> None:
    shop = Shop(place.journal(), [Call("c1", "confirm", {"question": "sure"})], "done")
    report = await shop.run()
    shop.journal = Journal.memory()

    ended = await shop.resume(report.state, {"confirm sure": True})

    assert results(ended) == [("c1", "sure: True")]
    assert results(await shop.resume(report.state, {"confirm sure": False})) == results(ended)


async def test_a_runner_without_a_journal_cannot_resume() -> None:
    shop = Shop(Journal.memory(), [PAY], "done")
    report = await shop.run()

    with pytest.raises(InvalidTurnRunnerConfigError):
        await shop.runner(journal=None, state_key=None, on_wait=None).resume(report.state)


async def test_a_turn_that_ended_without_being_suspended_leaves_nothing(place: Place) -> None:
    shop = Shop(place.journal(), [LOOK], "done")

    report = await shop.run(turn_id="t1")

    assert (report.status, report.turn_id) == ("ok", "t1")
    assert await count_saved(place.journal()) == 0


async def test_a_known_turn_id_is_not_run_again(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")
    report = await shop.run(turn_id="t1")

    again = await shop.run(turn_id="t1")

    assert (report.status, again.status) == ("suspended", "error")
    assert isinstance(again.error, TurnConflictError)


async def test_a_turn_whose_model_failed_can_be_resumed(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], OSError("down"))
    report = await shop.run()
    answers = {waits(report)[0]: True}
    failed = await shop.resume(report.state, answers)
    assert failed.status == "error"
    shop.script = ([PAY], "done")

    ended = await shop.resume(report.state, answers)

    assert (ended.status, shop.ran) == ("ok", ["pay 5"])


def refuse(ctx: DispatchContext) -> None:
    ctx.nack("no")


async def test_the_end_of_a_nacked_turn_is_remembered(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], refuse)
    report = await shop.run()
    answers = {waits(report)[0]: True}
    first = await shop.resume(report.state, answers)

    second = await shop.resume(report.state, answers)

    assert (first.status, second.status, shop.ran) == ("nack", "nack", ["pay 5"])
    assert isinstance(second.error, NackError)


async def test_a_turn_is_saved_without_suspending_where_there_is_a_key(place: Place) -> None:
    """With a journal and a state key, a turn whose process died is resumed, whatever `on_wait` says."""
    shop = Shop(place.journal(), Call("c1", "look", {"what": "tea"}), OSError("down"), on_wait=None)
    report = await shop.run(turn_id="t1")
    assert report.status == "error"
    shop.script = (Call("c1", "look", {"what": "tea"}), "done")

    ended = await shop.runner().resume(turn_id="t1")

    assert (ended.status, shop.ran) == ("ok", ["look tea"])
    assert results(ended) == [("c1", "saw tea")]
    assert await count_saved(place.journal()) == 0


async def test_records_that_were_stored_before_the_crash_are_not_stored_twice(place: Place) -> None:
    records = Records.memory()
    shop = Shop(place.journal(), [LOOK], OSError("down"), records=records)
    await shop.run(turn_id="t1")
    shop.script = ([LOOK], "done")

    ended = await shop.runner().resume(turn_id="t1")

    assert (ended.status, [each.id for each in (await records.load("t1")).tool_calls]) == ("ok", ["c2"])
    assert shop.ran == ["look tea"]


async def test_the_cancel_signal_of_a_resumed_turn_is_checked_and_used(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")
    report = await shop.run()
    answers, stop = {waits(report)[0]: True}, anyio.Event()
    with pytest.raises(InvalidTurnContextError):
        await shop.resume(report.state, answers, cancel=cast("Any", "now"))
    stop.set()

    ended = await shop.resume(report.state, answers, cancel=stop)

    assert (ended.status, shop.ran) == ("aborted", [])


async def test_a_dry_run_is_not_saved(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")

    report = await shop.run(dry_run=True)

    assert (report.status, shop.ran, await count_saved(place.journal())) == ("ok", [], 0)


async def test_an_interrupted_call_is_reconciled(place: Place) -> None:
    """The first process is gone while the call runs; the second one asks the tool what became of it."""
    ran: list[str] = []

    @tool(reconcile=lambda _key, _ctx: None, idempotent=True)
    async def slow() -> str:
        """Take long."""
        ran.append("slow")
        if len(ran) == 1:
            started.set()
            await anyio.sleep_forever()
        return "done late"

    started = anyio.Event()
    shop = Shop(place.journal(), [Call("c1", "slow")], "done")
    shop.tools = [slow]
    ended: TurnReport | None = None
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: shop.run(turn_id="t1"))
            await started.wait()
            shop.journal = place.restarted()
            ended = await shop.runner().resume(turn_id="t1")
            tasks.cancel_scope.cancel()

    assert ended is not None
    assert (ended.status, results(ended), ran) == ("ok", [("c1", "done late")], ["slow", "slow"])


async def test_a_pending_approval_of_a_saved_turn_can_be_answered_by_another_executor(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")
    report = await shop.run()
    executor = Executor(ToolRegistry(shop.tools), journal=place.journal(), state_key=KEY)
    answers = await executor.resume(waits(report)[0]), await executor.resume(waits(report)[0])

    ended = await shop.resume(report.state, {waits(report)[0]: True})

    assert [each.result.ok for each in answers] == [True, True]
    assert (ended.status, shop.ran) == ("ok", ["pay 5"])


def start(backend: str, folder: Path, die_at: str, action: str) -> "subprocess.Popen[bytes]":
    program = [sys.executable, "-m", "tests.turns.crashing_turns", backend, str(folder), die_at, action]
    return subprocess.Popen(program, cwd=ROOT)


def count_lines(path: Path) -> Counter[str]:
    return Counter(path.read_text().split() if path.exists() else [])


@pytest.mark.one_loop
@pytest.mark.parametrize(
    "die_at",
    [
        "after 2",
        *(pytest.param(point, marks=pytest.mark.slow) for point in ("model 0", "before 1", "after 3", "model 3")),
    ],
)
async def test_a_killed_turn_is_resumed_from_the_journal_alone(anyio_backend: str, tmp_path: Path, die_at: str) -> None:
    with start(anyio_backend, tmp_path, die_at, "run") as process:
        assert process.wait(60) == -signal.SIGKILL

    with anyio.fail_after(60):
        suspended = await act(tmp_path, "never", "continue")
        assert suspended.status == "suspended", suspended.error
        ended = await act(tmp_path, "never", "answer")

    died_in = {"before 1": {"1", "2"}, "after 2": {"1", "2"}, "after 3": {"3"}}.get(
        die_at, set()
    )  # 1 and 2 run together
    check(ended, tmp_path, died_in=died_in)
    assert count_lines(tmp_path / "asked")["0"] == (2 if die_at == "model 0" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("die_at", ["after 4", "before 4", "model 4"])
async def test_a_resumed_turn_that_is_killed_is_resumed_again(anyio_backend: str, tmp_path: Path, die_at: str) -> None:
    for action, point in (("run", "never"), ("answer", die_at)):
        with start(anyio_backend, tmp_path, point, action) as process:
            assert process.wait(60) == (0 if point == "never" else -signal.SIGKILL)

    with anyio.fail_after(60):
        ended = await act(tmp_path, "never", "answer")

    check(ended, tmp_path, died_in={"4"} if "model" not in die_at else set())


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 8])
async def test_a_turn_that_is_killed_at_any_instant_repeats_no_effect(
    anyio_backend: str, tmp_path: Path, kills: int
) -> None:
    chance, action = random.Random(anyio_backend), "run"
    for _ in range(kills):
        before = sum(count_lines(tmp_path / "asked").values())
        with start(anyio_backend, tmp_path, "never", action) as process:
            wait_until(
                lambda before=before, process=process: (
                    sum(count_lines(tmp_path / "asked").values()) > before or process.poll() is not None
                )
            )
            await anyio.sleep(chance.random() * 0.03)  # not to wait for something: any instant will do
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
        action = "answer" if (tmp_path / "state").exists() else "continue"
    with anyio.fail_after(60):
        ended = await act(tmp_path, "never", action)
        if ended.status == "suspended":
            ended = await act(tmp_path, "never", "answer")

    check(ended, tmp_path, died_in=set("1234"))


def check(ended: TurnReport, folder: Path, *, died_in: set[str]) -> None:
    """Every note was made once, but for those in which the process died: they are reported as interrupted."""
    assert (ended.status, ended.text, ended.turn_id) == ("ok", "done", TURN)
    outcomes = {str(record.args["n"]): record for record in ended.tool_calls}
    ran = count_lines(folder / "ran")
    assert sorted(outcomes) == list("1234")
    assert all(times == 1 for times in ran.values()), ran
    for number, record in outcomes.items():
        if record.is_error:
            assert number in died_in
            assert record.code == "interrupted"
        else:
            assert (record.results, ran[number]) == (f"noted {number}", 1)
