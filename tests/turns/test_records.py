"""The port of records, and the shelves that show them."""

from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import ToolCallRecord
from spindle.errors import InvalidMessageError, InvalidRecordError, UsageError
from spindle.turns.record_types import Memory, Message, Retrievable, Thought
from spindle.turns.records import Kind, RecordList, Records, RecordSet, TurnRecords

pytestmark = pytest.mark.anyio


class Diary:
    """A place of one's own: writes down what it is asked, and fails on demand."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.broken = False
        self.hold: anyio.Event | None = None

    async def store(self, kind: Kind, record: Any, *, turn_id: str | None) -> None:
        await self._write("store", kind, record, turn_id)

    async def replace(self, kind: Kind, record: Any, *, turn_id: str | None) -> None:
        await self._write("replace", kind, record, turn_id)

    async def delete(self, kind: Kind, id: str, *, turn_id: str | None) -> None:
        await self._write("delete", kind, id, turn_id)

    async def load(self, turn_id: str | None) -> Iterable[tuple[Kind, Any]]:
        return [("message", Message.user(f"of {turn_id}"))]

    async def _write(self, *asked: Any) -> None:
        if self.hold is not None:
            await self.hold.wait()
        if self.broken:
            raise OSError("the diary is lost")
        self.asked.append(asked)


def call(id: str = "call_1", *, checksum: str = "c") -> ToolCallRecord:
    return ToolCallRecord(id=id, tool="add", args={}, checksum=checksum, is_complete=True, is_error=False, results="2")


async def test_a_place_of_ones_own_is_asked_with_the_turn() -> None:
    diary = Diary()
    records, message = Records(diary), Message.user("x")
    shelf = RecordList[Message]("message", records, turn_id="turn 1")

    await shelf.store(message)
    await shelf.mutate(message)
    await shelf.delete(message.id)
    await records.store("message", message)

    assert diary.asked == [
        ("store", "message", message, "turn 1"),
        ("replace", "message", message, "turn 1"),
        ("delete", "message", message.id, "turn 1"),
        ("store", "message", message, None),
    ]
    assert [each.content for each in (await records.load("turn 1")).messages] == ["of turn 1"]
    async with records:
        pass  # a place without aclose has nothing to close


def test_what_lacks_a_method_is_no_place() -> None:
    class Half:
        async def store(self, kind: Kind, record: Any, *, turn_id: str | None) -> None: ...

    untyped: Any = Half()
    with pytest.raises(UsageError) as caught:
        Records(untyped)

    assert caught.value.field == "store"


@pytest.mark.parametrize("kind", ["", "messages", None, 5, []], ids=repr)
async def test_there_are_five_kinds(kind: Any) -> None:
    records = Records(Diary())

    for asked in (records.store(kind, Message.user("x")), records.delete(kind, "x")):
        with pytest.raises(InvalidRecordError) as caught:
            await asked
        assert caught.value.field == "kind"


async def test_a_record_must_be_of_its_kind() -> None:
    diary = Diary()
    records, shelf = Records(diary), RecordList[Any]("message")

    for asked in (
        records.store("message", call()),
        records.replace("message", call()),
        shelf.store({"role": "user", "content": "x"}),
        shelf.mutate("x"),
    ):
        with pytest.raises(InvalidMessageError):
            await asked
    with pytest.raises(InvalidRecordError):
        await records.store("tool_call", Message.user("x"))

    assert diary.asked == list(shelf) == []


async def test_a_failing_place_leaves_no_ghost() -> None:
    diary = Diary()
    first, second = call("a"), call("b")
    shelf = RecordList("tool_call", Records(diary), shown=[first])
    diary.broken = True

    for change in (shelf.store(second), shelf.mutate(call("a", checksum="new")), shelf.delete("a")):
        with pytest.raises(OSError, match="lost"):
            await change

    assert list(shelf) == [first]
    assert (shelf.count("c"), shelf.count("new")) == (1, 0)


async def test_a_record_is_shown_only_once_it_is_kept() -> None:
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


async def test_changes_at_the_same_time_are_kept_and_shown_in_one_order() -> None:
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


async def test_one_and_the_same_record_is_on_the_shelf_once_and_equal_ones_twice() -> None:
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


async def test_what_a_turn_starts_with_is_shown_in_full_and_not_kept_again() -> None:
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


async def test_a_shelf_may_change_while_someone_goes_through_it() -> None:
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
def test_a_shelf_the_places_behind_it_and_the_counts_follow_the_contract(steps: list[tuple[str, str, str]]) -> None:
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


async def test_loading_sorts_by_kind() -> None:
    records, message, memory = Records.memory(), Message.user("x"), Memory(content="x")
    await records.store("memory", memory)
    await records.store("message", message)

    assert await records.load() == RecordSet(messages=(message,), memories=(memory,))
