"""Records beside the journal, over every backend: of two concurrent changes one is made."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import JournalError
from spindle.journal import MemoryJournalStore, StateQuery, StateRecord, StateStore
from tests.journal.conftest import Place

pytestmark = pytest.mark.anyio


def get_states(place: Place) -> StateStore:
    states = place.journal().states
    assert states is not None
    return states


def record(id: str = "a", status: str = "pending", **changes: object) -> StateRecord:
    base = StateRecord("approval", id, status, '{"n": 1}', created_at=1, sealed=b"\0\xff", group="g", expires_at=9)
    return base._replace(**changes)


async def test_a_record_is_read_as_it_was_written_also_after_a_restart(place: Place) -> None:
    assert await get_states(place).insert(record()) is None

    assert await get_states(place).get("approval", "a") == record()
    restarted = place.restarted().states
    assert restarted is not None
    assert await restarted.get("approval", "a") == record()
    assert await restarted.get("approval", "b") is None
    assert await restarted.get("session", "a") is None


async def test_a_second_record_of_the_same_id_is_not_added(place: Place) -> None:
    states = get_states(place)
    await states.insert(record())

    assert await states.insert(record(data='{"n": 2}')) == record()
    assert await states.insert(record(kind="session")) is None


async def test_a_change_of_an_older_version_returns_the_record_as_it_is(place: Place) -> None:
    states = get_states(place)
    await states.insert(record())
    second = record(version=2, status="approved", sealed=None, expires_at=None)

    assert await states.replace(second) is None
    assert await states.replace(record(version=2, status="denied")) == second
    assert await states.replace(record(version=4)) == second
    assert await states.get("approval", "a") == second


async def test_of_many_concurrent_changes_one_is_made(place: Place) -> None:
    await get_states(place).insert(record())
    winners: list[int] = []

    async def change(number: int) -> None:
        if await get_states(place).replace(record(version=2, data=str(number))) is None:
            winners.append(number)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(change, number)

    kept = await get_states(place).get("approval", "a")
    assert kept is not None
    assert [str(number) for number in winners] == [kept.data]


async def test_a_missing_record_cannot_be_changed(place: Place) -> None:
    with pytest.raises(JournalError, match="no approval 'a' to change"):
        await get_states(place).replace(record(version=2))


async def test_records_are_selected_by_kind_status_and_group_newest_first(place: Place) -> None:
    states = get_states(place)
    for each in (record("a"), record("b", "denied"), record("c", group=None), record("d", kind="session")):
        await states.insert(each)
    await states.replace(record("a", "approved", version=2))

    async def ids(query: StateQuery) -> list[str]:
        return [each.id for each in await states.select(query)]

    assert await ids(StateQuery("approval")) == ["c", "b", "a"]
    assert await ids(StateQuery("approval", limit=2)) == ["c", "b"]
    assert await ids(StateQuery("approval", status="pending")) == ["c"]
    assert await ids(StateQuery("approval", group="g")) == ["b", "a"]
    assert await ids(StateQuery("approval", status="approved", group="g")) == ["a"]
    assert await ids(StateQuery("nothing")) == []


async def test_records_are_read_in_pages_that_stay_when_others_are_added(place: Place) -> None:
    states = get_states(place)
    for number in range(7):
        await states.insert(record(f"r{number}", group="even" if number % 2 == 0 else "odd"))
        await states.insert(record(f"r{number}", kind="session"))

    async def page(before: str | None, *, group: str | None = None, status: str | None = None) -> list[str]:
        query = StateQuery("approval", status, group, limit=3, before=before)
        return [each.id for each in await states.select(query)]

    first = await page(None)
    await states.insert(record("late"))
    await states.replace(record("r5", "denied", version=2))
    assert [first, await page("r4"), await page("r1")] == [["r6", "r5", "r4"], ["r3", "r2", "r1"], ["r0"]]
    assert await page("r0") == []
    assert await page("r4", group="even") == ["r2", "r0"]
    assert await page("r6", status="denied") == ["r5"]
    assert await page("unknown") == []


async def test_records_of_other_statuses_are_read_without_their_data(place: Place) -> None:
    states = get_states(place)
    for each in (record("a", "denied"), record("b"), record("a", kind="session"), record("c"), record("d", "denied")):
        await states.insert(each)

    async def ids(query: StateQuery) -> list[str]:
        return [each.id for each in await states.select(query)]

    assert await ids(StateQuery("approval", except_status="pending")) == ["d", "a"]
    assert await ids(StateQuery("approval", except_status="pending", before="d")) == ["a"]
    brief = await states.select(StateQuery("approval", status="pending", is_brief=True))
    assert brief == [record("c", data="", sealed=None), record("b", data="", sealed=None)]


async def test_a_record_is_deleted_once(place: Place) -> None:
    states = get_states(place)
    await states.insert(record())

    assert await states.delete("approval", "a") is True
    assert await states.delete("approval", "a") is False
    assert await states.get("approval", "a") is None


@given(st.lists(st.sampled_from(["insert", "change", "delete"])))
async def test_a_version_counts_the_changes_since_a_record_was_added(steps: list[str]) -> None:
    states = MemoryJournalStore().states
    version = 0
    for step in steps:
        if step == "insert":
            is_new = await states.insert(record()) is None
            assert is_new is (version == 0)
            version = version or 1
        elif step == "change" and version:
            version += 1
            assert await states.replace(record(version=version)) is None
        elif step == "delete":
            assert await states.delete("approval", "a") is bool(version)
            version = 0
    kept = await states.get("approval", "a")
    assert (0 if kept is None else kept.version) == version
