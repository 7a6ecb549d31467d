"""What cancelling a caller may and may not do to a journal; the port suite goes on here."""

import anyio
import pytest

from spindle.journal.journal import Journal
from tests.journal.conftest import Place
from tests.journal.sample_calls import finished, intent, states

pytestmark = pytest.mark.anyio


async def test_a_caller_cancelled_before_it_asked_has_begun_nothing(place: Place) -> None:
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


async def test_a_journal_is_closed_well_while_its_block_is_being_cancelled(place: Place) -> None:
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with place.journal() as journal:
            await journal.begin([intent("a")])
            scope.cancel()
            await anyio.sleep_forever()

    async with place.journal() as journal:
        assert states(await journal.list()) == [("a", "started")]
