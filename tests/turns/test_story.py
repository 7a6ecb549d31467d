"""The stories of turns, which any process with the journal can read; over every journal."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from spindle import (
    Budget,
    Call,
    DispatchContext,
    Executor,
    Gate,
    Journal,
    Reply,
    ToolContext,
    ToolRegistry,
    TurnRunner,
    tool,
)
from spindle.capabilities import Backends, Capabilities
from spindle.errors import InvalidTurnRunnerConfigError, JournalError, UsageError
from spindle.journal import MemoryJournalStore, StateRecord
from spindle.testing import ScriptedModel
from spindle.turns import Memory, TurnStory, delete_turn, list_turns, prune_turns, read_turn
from tests.journal.conftest import Place, place
from tests.turns.local_engine import EngineShop
from tests.turns.suspended_scene import LOOK, PAY, Shop, waits

pytestmark = pytest.mark.anyio
__all__ = ["place"]


@tool
def echo(text: str) -> str:
    """Return a text."""
    if text == "bad":
        raise ValueError(text)
    return text * 2


async def get_story(journal: Journal, turn_id: str) -> TurnStory:
    story = await read_turn(journal, turn_id)
    assert story is not None
    return story


async def test_a_turn_is_read_in_another_process(place: Place) -> None:
    async def think(ctx: DispatchContext, helpers: Any) -> Reply:
        if ctx.iteration == 0:
            helpers.report_thought("t", "I should ")
            helpers.report_thought("t", "echo.", is_complete=True)
            ctx.tools.to_definitions()
            usage = {"input_tokens": 10, "output_tokens": 4, "cost_usd": 0.5, "model": "m"}
            return Reply(
                "Let me see.", [Call("c1", "echo", {"text": "hi"}), Call("c2", "echo", {"text": "bad"})], usage
            )
        await ctx.turn.records.memory.store(Memory(content="Ada likes echoes."))
        return Reply("All done.", usage={"input_tokens": 30, "output_tokens": 2, "cost_usd": 0.25})

    runner = TurnRunner(executor_callback=think, tools=[echo], journal=place.journal())
    report = await runner.run(
        system_prompt="Be kind.", messages=["Hello", "Echo hi"], session_id="s1", caller={"user": "ada"}
    )

    journal = place.restarted()
    story = await get_story(journal, report.turn_id)
    assert (story.status, story.session_id, story.caller) == ("ok", "s1", {"user": "ada"})
    assert (story.request, story.text, story.error) == ("Echo hi", "All done.", None)
    assert (story.iteration_count, story.call_count, story.error_count) == (2, 2, 1)
    assert story.usage == {"input_tokens": 40, "output_tokens": 6, "cost_usd": 0.75}
    first, second = story.iterations
    assert (first.number, first.text, first.thoughts) == (0, "Let me see.", "I should echo.")
    assert first.usage == {"input_tokens": 10, "output_tokens": 4, "cost_usd": 0.5}
    assert [(each.tool_call_id, each.tool, each.is_done, each.code) for each in first.calls] == [
        ("c1", "echo", True, None),
        ("c2", "echo", True, "execution_failed"),
    ]
    assert first.calls[0].chars == 4
    entries = await journal.find_many([each.key or "" for each in first.calls])
    assert [each.tool_call_id for each in entries.values()] == ["c1", "c2"]
    assert (second.text, second.calls) == ("All done.", ())
    assert second.usage == {"input_tokens": 30, "output_tokens": 2, "cost_usd": 0.25}
    parts = {(part.kind, part.name): part.chars for part in story.context}
    assert parts["system_prompt", None] == len("Be kind.")
    assert parts["user", None] == len("HelloEcho hi")
    assert parts["assistant", None] == len("Let me see.All done.")
    assert parts["results", "echo"] > len("hihi")
    assert parts["memories", None] == len("Ada likes echoes.")
    assert parts["tool_definitions", None] > 50
    assert all(part.tokens > 0 for part in story.context)
    assert story.started_at <= first.started_at <= second.started_at
    assert story.ended_at is not None
    assert story.ended_at >= second.started_at


async def test_a_running_turn_is_shown_after_each_iteration(place: Place) -> None:
    journal, seen = place.journal(), list[TurnStory]()

    async def model(ctx: DispatchContext) -> object:
        seen.append(await get_story(journal, ctx.turn_id))
        return [Call(f"c{ctx.iteration}", "echo", {"text": "a"})] if ctx.iteration < 2 else "done"

    await TurnRunner(executor_callback=model, tools=[echo], journal=journal).run(messages=["go"])

    assert [(story.status, len(story.iterations), story.call_count) for story in seen] == [
        ("running", 0, 0),
        ("running", 1, 1),
        ("running", 2, 2),
    ]


class CountingStates:
    """Counts the writes of stories, and fails them if it has a problem."""

    def __init__(self, store: MemoryJournalStore) -> None:
        self.states = store.states
        self.writes = 0
        self.problem: Exception | None = None
        store.states = self  # type: ignore[assignment]  # the rest comes from __getattr__

    def __getattr__(self, name: str) -> object:
        return getattr(self.states, name)

    async def insert(self, record: StateRecord) -> StateRecord | None:
        return await self._write(self.states.insert, record)

    async def replace(self, record: StateRecord) -> StateRecord | None:
        return await self._write(self.states.replace, record)

    async def _write(
        self, write: Callable[[StateRecord], Awaitable[StateRecord | None]], record: StateRecord
    ) -> StateRecord | None:
        if record.kind == "turn_story":
            self.writes += 1
            if self.problem is not None:
                raise self.problem
        return await write(record)


async def test_an_iteration_takes_one_write() -> None:
    store = MemoryJournalStore()
    states = CountingStates(store)
    model = ScriptedModel(*[Call(f"c{number}", "echo", {"text": str(number)}) for number in range(9)], "done")

    report = await TurnRunner(executor_callback=model, tools=[echo], journal=Journal(store)).run()

    assert (report.iterations, states.writes) == (10, 11)


async def test_a_journal_that_cannot_be_written_causes_one_warning() -> None:
    store = MemoryJournalStore()
    CountingStates(store).problem = JournalError("full")
    warnings: list[Any] = []
    model = ScriptedModel(Call("c1", "echo", {"text": "a"}), "done")
    runner = TurnRunner(executor_callback=model, tools=[echo], journal=Journal(store))
    runner.on("warning", warnings.append)

    report = await runner.run()

    assert report.status == "ok"
    assert [(each.source, type(each.error)) for each in warnings] == [("story", JournalError)]


async def test_no_story_is_written_if_it_is_turned_off() -> None:
    journal = Journal.memory()
    await TurnRunner(executor_callback=ScriptedModel("done"), journal=journal, story=False).run(turn_id="t")
    assert await read_turn(journal, "t") is None
    with pytest.raises(InvalidTurnRunnerConfigError) as caught:
        TurnRunner(executor_callback=ScriptedModel("done"), story="no")  # type: ignore[arg-type]  # the mistake under test
    assert caught.value.field == "story"


async def test_the_journal_of_the_executor_has_the_stories_of_its_turns() -> None:
    journal = Journal.memory()
    executor = Executor(ToolRegistry([echo]), journal=journal)
    await TurnRunner(executor_callback=ScriptedModel("done"), executor=executor).run(turn_id="t")
    assert (await get_story(journal, "t")).text == "done"


async def test_a_failed_turn_tells_its_error() -> None:
    journal = Journal.memory()

    async def fail(ctx: DispatchContext) -> object:
        if ctx.iteration:
            raise RuntimeError("no model")
        return [Call("c1", "echo", {"text": "a"})]

    report = await TurnRunner(executor_callback=fail, tools=[echo], journal=journal).run(turn_id="t")

    story = await get_story(journal, "t")
    assert (story.status, report.status, story.call_count) == ("error", "error", 1)
    assert "no model" in (story.error or "")
    assert [each.number for each in story.iterations] == [0, 1]


async def test_a_cancelled_turn_is_written_as_aborted() -> None:
    journal, reached = Journal.memory(), anyio.Event()

    async def hold(_: DispatchContext) -> str:
        reached.set()
        await anyio.sleep_forever()
        return ""

    runner = TurnRunner(executor_callback=hold, journal=journal)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: runner.run(turn_id="t"))
            await reached.wait()
            assert (await get_story(journal, "t")).status == "running"
            tasks.cancel_scope.cancel()
    story = await get_story(journal, "t")
    assert (story.status, story.ended_at is not None) == ("aborted", True)


async def test_a_suspended_turn_shows_what_it_waits_for_and_goes_on_in_the_same_story(place: Place) -> None:
    shop = Shop(place.journal(), Reply("paying", [PAY, LOOK], {"input_tokens": 5}), "done")
    report = await shop.run()
    [ticket] = waits(report)

    story = await get_story(place.journal(), report.turn_id)
    assert (story.status, story.call_count, story.resumed_count) == ("suspended", 1, 0)
    [gate] = story.gates
    assert (gate.kind, gate.tool, gate.tool_call_id, gate.closed_at) == ("approval", "pay", "c1", None)
    assert ticket.startswith(gate.id)
    states = place.journal().states
    assert states is not None
    record = await states.get("turn_story", report.turn_id)
    assert record is not None
    assert ticket not in record.data
    assert [(each.tool_call_id, each.is_done) for each in story.iterations[0].calls] == [("c1", False), ("c2", True)]

    await shop.resume(report.state, {ticket: {"approved": True, "by": "ann"}})

    story = await get_story(place.restarted(), report.turn_id)
    assert (story.status, story.call_count, story.resumed_count, story.text) == ("ok", 2, 1, "done")
    assert [(each.result, each.answer, each.by) for each in story.gates] == [("approved", True, "ann")]
    first, second = story.iterations
    assert (first.text, first.usage, second.number) == ("paying", {"input_tokens": 5}, 1)
    assert [(each.tool_call_id, each.is_done) for each in first.calls] == [("c1", True), ("c2", True)]


async def test_the_answer_of_a_gate_is_described_if_it_may_be_secret(place: Place) -> None:
    journal = place.journal()
    seen: list[TurnStory] = []

    @tool
    async def log_in(user: str, *, ctx: ToolContext) -> str:
        """Log in."""
        secret = await ctx.wait_for(Gate("The password?", timeout_seconds=60))
        is_sure = await ctx.wait_for(Gate("Sure?", schema=bool, timeout_seconds=60))
        return f"{user} {len(secret)} {is_sure}"

    runner = TurnRunner(
        executor_callback=ScriptedModel(Call("c1", "log_in", {"user": "ada"}), "done"), tools=[log_in], journal=journal
    )

    async def answer(gate: Any) -> None:
        seen.append(await get_story(journal, gate.turn_id))
        runner.gates.resolve(gate.id, True if gate.reason == "Sure?" else "hunter2 hunter2")

    runner.on("turn_gate_open", answer)
    report = await runner.run()

    assert [(each.reason, each.closed_at) for each in seen[0].gates] == [("The password?", None)]
    story = await get_story(journal, report.turn_id)
    assert [(each.result, each.answer) for each in story.gates] == [
        ("resolved", "a text of 15 characters"),
        ("resolved", True),
    ]
    assert journal.states is not None
    record = await journal.states.get("turn_story", report.turn_id)
    assert record is not None
    assert "hunter2" not in record.data


async def test_a_gate_that_was_answered_when_the_turn_was_resumed_is_closed() -> None:
    shop = Shop(Journal.memory(), Call("c1", "confirm", {"question": "sure"}), "done")
    report = await shop.run()
    await shop.resume(report.state, {"confirm sure": True})

    story = await get_story(shop.journal, report.turn_id)
    assert [(each.id, each.result, each.answer) for each in story.gates] == [("confirm sure", "resolved", True)]


async def test_secrets_that_a_tool_has_used_are_masked() -> None:
    journal = Journal.memory()

    @tool(capabilities=Capabilities(secrets=["API_KEY"]))
    async def use_key(ctx: ToolContext) -> str:
        """Use the key."""
        return f"used {(await ctx.secrets.get('API_KEY')).reveal()}"

    model = ScriptedModel(Call("c1", "use_key"), Reply("The key is sk-very-secret-value."))
    runner = TurnRunner(
        executor_callback=model,
        tools=[use_key],
        journal=journal,
        backends=Backends.local(".", secrets={"API_KEY": "sk-very-secret-value"}),
    )
    report = await runner.run(turn_id="t", messages=["go"])
    assert report.tool_calls[0].results == "used ***"
    record = await journal.states.get("turn_story", "t")  # type: ignore[union-attr]
    assert record is not None
    assert "very-secret" not in record.data


async def test_a_large_result_is_linked_as_an_artifact() -> None:
    journal = Journal.memory()
    model = ScriptedModel(Call("c1", "echo", {"text": "word " * 5_000}), "done")
    runner = TurnRunner(executor_callback=model, tools=[echo], journal=journal, budget=Budget(1_000))

    report = await runner.run(session_id="s", turn_id="t")

    story = await get_story(journal, report.turn_id)
    [made] = story.artifacts
    assert (made.id, made.tool, made.iteration) == ("s/t/c1", "echo", 0)
    entry = await journal.get("c1")
    assert entry is not None
    assert story.iterations[0].calls[0].artifact_id == entry.artifact_id == made.id
    assert story.iterations[0].calls[0].key == entry.idempotency_key


async def test_a_turn_on_an_engine_has_one_story(place: Place) -> None:
    shop = EngineShop(place.journal(), [LOOK], [PAY], "done")
    report = await shop.run()
    story = await get_story(place.journal(), report.turn_id)
    assert (story.status, [each.number for each in story.iterations]) == ("suspended", [0, 1])

    ended = await shop.resume(report.state, {waits(report)[0]: True})

    assert ended.status == "ok"
    story = await get_story(place.journal(), report.turn_id)
    assert (story.status, story.text, story.call_count) == ("ok", "done", 2)
    assert [[each.tool for each in each.calls] for each in story.iterations] == [["look"], ["pay"], []]


async def test_turns_are_listed_in_pages_by_session_and_status(place: Place) -> None:
    journal = place.journal()
    for number in range(5):
        model = ScriptedModel(RuntimeError("no") if number == 2 else "done")
        await TurnRunner(executor_callback=model, journal=journal).run(
            turn_id=f"t{number}", session_id=f"s{number % 2}"
        )

    first = await list_turns(journal, limit=2)
    second = await list_turns(journal, limit=2, cursor=first.next_cursor)
    last = await list_turns(journal, limit=2, cursor=second.next_cursor)
    assert [[each.turn_id for each in page.turns] for page in (first, second, last)] == [
        ["t4", "t3"],
        ["t2", "t1"],
        ["t0"],
    ]
    assert last.next_cursor is None
    assert [each.turn_id for each in (await list_turns(journal, session_id="s1")).turns] == ["t3", "t1"]
    assert [each.turn_id for each in (await list_turns(journal, status="error")).turns] == ["t2"]
    assert await delete_turn(journal, "t2") is True
    assert await delete_turn(journal, "t2") is False
    assert await read_turn(journal, "t2") is None
    with pytest.raises(UsageError):
        await list_turns(journal, limit=0)
    with pytest.raises(UsageError):
        await list_turns(journal, status="good")  # type: ignore[arg-type]


async def tell_turns(journal: Journal, *facts: tuple[str, str, timedelta, timedelta]) -> None:
    """Write stories: the turn, its status, how long ago it began, and changed last; the oldest first."""
    assert journal.states is not None
    now = datetime.now(UTC)
    for turn_id, status, began, changed in facts:
        started = now - began
        story = {"updated_at": (now - changed).isoformat()}
        created_at = int(started.timestamp() * 1e6)
        await journal.states.insert(StateRecord("turn_story", turn_id, status, json.dumps(story), created_at))


async def list_ids(journal: Journal) -> list[str]:
    return [each.turn_id for each in (await list_turns(journal)).turns]


async def test_old_stories_are_pruned_by_their_last_change(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.turns.story._MAX_PAGE", 2)  # several pages, of which the last story may go
    journal, day = place.journal(), timedelta(days=1)
    await tell_turns(
        journal,
        ("old", "ok", 9 * day, 9 * day),
        ("dead", "running", 9 * day, 8 * day),
        ("resumed", "ok", 9 * day, day),
        ("waiting", "suspended", 8 * day, 2 * day),
        ("older", "error", 8 * day, 8 * day),
        ("new", "ok", day, day),
    )
    assert await prune_turns(journal) == 0
    assert await prune_turns(journal, max_age_seconds=7 * 86_400) == 3
    monkeypatch.undo()
    assert await list_ids(journal) == ["new", "waiting", "resumed"]
    assert await prune_turns(journal, max_age_seconds=7 * 86_400) == 0


async def test_the_newest_stories_are_kept_and_those_of_open_turns(place: Place) -> None:
    journal, day = place.journal(), timedelta(days=1)
    statuses = ["ok", "suspended", "ok", "running", "error", "ok", "ok"]
    await tell_turns(journal, *((f"t{n}", status, day, day) for n, status in enumerate(statuses)))
    assert await prune_turns(journal, max_turns=2) == 3
    assert await list_ids(journal) == ["t6", "t5", "t3", "t1"]
    for wrong in (-1, True, float("nan")):
        with pytest.raises(UsageError):
            await prune_turns(journal, max_age_seconds=wrong)


async def test_a_second_turn_with_the_same_id_has_its_own_story() -> None:
    journal = Journal.memory()
    for text in ("one", "two"):
        await TurnRunner(executor_callback=ScriptedModel(text), journal=journal).run(turn_id="t")
    story = await get_story(journal, "t")
    assert (story.text, len(story.iterations)) == ("two", 1)


@pytest.mark.parametrize("data", ["", "[]", "{", '{"iterations": [1, {}, {"started_at": 3}], "gates": [{}], "x": 1}'])
async def test_a_damaged_record_is_shown_as_far_as_it_can_be_read(data: str) -> None:
    journal = Journal.memory()
    assert journal.states is not None
    await journal.states.insert(StateRecord("turn_story", "t", "ok", data, created_at=5, group="s"))
    story = await get_story(journal, "t")
    assert (story.turn_id, story.session_id, story.status, story.iterations) == ("t", "s", "ok", ())


async def test_a_journal_without_a_place_for_stories_runs_turns_without() -> None:
    class PlainStore:
        def __init__(self) -> None:
            self.own = MemoryJournalStore()

        def __getattr__(self, name: str) -> object:
            if name == "states":
                raise AttributeError(name)
            return getattr(self.own, name)

    journal = Journal(PlainStore())  # type: ignore[arg-type]
    report = await TurnRunner(executor_callback=ScriptedModel("done"), journal=journal).run()
    assert report.ok
    with pytest.raises(JournalError):
        await list_turns(journal)


@pytest.mark.one_loop
async def test_a_long_turn_stays_within_its_bounds() -> None:
    journal = Journal.memory()

    async def talk(ctx: DispatchContext) -> Reply:
        calls = [
            Call(f"c{ctx.iteration}-{number}", "echo", {"text": f"{ctx.iteration} {number}"}) for number in range(3)
        ]
        return Reply("w" * 5_000, calls if ctx.iteration < 260 else ())

    runner = TurnRunner(executor_callback=talk, tools=[echo], journal=journal, max_iterations=None)
    await runner.run(turn_id="t", messages=["q" * 10_000])

    record = await journal.states.get("turn_story", "t")  # type: ignore[union-attr]
    assert record is not None
    assert len(record.data) <= 64 * 1024
    assert json.loads(record.data)["format"] == 1
    story = await get_story(journal, "t")
    assert len(story.request) <= 2_000
    assert (story.iteration_count, story.call_count) == (261, 780)
    assert len(story.iterations) + story.iterations_omitted == 261
    assert [story.iterations[0].number, story.iterations[-1].number] == [0, 260]
