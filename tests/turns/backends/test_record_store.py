"""What every place for records must do: one suite, run over all of them."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from spindle import ToolCallRecord
from spindle.turns.record_types import Memory, Message, Retrievable, Thought
from spindle.turns.records import Kind, Records, RecordSet

pytestmark = pytest.mark.anyio

NASTY = [
    "call_1",
    "",
    " ",
    "nul\x00byte",
    "lone \ud800",
    "\U0001f600",
    "e\u0301",
    "\u00e9",
    "'; DROP TABLE records",
    "x" * 5_000,
]


@pytest.fixture(params=["memory", "sqlite"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Records]:
    made = Records.memory() if request.param == "memory" else Records.sqlite(tmp_path / "records.db")
    async with made:
        yield made


def call(id: str = "call_1", **facts: Any) -> ToolCallRecord:
    known: dict[str, Any] = {
        "tool": "add", "args": {"a": 1}, "checksum": "c", "is_complete": True, "is_error": False, "results": "2",
    }  # fmt: skip
    return ToolCallRecord(id=id, **{**known, **facts})


ONE_OF_EACH: list[tuple[Kind, Any]] = [
    ("message", Message.user("hello \ud800 \U0001f600", identity="ada")),
    ("thought", Thought(content="hm", payload={"x": [1, None]}, replay_compatibility="vendor-1")),
    ("memory", Memory(content="likes tea", confidence=0.5, importance=1)),
    ("retrievable", Retrievable(content="found", trust_tier="third-party-public", score=0.25, source="x")),
    ("tool_call", call(trusted=True, inline=True, shown="2", created_at=datetime(2026, 1, 1, 12, tzinfo=UTC))),
]


@pytest.mark.parametrize(("kind", "record"), ONE_OF_EACH, ids=[kind for kind, _ in ONE_OF_EACH])
async def test_a_record_comes_back_as_it_was(records: Records, kind: Kind, record: Any) -> None:
    await records.store(kind, record, turn_id="turn 1")

    found = await records.load("turn 1")

    names = {"memory": "memories"}
    assert getattr(found, names.get(kind, f"{kind}s")) == (record,)


async def test_a_fresh_place_is_empty(records: Records) -> None:
    assert await records.load() == RecordSet()


async def test_records_come_back_in_order_and_by_turn(records: Records) -> None:
    messages = [Message.user(str(number)) for number in range(6)]
    for number, message in enumerate(messages):
        await records.store("message", message, turn_id=f"turn {number % 2}")

    assert (await records.load()).messages == tuple(messages)
    assert (await records.load("turn 0")).messages == tuple(messages[::2])
    assert (await records.load("turn 7")) == RecordSet()


async def test_a_record_without_a_turn_belongs_to_none(records: Records) -> None:
    await records.store("message", Message.user("x"))

    assert len((await records.load()).messages) == 1
    assert (await records.load("turn 1")).messages == ()


async def test_replacing_keeps_the_place_and_the_turn(records: Records) -> None:
    first, second = Message.user("first"), Message.user("second")
    for message in (first, second):
        await records.store("message", message, turn_id="turn 1")

    changed = replace(first, content="changed")
    await records.replace("message", changed, turn_id="turn 2")

    assert (await records.load("turn 1")).messages == (changed, second)
    assert (await records.load("turn 2")).messages == ()


async def test_replacing_removes_the_others_with_that_id(records: Records) -> None:
    for tool in ("a", "b", "c"):
        await records.store("tool_call", call("x" if tool != "b" else "y", tool=tool), turn_id="turn 1")

    await records.replace("tool_call", call("x", tool="new"), turn_id="turn 1")

    assert [each.tool for each in (await records.load("turn 1")).tool_calls] == ["new", "b"]


async def test_replacing_what_is_not_there_adds_it(records: Records) -> None:
    message = Message.user("x")

    await records.replace("message", message, turn_id="turn 1")

    assert (await records.load("turn 1")).messages == (message,)


async def test_deleting_removes_the_first_with_that_id(records: Records) -> None:
    for tool in ("a", "b"):
        await records.store("tool_call", call(tool=tool), turn_id="turn 1")

    await records.delete("tool_call", "call_1", turn_id="turn 1")
    assert [each.tool for each in (await records.load()).tool_calls] == ["b"]

    await records.delete("tool_call", "nobody", turn_id="turn 1")
    await records.delete("message", "call_1", turn_id="turn 1")
    assert len((await records.load()).tool_calls) == 1


async def test_a_calls_id_is_its_turns_own_because_providers_use_ids_again(records: Records) -> None:
    for turn in ("turn 1", "turn 2", None):
        await records.store("tool_call", call(tool=f"of {turn}"), turn_id=turn)

    await records.replace("tool_call", call(tool="changed"), turn_id="turn 2")
    await records.delete("tool_call", "call_1", turn_id=None)

    assert [each.tool for each in (await records.load()).tool_calls] == ["of turn 1", "changed"]


async def test_other_records_are_found_in_any_turn(records: Records) -> None:
    message = Message.user("x")
    await records.store("message", message, turn_id="turn 1")

    await records.delete("message", message.id, turn_id="turn 2")

    assert (await records.load()).messages == ()


@pytest.mark.slow
@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
async def test_ids_and_turns_may_be_any_text(records: Records, text: str) -> None:
    record = call(text or "empty ids are refused", args={text: text}, results=text)
    await records.store("tool_call", record, turn_id=text)
    await records.store("tool_call", call("other"), turn_id="other")

    assert (await records.load(text)).tool_calls == (record,)
    await records.delete("tool_call", record.id, turn_id=text)
    assert [each.id for each in (await records.load()).tool_calls] == ["other"]


async def test_many_writers_at_once_lose_nothing(records: Records) -> None:
    async def write(number: int) -> None:
        for step in range(10):
            await records.store("message", Message.user(f"{number}.{step}"), turn_id=str(number))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(write, number)

    assert len((await records.load()).messages) == 200
    assert [each.content for each in (await records.load("7")).messages] == [f"7.{step}" for step in range(10)]


async def test_a_cancelled_caller_either_keeps_or_does_not_and_knows(records: Records) -> None:
    for patience in range(4):
        message, returned = Message.user("x"), False
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:

                async def store(message: Message = message) -> None:
                    nonlocal returned
                    await records.store("message", message, turn_id="turn 1")
                    returned = True

                tasks.start_soon(store)
                for _ in range(patience):
                    await checkpoint()
                tasks.cancel_scope.cancel()
        kept = message in (await records.load("turn 1")).messages
        assert kept == returned


async def test_closing_twice_does_nothing(records: Records) -> None:
    await records.aclose()
    await records.aclose()


def test_both_kinds_of_place_are_made_by_name(tmp_path: Path) -> None:
    makers: list[Callable[[], Records]] = [Records.memory, lambda: Records.sqlite(tmp_path / "never opened.db")]

    assert all(isinstance(make(), Records) for make in makers)
    assert not list(tmp_path.iterdir())
