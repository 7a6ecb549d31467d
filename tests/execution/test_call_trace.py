"""What happens inside a batch is recorded with each call, and changes nothing else."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing

from spindle import Budget, Executor, Journal, Tool, ToolContext, ToolRegistry
from spindle.execution import ApprovalAnswer, CallTiming, Retries
from spindle.execution.call_trace import FIRST_EVENTS, LAST_EVENTS, MAX_EVENT_CHARS, MAX_KEPT_CHARS, find_clock
from tests.execution.calling import call, err, execute, giving, make

pytestmark = pytest.mark.anyio

SECRET = "sesame-4711"


async def read(journal: Journal, call_id: str = "c1") -> CallTiming:
    entry = await journal.get(call_id)
    assert entry is not None
    timing = CallTiming.read(entry)
    assert timing is not None, entry.result
    return timing


async def run_one(tool: Tool, args: Any = None, **settings: Any) -> CallTiming:
    journal = Journal.memory()
    await execute([tool], [call(tool.name, args)], journal=journal, **settings)
    return await read(journal)


def simulate(main: Callable[[], Awaitable[None]]) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def sleeping(seconds: float, name: str = "sleep", **options: Any) -> Tool:
    async def sleep(_args: Any, _ctx: Any, _meta: Any) -> str:
        await anyio.sleep(seconds)
        return "slept"

    return make(name, sleep, **options)


def name_file(_args: Any) -> list[str]:
    return ["file:a.txt"]


def name_account(args: Any) -> list[str]:
    return [f"account:{args['token']}"]


def get_durations(timing: CallTiming) -> dict[str, float]:
    found: dict[str, float] = {}
    for span in timing.spans:
        found[span.kind] = found.get(span.kind, 0.0) + span.duration_ms
    return {kind: ms for kind, ms in found.items() if ms}


def test_waits_for_locks_slots_and_siblings_have_spans_of_their_own() -> None:
    async def main() -> None:
        journal = Journal.memory()
        lock: dict[str, Any] = {"resources": name_file}
        tools = [sleeping(2, "writes", **lock), sleeping(3, "waits", **lock), giving("quick", "quick")]
        calls = [call("writes", {}, "c1"), call("waits", {}, "c2"), call("quick", {}, "c3")]
        await execute(tools, calls, journal=journal, timeout_seconds=60, batch_timeout_seconds=90)
        writes, waits, quick = [await read(journal, each) for each in ("c1", "c2", "c3")]

        assert len({writes.batch_id, waits.batch_id, quick.batch_id}) == 1
        assert [(each.batch_calls, each.position) for each in (writes, waits, quick)] == [(3, 0), (3, 1), (3, 2)]
        assert get_durations(writes)["handler"] == 2000
        assert get_durations(waits) == {"locks": 2000, "handler": 3000}
        assert [span.names for span in waits.spans if span.kind == "locks"] == [("file:a.txt",)]
        assert (waits.started_ms, waits.ended_ms) == (2000, 5000)
        assert waits.deadline_ms == 62_000  # waiting for others does not count
        assert (quick.deadline_ms, quick.batch_deadline_ms) == (60_000, 90_000)
        assert quick.ended_ms == 0

    simulate(main)


def test_queued_calls_wait_for_a_task_and_other_batches_for_a_slot() -> None:
    async def main() -> None:
        journal = Journal.memory()
        executor = Executor(ToolRegistry([sleeping(2)]), journal=journal, concurrency=1)

        async def run(call_id: str, turn: str) -> None:
            calls = [call("sleep", {"n": n}, f"{call_id}{n}") for n in range(2 if turn == "t1" else 1)]
            await executor.execute_parallel(calls, ToolContext("s1", turn_id=turn))

        async with anyio.create_task_group() as group:
            group.start_soon(run, "a", "t1")
            await anyio.sleep(1)
            group.start_soon(run, "b", "t2")
        queued, other = await read(journal, "a1"), await read(journal, "b0")

        assert get_durations(queued)["queue"] == 2000
        assert get_durations(other)["slot"] in {1000, 3000}

    simulate(main)


def test_retries_and_their_pauses_are_recorded() -> None:
    async def main() -> None:
        journal, fails = Journal.memory(), [1, 1]

        async def flaky(_args: Any, _ctx: Any, _meta: Any) -> str:
            await anyio.sleep(1)
            if fails:
                fails.pop()
                raise ConnectionError
            return "fine"

        retries = Retries(times=3, first_wait_seconds=4, max_wait_seconds=60)
        await execute([make("flaky", flaky, idempotent=True)], [call("flaky")], journal=journal, retries=retries)
        timing = await read(journal)

        assert [(span.kind, span.duration_ms) for span in timing.spans if span.duration_ms] == [
            ("handler", 1000),
            ("retry", 4000),
            ("handler", 1000),
            ("retry", 8000),
            ("handler", 1000),
        ]

    simulate(main)


async def test_a_call_that_never_ran_is_recorded_as_far_as_it_came() -> None:
    journal = Journal.memory()

    await execute([giving("x")], [call("give"), call("nobody", {}, "c2")], journal=journal)
    given, refused = await read(journal), await read(journal, "c2")

    assert (refused.batch_id, refused.position, refused.started_ms) == (given.batch_id, 1, None)
    assert refused.share_chars is None
    assert "handler" not in {span.kind for span in refused.spans}


async def test_the_budget_share_and_what_was_cut_are_recorded() -> None:
    journal = Journal.memory()
    tools = [giving("x" * 500, "long"), giving("short", "short")]

    await execute(tools, [call("long"), call("short", {}, "c2")], journal=journal, budget=Budget(200))
    cut, whole = await read(journal), await read(journal, "c2")

    assert (cut.share_chars, cut.is_truncated, cut.is_spooled) == (100, True, True)
    assert (whole.share_chars, whole.used_chars, whole.is_truncated) == (100, 5, False)
    assert "fit" in {span.kind for span in cut.spans}


async def test_events_of_a_call_are_kept_although_no_one_observes_them() -> None:
    async def talk(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        ctx.progress("half", 50)
        ctx.log("info", "read the file", path="a.txt")
        return "done"

    timing = await run_one(make("talk", talk))

    assert [(event.kind, event.text) for event in timing.events] == [
        ("progress", "50 % half"),
        ("log", "info: read the file"),
    ]


async def test_events_from_threads_are_kept() -> None:
    def talk(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        ctx.progress((threading.current_thread().name != "MainThread" and "from a thread") or "")
        return "done"

    timing = await run_one(make("talk", talk))

    assert [event.text for event in timing.events] == ["from a thread"]


async def test_events_from_processes_are_kept() -> None:
    def talk(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        for number in range(1_000):
            ctx.progress(f"step {number}")
        return "done"

    timing = await run_one(make("talk", talk, isolation="process"))

    assert [event.text for event in timing.events][:2] == ["step 0", "step 1"]


async def test_a_flood_of_events_keeps_the_first_and_the_last() -> None:
    async def talk(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        for number in range(1_000):
            ctx.progress(f"step {number}")
        return "done"

    texts = [event.text for event in (await run_one(make("talk", talk))).events]

    assert len(texts) == FIRST_EVENTS + LAST_EVENTS
    assert texts[:FIRST_EVENTS] == [f"step {number}" for number in range(FIRST_EVENTS)]
    assert texts[FIRST_EVENTS] == f"{1_000 - FIRST_EVENTS - LAST_EVENTS + 1} events were not kept"
    assert texts[-1] == "step 999"


async def test_long_and_odd_events_are_bounded() -> None:
    async def talk(_args: Any, ctx: Any, _meta: Any) -> str:
        ctx.progress("y" * (MAX_EVENT_CHARS + 1))
        ctx.progress("z" * (MAX_KEPT_CHARS + 1))
        ctx.progress(object(), percent=object())
        ctx.log(object(), None)
        return "done"

    texts = [event.text for event in (await run_one(make("talk", talk))).events]

    assert texts == ["y" * (MAX_EVENT_CHARS - 1) + "…", f"({MAX_KEPT_CHARS + 1} characters)", "(object)", ""]


async def test_secrets_do_not_reach_the_recorded_events_and_resources() -> None:
    async def talk(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        ctx.progress("x" * (MAX_EVENT_CHARS - 5) + SECRET)  # cutting it first would leave half of it
        ctx.log("info", f"token {SECRET}")
        await anyio.lowlevel.checkpoint()
        return "done"

    journal = Journal.memory()
    tool = make("talk", talk, secret_fields=["token"], resources=name_account)
    calls = [call("talk", {"token": SECRET, "n": n}, f"c{n}") for n in range(2)]
    await execute([tool], calls, journal=journal)

    for entry in await journal.list():
        assert SECRET[:5] not in str(entry.result)
        assert "account:***" in str(entry.result) or entry.tool_call_id == "c0"


async def test_warnings_about_a_call_are_kept_with_it() -> None:
    def fail(_args: Any, _ctx: Any) -> None:
        raise OSError("boom")

    timing = await run_one(giving("x", checks=[fail]))

    assert [(event.kind, event.text) for event in timing.events] == [
        ("warning", "a check of 'give' raised OSError (OSError)")
    ]


async def test_an_approval_shows_the_question_the_answer_and_the_wait() -> None:
    async def approve(_request: Any) -> ApprovalAnswer:
        await anyio.lowlevel.checkpoint()
        return ApprovalAnswer(approved=True, by="ada")

    timing = await run_one(giving("x", requires_approval=True), approve=approve)

    assert [(event.kind, event.text) for event in timing.events] == [
        ("approval", "asked"),
        ("approval", "approved: by ada"),
    ]
    assert "approval" in {span.kind for span in timing.spans}


async def test_a_resumed_call_shows_when_it_was_asked_and_answered_before() -> None:
    journal = Journal.memory()
    executor = Executor(ToolRegistry([giving("x", requires_approval=True)]), journal=journal, state_key=b"k" * 32)
    (waiting,) = await executor.execute_parallel([call("give")], ToolContext("s1"))
    first = await read(journal)
    await executor.resume(err(waiting).ticket or "", by="ada")
    second = await read(journal)

    assert [(event.kind, event.text) for event in first.events] == [("approval", "asked")]
    assert first.started_ms is None
    assert [(event.kind, event.text) for event in second.events] == [
        ("approval", "asked"),
        ("approval", "approved: by ada"),
    ]
    assert second.events[0].at_ms <= second.events[1].at_ms <= 0
    assert second.started_ms is not None


async def test_a_direct_call_is_recorded() -> None:
    inner = giving("inside", "inner")

    async def outer(_args: Any, ctx: ToolContext, _meta: Any) -> Any:
        return await inner.executor(ctx)({})

    journal = Journal.memory()
    await execute([make("outer", outer), inner], [call("outer")], journal=journal)
    timings = {entry.tool: CallTiming.read(entry) for entry in await journal.list()}

    assert all(timing is not None and timing.started_ms is not None for timing in timings.values())
    assert set(timings) == {"outer", "inner"}


async def test_a_batch_without_a_journal_and_a_dry_run_record_nothing() -> None:
    seen: list[Any] = []

    async def look(_args: Any, ctx: Any, _meta: Any) -> str:
        seen.append(ctx._recorder)
        return "done"

    await execute([make("look", look)], [call("look")])

    assert seen == [None]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # tasks of trio leave cycles of their own
async def test_a_recorded_call_leaves_no_reference_cycle() -> None:
    executor = Executor(ToolRegistry([giving("x")]), journal=Journal.memory())
    await executor.execute_parallel([call("give", {}, "c0")], ToolContext("s1"))
    gc.collect()
    gc.disable()
    try:
        for number in range(20):
            await executor.execute_parallel([call("give", {}, f"d{number}")], ToolContext("s1"))
        found = [each for each in gc.get_objects() if type(each).__name__ in {"CallTrace", "BatchTrace"}]
    finally:
        gc.enable()

    assert not found


class _SlowLoop(asyncio.SelectorEventLoop):
    def time(self) -> float:
        return super().time() / 2


@pytest.mark.parametrize("make", [asyncio.SelectorEventLoop, _SlowLoop])
def test_the_clock_of_a_task_is_that_of_its_loop(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def compare() -> None:
        loop: Any = asyncio.get_running_loop()
        before = loop.time()
        assert before <= find_clock(asyncio.current_task())() <= loop.time()
        loop.time = lambda: 7.0  # as tests with a clock of their own do it
        try:
            assert find_clock(asyncio.current_task())() == 7.0
        finally:
            del loop.time

    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(compare())
