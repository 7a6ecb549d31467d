"""The lists of a turn's records: what they show, and what is known of records without reading them again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import Artifact, Media, ToolCallRecord
from spindle.turns import Memory, Message, Records, Retrievable, Thought
from spindle.turns.record_list import RecordCursor, RecordList, TurnRecords
from tests.turns.record_scene import Diary, call

pytestmark = pytest.mark.anyio


async def test_failing_store_leaves_no_shown_record() -> None:
    diary = Diary()
    first, second = call("a"), call("b")
    shelf = RecordList("tool_call", Records(diary), shown=[first])
    diary.broken = True

    for change in (shelf.store(second), shelf.mutate(call("a", checksum="new")), shelf.delete("a")):
        with pytest.raises(OSError, match="lost"):
            await change

    assert list(shelf) == [first]
    assert (shelf.count("c"), shelf.count("new")) == (1, 0)


async def test_record_is_shown_only_after_it_was_stored() -> None:
    diary = Diary()
    diary.hold = anyio.Event()
    shelf, message = RecordList[Message]("message", Records(diary)), Message.user("x")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shelf.store, message)
            await anyio.wait_all_tasks_blocked()
            assert len(shelf) == 0
            diary.hold.set()

    assert list(shelf) == [message]


async def test_concurrent_changes_are_stored_and_shown_in_the_same_order() -> None:
    diary = Diary()
    diary.hold = anyio.Event()
    record = call("a")
    shelf = RecordList[ToolCallRecord]("tool_call", Records(diary))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for change in (shelf.store, shelf.store, shelf.mutate):
                tasks.start_soon(change, record)
            tasks.start_soon(shelf.delete, "a")
            await anyio.wait_all_tasks_blocked()
            diary.hold.set()

    replayed: list[str] = []
    for asked in diary.asked:
        replayed = [] if asked[0] == "delete" else ["a"]
    assert [each.id for each in shelf] == replayed
    # Tasks start in any order: a record is kept a second time only when it was deleted in between.
    stages = " ".join(asked[0] for asked in diary.asked).split("delete")
    assert all(stage.count("store") <= 1 for stage in stages)


async def test_same_record_is_listed_once_and_an_equal_one_again() -> None:
    diary = Diary()
    shelf = RecordList[Message]("message", Records(diary))
    first = Message.user("x")
    twin = Message(**vars(first))

    assert await shelf.store(first) is first
    await shelf.store(first)
    await shelf.store(twin)

    assert first == twin
    assert [each is first for each in shelf] == [True, False]
    assert len(diary.asked) == 2
    assert twin in shelf
    assert Message(**vars(first)) not in shelf


async def test_initial_records_are_shown_but_not_stored_again() -> None:
    diary = Diary()
    shelves = TurnRecords(
        Records(diary),
        turn_id="turn 1",
        messages=["yes", "yes"],
        thoughts=[Thought(content="hm")],
        memories=[Memory(content="x")],
        retrievables=[Retrievable(content="x", trust_tier="first-party")],
        tool_calls=[call(), call()],
    )

    assert list(shelves.message) == ["yes", "yes"]
    assert [len(each) for each in (shelves.thought, shelves.memory, shelves.retrievable)] == [1, 1, 1]
    assert shelves.tool_call.count("c") == 2
    assert diary.asked == []
    assert shelves.message[-1] == "yes"


async def test_record_list_may_change_during_iteration() -> None:
    shelf = RecordList("tool_call", shown=[call("a"), call("b")])
    seen: list[str] = []

    for each in shelf:
        seen.append(each.id)
        await shelf.delete(each.id)
        await shelf.store(call("c"))

    assert seen == ["a", "b"]
    assert [each.id for each in shelf] == ["c", "c"]


STEPS = st.lists(
    st.tuples(st.sampled_from(["store", "mutate", "delete"]), st.sampled_from("ab"), st.sampled_from("xyz"))
)


def expected(model: list[ToolCallRecord], step: str, record: ToolCallRecord) -> list[ToolCallRecord]:
    """What the contract says of each step, as plainly as possible."""
    same = [place for place, each in enumerate(model) if each.id == record.id]
    if step == "store" or (step == "mutate" and not same):
        return [*model, record]
    if step == "mutate":
        others = [each for each in model[same[0] :] if each.id != record.id]
        return [*model[: same[0]], record, *others]
    return [each for place, each in enumerate(model) if place not in same[:1]]


@given(STEPS)
def test_record_list_store_and_counts_follow_the_contract(steps: list[tuple[str, str, str]]) -> None:
    async def play() -> None:
        records = Records.memory()
        shelf = RecordList[ToolCallRecord]("tool_call", records, turn_id="turn 1")
        model: list[ToolCallRecord] = []
        for step, name, checksum in steps:
            record = call(name, checksum=checksum)
            await (shelf.delete(name) if step == "delete" else getattr(shelf, step)(record))
            model = expected(model, step, record)

            assert list(shelf) == list((await records.load("turn 1")).tool_calls) == model
            assert {each: shelf.count(each) for each in "xyz"} == {
                each: sum(record.checksum == each for record in model) for each in "xyz"
            }

    anyio.run(play)


async def test_cursor_reads_each_record_once_and_all_of_them_after_a_change() -> None:
    shelf = RecordList("tool_call", shown=[call("a")])
    cursor = RecordCursor(shelf)

    assert cursor.read() == (False, [*shelf])
    assert cursor.read() == (False, [])
    await shelf.store(call("b"))
    assert [each.id for each in cursor.read()[1]] == ["b"]
    await shelf.delete("a")
    assert [each.id for each in shelf] == ["b"]
    assert cursor.read() == (True, [*shelf])
    assert cursor.read() == (False, [])


RESULTS: dict[str, Any] = {
    "x": "text",
    "y": Artifact.from_text("whole"),
    "z": (Artifact.from_text("first"), Artifact.from_text("second")),
}


def find_artifacts(records: Sequence[ToolCallRecord]) -> dict[str, Artifact]:
    """What the contract says of addresses, as plainly as possible: the last call of an id has it."""
    found: dict[str, Artifact] = {}
    for call_id, results in {each.id: each.results for each in records}.items():
        if results == RESULTS["z"]:
            found |= {f"{call_id}#0": results[0], f"{call_id}#1": results[1]}
        elif results == RESULTS["y"]:
            found[call_id] = results
    return found


@given(STEPS)
def test_the_index_of_calls_follows_every_change_of_the_records(
    steps: list[tuple[str, str, str]],
) -> None:
    async def play() -> None:
        records = TurnRecords()
        shelf = records.tool_call
        for step, name, kind in steps:
            record = replace(call(name), results=RESULTS[kind], trusted=kind == "x")
            await (shelf.delete(name) if step == "delete" else getattr(shelf, step)(record))

            assert records.artifacts.all() == find_artifacts(shelf.all())
            assert records.has_untrusted_call == any(not each.trusted for each in shelf)

    anyio.run(play)


async def test_attachments_follow_messages_that_come_later_and_mappings_that_change() -> None:
    first, second, third = (
        Media.user_attachment(name.encode(), kind="document", mime_type="text/plain", filename=f"{name}.txt")
        for name in "abc"
    )
    said: dict[str, Any] = {"role": "user", "content": "x"}
    records = TurnRecords(messages=["Hi.", said])

    assert records.collect_attachments((first,)) == (first,)
    said["attachments"] = (second,)
    await records.message.store(Message.user("y", id="m", attachments=(third,)))
    await records.message.store(Message.assistant("z", attachments=(first,)))
    assert records.collect_attachments(()) == (second, third)
    await records.message.delete("m")
    assert records.collect_attachments(()) == (second,)
