"""The storage of records, in a store of any kind."""

from typing import Any

import pytest

from spindle.errors import InvalidMessageError, InvalidRecordError, UsageError
from spindle.turns import Memory, Message, Records
from spindle.turns.record_list import Kind, RecordList
from spindle.turns.records import RecordSet
from tests.turns.record_scene import Diary, call

pytestmark = pytest.mark.anyio


async def test_custom_store_gets_the_turn_id() -> None:
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


def test_store_without_a_method_is_rejected() -> None:
    class Half:
        async def store(self, kind: Kind, record: Any, *, turn_id: str | None) -> None: ...

    untyped: Any = Half()
    with pytest.raises(UsageError) as caught:
        Records(untyped)

    assert caught.value.field == "store"


@pytest.mark.parametrize("kind", ["", "messages", None, 5, []], ids=repr)
async def test_records_have_five_kinds(kind: Any) -> None:
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


async def test_load_returns_records_by_kind() -> None:
    records, message, memory = Records.memory(), Message.user("x"), Memory(content="x")
    await records.store("memory", memory)
    await records.store("message", message)

    assert await records.load() == RecordSet(messages=(message,), memories=(memory,))
