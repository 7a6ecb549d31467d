"""Whose calls a forged reader reads, and what it is told at forging that no type can say."""

from types import SimpleNamespace
from typing import Any

import pytest

from spindle import Artifact, DispatchContext, ToolCallRecord, ToolContext
from spindle.artifacts.tokens import register_counter
from spindle.errors import ArtifactQueryError, ToolDownstreamError

pytestmark = pytest.mark.anyio


def turn_with(text: str) -> DispatchContext:
    kept = Artifact.from_text(text)
    call = ToolCallRecord(id="c", tool="t", args={}, checksum="x", is_complete=True, is_error=False, results=kept)
    return DispatchContext(tool_calls=[call])


async def test_a_reader_reads_the_turn_it_is_called_in() -> None:
    one, other = turn_with("one"), turn_with("other")
    head = Artifact.forge_tools(one).get("artifact_head")
    assert head is not None

    assert await head.executor(one)({"call_id": "c"}) == "one"
    assert await head.executor(other)({"call_id": "c"}) == "other"
    assert await head.executor(ToolContext())({"call_id": "c"}) == "one"
    with pytest.raises(ToolDownstreamError) as caught:
        await head.executor(DispatchContext())({"call_id": "c"})
    assert isinstance(caught.value.__cause__, ArtifactQueryError)
    assert caught.value.__cause__.field == "call_id"


async def test_a_reader_of_a_holder_that_is_no_turn_reads_that_holder_everywhere() -> None:
    holder: Any = SimpleNamespace(tool_calls=turn_with("held").tool_calls)
    head = Artifact.forge_tools(holder).get("artifact_head")
    assert head is not None

    assert await head.executor(turn_with("other"))({"call_id": "c"}) == "held"


async def test_a_tail_that_is_cut_still_has_the_last_line() -> None:
    turn = turn_with("\n".join(f"{number} {'x' * 200}" for number in range(1_000)))
    tail = Artifact.forge_tools(turn).get("artifact_tail")
    assert tail is not None

    *lines, note = (await tail.executor(turn)({"call_id": "c", "n": 900})).split("\n")
    assert lines[-1].startswith("999 ")
    assert lines[0].startswith(f"{1_000 - len(lines)} ")
    assert note.startswith(f"[{len(lines)} items shown, more come before")


def test_an_encoding_with_a_counter_of_its_own_can_be_asked_for() -> None:
    def told() -> list[str]:
        tool = Artifact.forge_tools(turn_with("text")).get("artifact_estimate_tokens")
        assert tool is not None
        return tool.describe()["input_schema"]["properties"]["encoding"]["anyOf"][0]["enum"]

    undo = register_counter("ours", len)
    try:
        assert "ours" in told()
    finally:
        undo()
    assert "ours" not in told()
