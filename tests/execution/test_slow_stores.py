"""A slow journal, spool, media reader or observer holds a call until its deadline at most; a leaving caller, never."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from spindle import Artifact, Budget, Executor, JsonArtifact, Media, Ok, Spool, ToolContext, ToolRegistry
from spindle.artifacts import MemoryStore
from spindle.journal import Claim, Row
from tests.execution.calling import call, counting, err, execute, giving, hearing, make, ok
from tests.execution.journals import WatchedStore

pytestmark = pytest.mark.anyio

SOON = 0.4
"""Some of these calls have to be answered before."""
LONG = "line\n" * 100_000


class SlowStore(WatchedStore):
    """A store that begins calls when it may, and cannot be cancelled meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.is_beginning = anyio.Event()
        self.may_begin = anyio.Event()

    async def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        self.is_beginning.set()
        known: list[Row | None] = []
        with anyio.CancelScope(shield=True):
            await self.may_begin.wait()
            known += await super().begin(claims)
        return known


async def wait_for_state(store: WatchedStore, state: tuple[str, str | None, int]) -> None:
    while [(each.state, each.code, each.attempts) for each in await store.journal.list()] != [state]:
        await anyio.lowlevel.checkpoint()


async def test_a_call_whose_intent_is_not_written_in_time_is_timed_out_and_never_runs() -> None:
    store, (ctx, warnings) = SlowStore(), hearing()
    tool, runs = counting(timeout_seconds=SOON)

    with anyio.fail_after(30):
        (outcome,) = await execute([tool], [call("count")], journal=store.journal, ctx=ctx)
        store.may_begin.set()
        await wait_for_state(store, ("finished", "timed_out", 0))
        (again,) = await execute([tool], [call("count")], journal=store.journal, timeout_seconds=None)

    assert (err(outcome).code, outcome.attempts) == ("timed_out", 0)
    assert "journal" in [each.source for each in warnings]
    assert (ok(again).value, len(runs)) == ("ran", 1)


async def test_a_call_with_more_time_runs_when_its_intent_is_written() -> None:
    store = SlowStore()
    hasty, hasty_runs = counting("hasty", timeout_seconds=SOON)
    patient, patient_runs = counting("patient", timeout_seconds=60)
    ctx = ToolContext("s1")
    ctx.events.on("warning", lambda _warning: store.may_begin.set())

    with anyio.fail_after(30):
        late, fine = await execute(
            [hasty, patient], [call("hasty"), call("patient", {}, "c2")], journal=store.journal, ctx=ctx
        )

    assert (err(late).code, ok(fine).value) == ("timed_out", "ran")
    assert (len(hasty_runs), len(patient_runs)) == (0, 1)
    states = {each.tool_call_id: (each.state, each.code, each.attempts) for each in await store.journal.list()}
    assert states == {"c1": ("finished", "timed_out", 0), "c2": ("finished", None, 1)}


async def test_a_caller_that_leaves_does_not_wait_for_an_intent() -> None:
    store = SlowStore()
    tool, runs = counting()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: execute([tool], [call("count")], journal=store.journal))
            await store.is_beginning.wait()
            group.cancel_scope.cancel()
        assert not store.may_begin.is_set()
        store.may_begin.set()
        await wait_for_state(store, ("finished", "cancelled", 0))

    assert runs == []


async def test_a_batch_does_not_wait_for_outcomes_that_are_written_while_others_run() -> None:
    store = WatchedStore()
    store.may_finish = anyio.Event()

    async def slow(_args: Any, _ctx: Any, _meta: Any) -> str:
        await store.is_finishing.wait()
        return "slow"

    tools = [giving("quick"), make("slow", slow)]
    with anyio.fail_after(30):
        outcomes = await execute(
            tools, [call("give"), call("slow", {}, "c2")], journal=store.journal, timeout_seconds=SOON
        )
        store.may_finish.set()
        await store.wait_for(2)

    assert [ok(each).value for each in outcomes] == ["quick", "slow"]


class BadReader:
    """A media reader whose methods do the same."""

    def __init__(self, act: Callable[[], Awaitable[Any]]) -> None:
        self._act = act

    async def byte_length(self) -> int:
        return await self._act()

    async def as_bytes(self) -> bytes:
        return await self._act()

    async def stream(self) -> AsyncIterator[bytes]:
        yield await self._act()


def returning_media(act: Callable[[], Awaitable[Any]], **options: Any) -> Any:
    reader: Any = BadReader(act)
    media = Media.tool_generated(reader, kind="image", mime_type="image/png", filename="chart.png")
    return giving(Ok("drawn", media=(media,)), "draw", **options)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, ValueError])
@pytest.mark.parametrize("count", [1, 2])
async def test_whatever_a_reader_of_returned_media_raises_every_outcome_is_written(
    error: type[BaseException], count: int
) -> None:
    store = WatchedStore()

    async def act() -> Any:
        raise error

    calls = [call("draw"), call("give", {}, "c2")][:count]
    with anyio.fail_after(30):
        outcomes = await execute([returning_media(act), giving("fine")], calls, journal=store.journal)

    assert [ok(each).value for each in outcomes] == ["drawn", "fine"][:count]
    assert [each.state for each in await store.journal.list()] == ["finished"] * count


@pytest.mark.slow
@pytest.mark.parametrize("is_shielded", [False, True])
async def test_a_reader_of_returned_media_that_hangs_holds_its_call_until_the_deadline(is_shielded: bool) -> None:
    store, release, (ctx, warnings) = WatchedStore(), anyio.Event(), hearing()

    async def hang() -> Any:
        with anyio.CancelScope(shield=is_shielded):
            await release.wait()
        raise ValueError("unreadable")

    calls = [call("draw"), call("give", {}, "c2")]
    with anyio.fail_after(30):
        tools = [returning_media(hang, timeout_seconds=SOON), giving("fine")]
        outcomes = await execute(tools, calls, journal=store.journal, ctx=ctx)
        states = [each.state for each in await store.journal.list()]
        release.set()

    assert [ok(each).value for each in outcomes] == ["drawn", "fine"]
    assert states == ["finished"] * 2
    assert is_shielded or [each.source for each in warnings] == ["journal"]


class SlowSpool:
    """A spool that writes when it may."""

    def __init__(self) -> None:
        self._spool = Spool.memory()
        self.may_write, self.is_writing = anyio.Event(), anyio.Event()
        self.written: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spool, name)

    async def write(self, id: str, content: Any, **facts: Any) -> Any:
        self.is_writing.set()
        with anyio.CancelScope(shield=True):
            await self.may_write.wait()
        reader = await self._spool.write(id, content, **facts)
        self.written.append(id)
        return reader


async def test_a_result_is_given_at_its_deadline_while_its_full_text_is_still_being_spooled() -> None:
    spool, (ctx, warnings) = SlowSpool(), hearing()

    with anyio.fail_after(30):
        (outcome,) = await execute([giving(LONG, timeout_seconds=SOON)], [call("give")], ctx=ctx, spool=spool)
        shown = ok(outcome)
        spool.may_write.set()
        while not spool.written:
            await anyio.lowlevel.checkpoint()

    assert 0 < len(shown.value) < len(LONG)
    assert shown.artifact is None
    assert ok(outcome) is shown
    assert [each.source for each in warnings] == ["spool"]


async def test_a_spool_that_is_in_time_keeps_the_full_text() -> None:
    spool = SlowSpool()
    spool.may_write.set()

    (outcome,) = await execute([giving(LONG)], [call("give")], spool=spool)

    artifact: Any = ok(outcome).artifact
    assert isinstance(artifact, Artifact)
    assert await artifact.as_text() == LONG


@pytest.mark.slow
async def test_a_result_that_is_spooled_in_time_is_shown_as_such_beside_one_that_is_late() -> None:
    class SecondIsSlow(SlowSpool):
        async def write(self, id: str, content: Any, **facts: Any) -> Any:
            return await (super().write if id.endswith("c2") else self._spool.write)(id, content, **facts)

    spool = SecondIsSlow()
    calls = [call("give"), call("give", {"n": 1}, "c2"), call("give", {"n": 2}, "c3")]
    with anyio.fail_after(30):
        outcomes = await execute([giving(LONG, timeout_seconds=1)], calls, spool=spool, budget=Budget(chars=300))
        spool.may_write.set()

    assert [f"[truncated — {len(LONG)} chars total]" in ok(each).value for each in outcomes] == [True] * 3
    assert [ok(each).artifact is not None for each in outcomes] == [True, False, False]


class SlowNotes(WatchedStore):
    """A store that writes refused calls when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_note = anyio.Event()

    async def note(self, rows: Sequence[Row]) -> None:
        await self.may_note.wait()
        await super().note(rows)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"timeout_seconds": SOON}, {"batch_timeout_seconds": SOON}])
async def test_refused_calls_do_not_wait_for_the_journal_longer_than_calls_that_run(settings: dict[str, Any]) -> None:
    store, (ctx, warnings) = SlowNotes(), hearing()

    with anyio.fail_after(30):
        calls = [call("nothing"), call("give", "{", "c2")]
        outcomes = await execute([giving("x")], calls, journal=store.journal, ctx=ctx, **settings)
        store.may_note.set()
        while len(await store.journal.list()) < len(calls):
            await anyio.lowlevel.checkpoint()

    assert [err(each).code for each in outcomes] == ["not_available", "input_invalid"]
    assert [each.source for each in warnings] == ["journal"]


ANY_ERROR = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, OSError]


@pytest.mark.parametrize("error", ANY_ERROR)
async def test_whatever_a_spool_raises_every_call_is_answered(error: type[BaseException]) -> None:
    class BrokenStore(MemoryStore):
        async def write(self, *_args: Any, **_facts: Any) -> Any:
            raise error

    ctx, warnings = hearing()
    calls = [call("give"), call("small", {}, "c2")]
    tools = [giving(LONG), giving("fine", "small")]
    outcomes = await execute(tools, calls, spool=Spool(BrokenStore()), ctx=ctx)

    assert f"[truncated — {len(LONG)} chars total]" in ok(outcomes[0]).value
    assert ok(outcomes[1]).value == "fine"
    assert [(each.source, type(each.error)) for each in warnings] == [("spool", error)]


@pytest.mark.parametrize("error", ANY_ERROR)
@pytest.mark.parametrize("is_constructed", [True, False])
@pytest.mark.parametrize("has_spool", [True, False])
async def test_whatever_an_artifact_class_raises_the_result_is_a_plain_artifact(
    error: type[BaseException], is_constructed: bool, has_spool: bool
) -> None:
    class Picky(JsonArtifact):
        def __init__(self, reader: Any) -> None:
            super().__init__(reader)
            if not is_constructed:
                raise error

        async def json_type(self) -> Any:
            raise error

    ctx, warnings = hearing()
    settings = {} if has_spool else {"spool": None}
    (outcome,) = await execute([giving('{"a": 1}', artifact_constructor=Picky)], [call("give")], ctx=ctx, **settings)

    assert (ok(outcome).value, type(ok(outcome).artifact)) == ('{"a": 1}', Artifact)
    assert [(each.source, type(each.error)) for each in warnings] == [("artifact", error)]


async def test_an_artifact_class_that_hangs_holds_its_call_until_the_deadline() -> None:
    class Stuck(JsonArtifact):
        async def json_type(self) -> Any:
            await anyio.sleep_forever()

    with anyio.fail_after(30):
        tool = giving('{"a": 1}', artifact_constructor=Stuck, timeout_seconds=SOON)
        (outcome,) = await execute([tool], [call("give")])

    assert (ok(outcome).value, type(ok(outcome).artifact)) == ('{"a": 1}', Stuck)


async def test_a_caller_that_leaves_does_not_wait_for_the_spool() -> None:
    spool = SlowSpool()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: execute([giving(LONG)], [call("give")], spool=spool))
            await spool.is_writing.wait()
            group.cancel_scope.cancel()
        assert not spool.may_write.is_set()
        spool.may_write.set()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tool_execution_end", "tool_progress"])
async def test_a_result_that_was_there_in_time_is_given_while_an_observer_still_hangs(name: str) -> None:
    release, ctx = anyio.Event(), ToolContext("s1")

    async def observe(_event: Any) -> None:
        with anyio.CancelScope(shield=True):
            await release.wait()

    async def work(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        ctx.progress("half")
        return "done"

    ctx.events.on(name, observe)
    executor = Executor(ToolRegistry([make("work", work, timeout_seconds=SOON)]))
    with anyio.fail_after(30):
        (outcome,) = await executor.execute_parallel([call("work")], ctx)
        release.set()

    assert ok(outcome).value == "done"
    assert executor.abandoned_tasks == 0
