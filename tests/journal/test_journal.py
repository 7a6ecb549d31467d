"""What every backend of the journal must do: one suite, run over all of them."""

from dataclasses import replace
from threading import get_ident
from typing import Any

import anyio
import pytest

from spindle.errors import JournalError, UsageError
from spindle.journal.backends.memory import MemoryJournalStore
from spindle.journal.entries import Row, Selection
from spindle.journal.journal import Journal
from tests.journal.conftest import Place
from tests.journal.sample_calls import finished, intent, states

pytestmark = pytest.mark.anyio


async def test_a_call_is_started_until_it_is_finished(place: Place) -> None:
    async with place.journal() as journal:
        assert await journal.begin([intent("a")]) == [None]
        begun = await journal.list()
        await journal.finish([finished("a")])
        ended = await journal.list()

    assert states(begun) == [("a", "started")]
    assert states(ended) == [("a", "finished")]


async def test_nothing_is_known_of_a_call_that_was_never_begun(place: Place) -> None:
    async with place.journal() as journal:
        assert await journal.find("no such key") is None
        assert await journal.find_many(["no", "such"]) == {}
        assert await journal.get("nobody") is None
        assert await journal.list() == []
        assert await journal.interrupted() == []


async def test_empty_batches_are_accepted(place: Place) -> None:
    async with place.journal() as journal:
        assert await journal.begin([]) == []
        await journal.finish([])
        assert await journal.find_many([]) == {}


async def test_many_keys_are_looked_up_at_once(place: Place) -> None:
    names = [f"call {number}" for number in range(300)]
    keys = {intent(name).idempotency_key: name for name in names}
    async with place.journal() as journal:
        assert await journal.begin([intent(name) for name in names]) == [None] * 300
        await journal.finish([finished(name) for name in names[:100]])
        found = await journal.find_many([*keys, "unknown"])
        one = await journal.find(intent("call 5").idempotency_key)

    assert {key: entry.tool_call_id for key, entry in found.items()} == keys
    assert sum(entry.state == "finished" for entry in found.values()) == 100
    assert one is not None
    assert one.result == {"value": "call 5"}


async def test_the_list_is_newest_first_by_state_and_bounded(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent(name) for name in "abcd"])
        await journal.finish([finished("b"), finished("d")])

        assert [entry.tool_call_id for entry in await journal.list()] == ["d", "c", "b", "a"]
        assert [entry.tool_call_id for entry in await journal.list("finished")] == ["d", "b"]
        assert [entry.tool_call_id for entry in await journal.list("started")] == ["c", "a"]
        assert [entry.tool_call_id for entry in await journal.list(limit=3)] == ["d", "c", "b"]
        assert await journal.list(limit=0) == []
        assert len(await journal.list(limit=10**30)) == 4


async def test_the_list_of_a_session_has_its_calls_alone(place: Place) -> None:
    long = "s" * 5_000
    sessions = {"a": "one", "b": "two", "c": "one", "d": None, "e": "odd \ud800 \0 \\", "f": long, "g": f"{long}x"}
    async with place.journal() as journal:
        await journal.begin([intent(name, session_id=session) for name, session in sessions.items()])
        await journal.finish([finished("a")])
        found = {
            session: [entry.tool_call_id for entry in await journal.list(session_id=session)]
            for session in sessions.values()
            if session is not None
        }

        assert found == {"one": ["c", "a"], "two": ["b"], "odd \ud800 \0 \\": ["e"], long: ["f"], f"{long}x": ["g"]}
        assert states(await journal.list("finished", session_id="one")) == [("a", "finished")]
        assert states(await journal.list(session_id="one", limit=1)) == [("c", "started")]
        assert await journal.list(session_id="nobody") == []
        assert len(await journal.list()) == len(sessions)


async def test_a_repeated_call_is_the_newest_of_its_session(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a"), intent("b")])
        await journal.finish([finished("a"), finished("b")])
        await journal.begin([intent("a", repeat=True)])
        await journal.note([(intent("c"), finished("c", attempts=0))])
        await journal.note([(intent("c"), finished("c", attempts=0, error="again"))])

        assert [entry.tool_call_id for entry in await journal.list(session_id="session")] == ["c", "a", "b"]


async def test_a_store_that_ignores_the_session_is_an_error() -> None:
    class Forgetful(MemoryJournalStore):
        async def select(self, selection: Selection) -> list[Row]:
            return await super().select(replace(selection, session_id=None))

    async with Journal(Forgetful()) as journal:
        await journal.begin([intent("a")])
        assert len(await journal.list(session_id="session")) == 1
        with pytest.raises(JournalError):
            await journal.list(session_id="another")


async def test_list_returns_a_hundred_entries_by_default(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent(f"{number}") for number in range(120)])

        assert len(await journal.list()) == 100
        assert len(await journal.list(limit=None)) == 120


@pytest.mark.parametrize(
    "wrong", [{"state": "done"}, {"limit": -1}, {"limit": "3"}, {"limit": True}, {"session_id": 3}]
)
async def test_list_rejects_unknown_states_and_invalid_limits(place: Place, wrong: dict[str, Any]) -> None:
    async with place.journal() as journal:
        with pytest.raises(UsageError) as caught:
            await journal.list(**wrong)

    assert caught.value.field in wrong


async def test_an_id_that_was_used_twice_gives_the_newest_call(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a", idempotency_key="first"), intent("a", idempotency_key="second")])
        entry = await journal.get("a")

    assert entry is not None
    assert entry.idempotency_key == "second"


async def test_known_key_is_not_begun_again(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a")])
        while_running = await journal.begin([intent("a", tool="other"), intent("b")])
        await journal.finish([finished("a")])
        after = await journal.begin([intent("a")])
        listed = await journal.list()

    assert [entry and entry.state for entry in while_running] == ["started", None]
    assert [entry and (entry.state, entry.result, entry.tool) for entry in after] == [
        ("finished", {"value": "a"}, "search")
    ]
    assert states(listed) == [("b", "started"), ("a", "finished")]


async def test_one_of_many_concurrent_callers_may_run_a_key(place: Place) -> None:
    won: list[int] = []

    async def begin(journal: Journal, number: int) -> None:
        if await journal.begin([intent("a")]) == [None]:
            won.append(number)

    with anyio.fail_after(30):
        async with place.journal() as journal, anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(begin, journal, number)

    assert len(won) == 1


async def test_first_of_two_intents_with_one_key_in_a_batch_may_run(place: Place) -> None:
    async with place.journal() as journal:
        standing = await journal.begin([intent("a"), intent("a")])

    assert [entry and entry.state for entry in standing] == [None, "started"]


async def test_repeatable_call_runs_again_and_its_attempts_add_up(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a"), intent("b")])
        await journal.finish([finished("a", attempts=2, code="timed_out")])
        assert await journal.begin([intent("a", repeat=True, args={"query": "again"})]) == [None]
        running = await journal.list()
        await journal.finish([finished("a", attempts=3, result={"value": "new"})])
        entry = await journal.get("a")

    assert states(running) == [("a", "started"), ("b", "started")]
    assert (running[0].code, running[0].result, running[0].attempts) == (None, None, 3)
    assert entry is not None
    assert (entry.attempts, entry.code, entry.result, entry.args) == (5, None, {"value": "new"}, {"query": "again"})


async def test_the_first_outcome_of_a_call_stays(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a")])
        await journal.finish([finished("a", result={"value": "first"})])
        await journal.finish([finished("a", result={"value": "second"}, code="cancelled")])
        entry = await journal.get("a")

    assert entry is not None
    assert (entry.result, entry.code) == ({"value": "first"}, None)


async def test_outcome_of_unknown_key_raises_and_the_others_are_written(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a")])
        with pytest.raises(JournalError) as caught:
            await journal.finish([finished("nobody"), finished("a")])
        listed = await journal.list()

    assert caught.value.field == "idempotency_key"
    assert states(listed) == [("a", "finished")]


async def test_calls_of_a_dead_process_are_interrupted_until_they_are_finished(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a"), intent("b"), intent("c")])
        await journal.finish([finished("b")])
    async with place.restarted() as journal:
        found = await journal.interrupted()
        await journal.begin([intent("d")])
        everything = await journal.list()
        await journal.finish([finished("a", code="execution_failed")])
        left = await journal.interrupted()
    async with place.restarted() as journal:
        later = await journal.interrupted()

    assert states(found) == [("c", "interrupted"), ("a", "interrupted")]
    assert [(entry.ended_at, entry.code, entry.attempts) for entry in found] == [(None, None, 1)] * 2
    assert dict(states(everything)) == {"a": "interrupted", "b": "finished", "c": "interrupted", "d": "started"}
    assert states(left) == [("c", "interrupted")]
    assert states(later) == [("d", "interrupted"), ("c", "interrupted")]


async def test_interrupted_call_is_begun_again_only_if_it_may_be_repeated(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a")])
    async with place.restarted() as journal:
        standing = await journal.begin([intent("a")])
        again = await journal.begin([intent("a", repeat=True)])
        entry = await journal.get("a")

    assert [entry and entry.state for entry in standing] == ["interrupted"]
    assert again == [None]
    assert entry is not None
    assert (entry.state, entry.attempts) == ("started", 2)


async def test_a_call_stays_started_while_its_process_lives_even_if_the_journal_was_closed(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a")])
    async with place.journal() as journal:
        listed = await journal.list()
        await journal.finish([finished("a")])

    assert states(listed) == [("a", "started")]


async def test_two_journals_of_one_place_see_the_same_calls(place: Place) -> None:
    async with place.journal() as one, place.journal() as other:
        await one.begin([intent("a")])
        assert states(await other.list()) == [("a", "started")]
        await other.finish([finished("a")])
        assert states(await one.list()) == [("a", "finished")]


async def test_a_journal_opens_itself_on_first_use(place: Place) -> None:
    journal = place.journal()
    assert await journal.begin([intent("a")]) == [None]
    await journal.aclose()

    async with place.journal() as again:
        assert states(await again.list()) == [("a", "started")]


async def test_a_closed_journal_refuses_until_it_is_entered_again(place: Place) -> None:
    journal = place.journal()
    async with journal:
        await journal.begin([intent("a")])
    await journal.aclose()

    with pytest.raises(JournalError):
        await journal.begin([intent("b")])
    with pytest.raises(JournalError):
        await journal.list()
    async with journal:
        assert states(await journal.list()) == [("a", "started")]


async def test_closing_what_was_never_opened_does_nothing(place: Place) -> None:
    await place.journal().aclose()


async def test_a_noted_call_is_finished_without_ever_having_been_started(place: Place) -> None:
    async with place.journal() as journal:
        await journal.note([(intent("a"), finished("a", code="denied", error="no", result=None))])
        entry = await journal.get("a")
        listed = await journal.list()
    async with place.restarted() as journal:
        lost = await journal.interrupted()

    assert entry is not None
    assert (entry.state, entry.code, entry.error, entry.attempts) == ("finished", "denied", "no", 0)
    assert (entry.args, entry.tool, entry.started_at) == (intent("a").args, "search", intent("a").started_at)
    assert states(listed) == [("a", "finished")]
    assert lost == []


async def test_a_noted_call_may_be_begun_later(place: Place) -> None:
    async with place.journal() as journal:
        await journal.note([(intent("a"), finished("a", code="needs_approval"))])
        assert await journal.begin([intent("a"), intent("b")]) == [None, None]
        begun = await journal.list()
        await journal.finish([finished("a")])
        entry = await journal.get("a")

    assert states(begun) == [("b", "started"), ("a", "started")]
    assert entry is not None
    assert (entry.state, entry.code, entry.attempts) == ("finished", None, 1)


async def test_a_call_whose_body_was_never_started_may_be_begun_again(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a"), intent("b")])
        await journal.finish([finished("a", code="cancelled", attempts=0), finished("b", code="cancelled")])
        standing = await journal.begin([intent("a"), intent("b")])

    assert [entry and entry.code for entry in standing] == [None, "cancelled"]


async def test_note_does_not_change_a_call_that_may_have_run(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("lost")])
    async with place.restarted() as journal:
        await journal.begin([intent("ran"), intent("runs")])
        await journal.finish([finished("ran")])
        before = await journal.list()
        await journal.note([(intent(name), finished(name, code="denied")) for name in ("lost", "ran", "runs")])

        assert await journal.list() == before


async def test_newer_note_replaces_an_older_one(place: Place) -> None:
    async with place.journal() as journal:
        await journal.note([(intent("a"), finished("a", code="needs_approval"))])
        await journal.note([(intent("b"), finished("b", code="denied")), (intent("a"), finished("a", code="denied"))])
        listed = await journal.list()

    assert [(entry.tool_call_id, entry.code) for entry in listed] == [("a", "denied"), ("b", "denied")]


async def test_note_accepts_an_empty_batch_and_rejects_values_that_are_not_json(place: Place) -> None:
    async with place.journal() as journal:
        await journal.note([])
        with pytest.raises(UsageError):
            await journal.note([(intent("a"), finished("a")), (intent("b", args={"x": object()}), finished("b"))])

        assert await journal.list() == []


async def test_begin_of_a_cancelled_caller_starts_nothing(place: Place) -> None:
    async with place.journal() as journal:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await journal.begin([intent("a")])
        await journal.begin([intent("b")])
        listed = await journal.list()

    assert "started" not in [state for name, state in states(listed) if name == "a"]
    assert ("b", "started") in states(listed)


async def test_an_outcome_is_written_even_if_its_caller_is_being_cancelled(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a")])
        with anyio.CancelScope() as scope:
            scope.cancel()
            await journal.finish([finished("a", code="cancelled")])
        entry = await journal.get("a")

    assert entry is not None
    assert (entry.state, entry.code) == ("finished", "cancelled")


async def test_callers_cancelled_at_any_point_leave_no_call_started(place: Place) -> None:
    async def begin(journal: Journal, number: int) -> None:
        with anyio.move_on_after(number * 0.0002):
            if await journal.begin([intent(f"{number}")]) == [None]:
                with anyio.CancelScope(shield=True):
                    await journal.finish([finished(f"{number}")])

    with anyio.fail_after(30):
        async with place.journal() as journal:
            async with anyio.create_task_group() as tasks:
                for number in range(60):
                    tasks.start_soon(begin, journal, number)
            listed = await journal.list(limit=None)
            await journal.begin([intent("after")])

    assert {entry.state for entry in listed} <= {"finished"}
    assert all(entry.code == "cancelled" for entry in listed if entry.result is None)


async def test_journal_is_closed_when_its_block_is_cancelled(place: Place) -> None:
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with place.journal() as journal:
            await journal.begin([intent("a")])
            scope.cancel()
            await anyio.sleep_forever()

    async with place.journal() as journal:
        assert states(await journal.list()) == [("a", "started")]


class NotedArguments(dict[str, Any]):
    """Arguments that note which threads serialize them."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.threads: set[int] = set()

    def items(self) -> Any:
        self.threads.add(get_ident())
        return super().items()


@pytest.mark.parametrize("is_large", [False, True])
async def test_large_values_are_serialized_outside_of_the_event_loop(is_large: bool) -> None:
    args = NotedArguments({"rows": list(range(100_000 if is_large else 3))})
    result = NotedArguments({"value": "x" * (1_000_000 if is_large else 3)})
    journal = Journal.memory()

    await journal.begin([intent("a", args=args)])
    await journal.finish([finished("a", result=result)])

    (entry,) = await journal.list()
    assert (entry.args, entry.result) == (dict(args), dict(result))
    for noted in (args, result):
        assert noted.threads
        assert (get_ident() in noted.threads) is not is_large


async def test_the_outcome_of_a_large_result_is_written_though_its_caller_is_cancelled() -> None:
    journal = Journal.memory()
    await journal.begin([intent("a")])

    with anyio.CancelScope() as scope:
        scope.cancel()
        await journal.finish([finished("a", result={"value": "x" * 1_000_000})])

    assert states(await journal.list()) == [("a", "finished")]
