"""What every backend of the journal must do: one suite, run over all of them."""

import math
from datetime import datetime, timedelta, timezone
from typing import Any

import anyio
import pytest

from spindle.errors import JournalError, UsageError
from spindle.journal.journal import Journal
from tests.journal.conftest import Place
from tests.journal.sample_calls import NOON, finished, intent, states

pytestmark = pytest.mark.anyio

NASTY_TEXTS = [
    "",
    " ",
    "a\x00b",
    "line\nbreak",
    "\U0001f600",
    "lone \ud800 surrogate",
    "'; DROP TABLE calls; --",
    "x" * 70_000,
]


async def test_a_call_is_started_until_it_is_finished(place: Place) -> None:
    async with place.journal() as journal:
        assert await journal.begin([intent("a")]) == [None]
        begun = await journal.list()
        await journal.finish([finished("a")])
        ended = await journal.list()

    assert states(begun) == [("a", "started")]
    assert states(ended) == [("a", "finished")]


async def test_an_entry_tells_all_that_was_written(place: Place) -> None:
    args = {"query": "café \ud800", "deep": [{"n": None}, 2**70, 1.5, True]}
    result = {"ok": False, "error": "no", "structured": {"rows": [1, 2]}}
    async with place.journal() as journal:
        await journal.begin([intent("a", args=args, fingerprint="print")])
        await journal.finish(
            [
                finished(
                    "a",
                    code="timed_out",
                    error="too slow",
                    attempts=3,
                    result=result,
                    result_chars=12,
                    cost_usd=0.25,
                    trusted=True,
                    artifact_id="spooled",
                )
            ]
        )
        entry = await journal.get("a")

    assert entry is not None
    assert (entry.tool_call_id, entry.tool, entry.checksum) == ("a", "search", "sum")
    assert entry.idempotency_key == intent("a").idempotency_key
    assert (entry.session_id, entry.turn_id, entry.fingerprint) == ("session", "turn", "print")
    assert (entry.state, entry.code, entry.error, entry.attempts) == ("finished", "timed_out", "too slow", 3)
    assert (entry.args, entry.result, entry.result_chars) == (args, result, 12)
    assert (entry.cost_usd, entry.trusted, entry.artifact_id) == (0.25, True, "spooled")
    assert (entry.started_at, entry.ended_at) == (NOON, NOON + timedelta(seconds=1))


async def test_times_are_exact_and_in_utc_whatever_zone_they_came_from(place: Place) -> None:
    there = timezone(timedelta(hours=5, minutes=30))
    early = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=there)
    async with place.journal() as journal:
        await journal.begin([intent("a", started_at=early)])
        await journal.finish([finished("a", ended_at=NOON.astimezone(there))])
        entry = await journal.get("a")

    assert entry is not None
    assert (entry.started_at, entry.ended_at) == (early, NOON)
    assert entry.started_at.utcoffset() == timedelta(0)


async def test_nothing_is_known_of_a_call_that_was_never_begun(place: Place) -> None:
    async with place.journal() as journal:
        assert await journal.find("no such key") is None
        assert await journal.find_many(["no", "such"]) == {}
        assert await journal.get("nobody") is None
        assert await journal.list() == []
        assert await journal.interrupted() == []


async def test_an_empty_batch_is_no_work(place: Place) -> None:
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


async def test_the_list_holds_a_hundred_unless_told_otherwise(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent(f"{number}") for number in range(120)])

        assert len(await journal.list()) == 100
        assert len(await journal.list(limit=None)) == 120


@pytest.mark.parametrize("wrong", [{"state": "done"}, {"limit": -1}, {"limit": "3"}, {"limit": True}])
async def test_a_list_that_cannot_be_is_refused(place: Place, wrong: dict[str, Any]) -> None:
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


async def test_a_key_that_stands_is_not_begun_again(place: Place) -> None:
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


async def test_of_many_who_begin_one_key_only_one_may_run_it(place: Place) -> None:
    won: list[int] = []

    async def begin(journal: Journal, number: int) -> None:
        if await journal.begin([intent("a")]) == [None]:
            won.append(number)

    with anyio.fail_after(30):
        async with place.journal() as journal, anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(begin, journal, number)

    assert len(won) == 1


async def test_of_two_in_one_batch_with_one_key_only_the_first_may_run(place: Place) -> None:
    async with place.journal() as journal:
        standing = await journal.begin([intent("a"), intent("a")])

    assert [entry and entry.state for entry in standing] == [None, "started"]


async def test_a_harmless_call_may_be_repeated_and_its_attempts_add_up(place: Place) -> None:
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


async def test_an_outcome_that_belongs_to_no_call_is_refused_and_its_siblings_are_kept(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a")])
        with pytest.raises(JournalError) as caught:
            await journal.finish([finished("nobody"), finished("a")])
        listed = await journal.list()

    assert caught.value.field == "idempotency_key"
    assert states(listed) == [("a", "finished")]


async def test_calls_of_a_process_that_is_gone_are_interrupted_until_someone_finishes_them(place: Place) -> None:
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


async def test_an_interrupted_call_stands_unless_it_may_be_repeated(place: Place) -> None:
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


@pytest.mark.parametrize("args", [{"when": NOON}, {"self": None}, {(1, 2): 3}, 5, {"x": object()}])
async def test_what_is_no_json_is_refused_and_nothing_is_begun(place: Place, args: Any) -> None:
    if isinstance(args, dict) and "self" in args:
        args["self"] = args
    async with place.journal() as journal:
        with pytest.raises(UsageError) as caught:
            await journal.begin([intent("a"), intent("b", args=args)])
        listed = await journal.list()

    assert (caught.value.field, caught.value.tool) == ("args", "search")
    assert listed == []


async def test_a_time_without_a_zone_is_refused(place: Place) -> None:
    async with place.journal() as journal:
        with pytest.raises(UsageError) as caught:
            await journal.begin([intent("a", started_at=NOON.replace(tzinfo=None))])

    assert caught.value.field == "started_at"


async def test_what_was_written_does_not_change_with_the_values_it_came_from(place: Place) -> None:
    args: dict[str, Any] = {"list": [1]}
    async with place.journal() as journal:
        await journal.begin([intent("a", args=args)])
        args["list"].append(2)
        first = await journal.get("a")
        assert first is not None
        first.args["list"].append(3)
        second = await journal.get("a")

    assert second is not None
    assert second.args == {"list": [1]}


@pytest.mark.parametrize("text", NASTY_TEXTS)
async def test_any_text_is_kept_as_it_is(place: Place, text: str) -> None:
    async with place.journal() as journal:
        await journal.begin([intent(text, tool=text, session_id=text, idempotency_key=text, args={text: text})])
        await journal.finish([finished(text, idempotency_key=text, error=text, result={"value": text})])
        by_id, by_key = await journal.get(text), await journal.find(text)

    assert by_id is not None
    assert by_id == by_key
    assert (by_id.tool, by_id.session_id, by_id.args, by_id.error) == (text, text, {text: text}, text)
    assert by_id.result == {"value": text}


async def test_numbers_that_json_does_not_know_do_not_cost_the_call(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a", args={"x": math.inf})])
        entry = await journal.get("a")

    assert entry is not None
    assert entry.args == {"x": math.inf}
