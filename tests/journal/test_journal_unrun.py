"""Calls that ended without having run: they are told of, and stand in nobody's way; the port suite goes on here."""

import pytest

from spindle.errors import UsageError
from tests.journal.conftest import Place
from tests.journal.sample_calls import finished, intent, states

pytestmark = pytest.mark.anyio


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


async def test_a_note_does_not_touch_a_call_that_ran_or_runs_or_may_have_run(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("lost")])
    async with place.restarted() as journal:
        await journal.begin([intent("ran"), intent("runs")])
        await journal.finish([finished("ran")])
        before = await journal.list()
        await journal.note([(intent(name), finished(name, code="denied")) for name in ("lost", "ran", "runs")])

        assert await journal.list() == before


async def test_the_newest_note_stands(place: Place) -> None:
    async with place.journal() as journal:
        await journal.note([(intent("a"), finished("a", code="needs_approval"))])
        await journal.note([(intent("b"), finished("b", code="denied")), (intent("a"), finished("a", code="denied"))])
        listed = await journal.list()

    assert [(entry.tool_call_id, entry.code) for entry in listed] == [("a", "denied"), ("b", "denied")]


async def test_noting_nothing_is_no_work_and_what_is_no_json_is_refused(place: Place) -> None:
    async with place.journal() as journal:
        await journal.note([])
        with pytest.raises(UsageError):
            await journal.note([(intent("a"), finished("a")), (intent("b", args={"x": object()}), finished("b"))])

        assert await journal.list() == []
