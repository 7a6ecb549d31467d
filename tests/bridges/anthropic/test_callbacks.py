"""The dialect of Anthropic's Messages API: definitions, calls and results."""

import subprocess
import sys
from typing import Any

import pytest
from anthropic.types import Message, MessageParam, ToolParam, ToolResultBlockParam
from pydantic import TypeAdapter

from spindle import Call, DispatchContext, Media, Ok, ToolCallRecord, tool
from spindle.bridges import anthropic
from spindle.bridges.anthropic.conversation import API, MessagesWriter, build_placeholder_tools
from spindle.bridges.rendering import MediaSupport
from spindle.bridges.transcript import Transcript
from spindle.errors import UnsupportedMediaError, UsageError
from spindle.turns import Message as Said
from tests.bridges.golden.comparing import agrees
from tests.bridges.outcomes import OUTCOMES, outcome, picture
from tests.bridges.wire import messages as wire

pytestmark = pytest.mark.anyio
RESULTS: TypeAdapter[Any] = TypeAdapter(list[ToolResultBlockParam])
MESSAGES: TypeAdapter[Any] = TypeAdapter(list[MessageParam])


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(name="files.read/all")
async def read_all() -> str:
    """Read everything."""
    return ""


READ_ALL = anthropic.definitions([read_all]).names.to_wire("files.read/all")


async def conversation(*said: Any, records: tuple[ToolCallRecord, ...] = ()) -> list[dict[str, Any]]:
    ctx = DispatchContext(messages=said, tool_calls=records, tools=[add])
    written = MessagesWriter().write(
        await Transcript().build_steps(ctx, API.restrict_media(None)), anthropic.definitions([add, read_all])
    )
    MESSAGES.validate_python(written)
    assert [each["role"] for each in written] == ["user", "assistant"] * (len(written) // 2) + ["user"] * (
        len(written) % 2
    )
    return written


def record(id: str, tool: str = "add", args: Any = None, **facts: Any) -> ToolCallRecord:
    reported: dict[str, Any] = {"checksum": "0" * 64, "is_complete": True, "is_error": False, "results": "r"} | facts
    return ToolCallRecord(id=id, tool=tool, args=args or {}, **reported)


# Definitions


def test_definitions_are_what_the_sdk_takes() -> None:
    reported = anthropic.definitions([add, read_all])

    TypeAdapter(list[ToolParam]).validate_python(reported.tools)
    assert [each["name"] for each in reported.tools] == ["add", reported.names.to_wire(read_all.name)]
    assert reported.tools[0]["input_schema"]["required"] == ["a"]
    assert "strict" not in reported.tools[0]


def test_strict_definitions_say_so() -> None:
    assert anthropic.definitions([add], strict=True).tools[0]["strict"] is True


def test_names_that_differ_only_in_refused_letters_are_both_offered() -> None:
    @tool(name="files_read_all")
    async def other() -> str:
        """Read."""
        return ""

    reported = anthropic.definitions([read_all, other])

    assert [reported.call("c", each["name"], {}).name for each in reported.tools] == [read_all.name, "files_read_all"]


def test_the_dialect_does_not_import_the_sdk() -> None:
    code = "import sys, spindle.bridges.anthropic; print('anthropic' in sys.modules)"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.split() == ["False"]


def test_a_client_and_an_address_are_not_both_taken() -> None:
    with pytest.raises(UsageError):
        anthropic.messages(model="m", client=object(), base_url="http://127.0.0.1")  # type: ignore[arg-type]  # wrong on purpose


# Calls, from whole answers


@pytest.mark.parametrize("as_object", [False, True])
def test_calls_of_a_whole_answer_are_read_from_data_and_from_sdk_objects(as_object: bool) -> None:
    response: Any = wire.message(
        {"type": "text", "text": "so"},
        {"type": "tool_use", "id": "t1", "name": READ_ALL, "input": {}},
        {"type": "tool_use", "id": "t2", "name": "add", "input": {"a": 1, "b": None}},
    )
    if as_object:
        response = Message.model_validate(response)

    found = anthropic.calls(response, anthropic.definitions([add, read_all]))

    assert found == [Call("t1", "files.read/all", "{}"), Call("t2", "add", '{"a": 1, "b": null}')]


@pytest.mark.parametrize("junk", [None, 5, "x", [], {}, {"content": None}, {"content": [None, 5, {"type": 3}]}])
def test_a_value_that_is_not_an_answer_has_no_calls(junk: Any) -> None:
    assert anthropic.calls(junk) == []


# What the model is answered


async def test_results_are_as_the_golden_file_has_them() -> None:
    written = await anthropic.results(OUTCOMES)

    RESULTS.validate_python(written)
    assert [block["tool_use_id"] for block in written] == [each.tool_call_id for each in OUTCOMES]
    assert [block.get("is_error", False) for block in written] == [not each.ok for each in OUTCOMES]
    agrees("results/anthropic_outcomes.json", written)


async def test_documents_are_blocks_of_their_own() -> None:
    about: dict[str, Any] = {"kind": "document", "id": "d", "trust_tier": "first-party", "modality_hazard": "inert"}
    pdf = Media.from_bytes(b"%PDF-1.7\n", mime_type="application/pdf", filename="a.pdf", **about)
    note = Media.from_bytes(b"hello", mime_type="text/plain", filename="a.txt", **about)
    able = MediaSupport(mime_types=frozenset({"application/pdf", "text/plain"}))

    (block,) = await anthropic.results([outcome("t1", Ok("", media=(pdf, note)))], media=able)

    RESULTS.validate_python([block])
    documents = [each for each in block["content"] if each["type"] == "document"]
    assert documents[0]["source"]["media_type"] == "application/pdf"
    assert documents[1]["source"] == {"type": "text", "media_type": "text/plain", "data": "hello"}


async def test_media_the_model_cannot_see_is_refused_or_described() -> None:
    sound = Media.tool_generated(b"RIFF", kind="audio", mime_type="audio/wav", filename="a.wav")
    received = [outcome("t1", Ok("", media=(sound,)))]

    with pytest.raises(UnsupportedMediaError):
        await anthropic.results(received)
    (block,) = await anthropic.results(received, media=MediaSupport(unsupported="synthetic-description"))

    assert {each["type"] for each in block["content"]} == {"text"}


async def test_media_that_is_too_large_is_described() -> None:
    large = Media.tool_generated(
        b"\x89PNG\r\n\x1a\n" + bytes(4_000_000), kind="image", mime_type="image/png", filename="a.png"
    )

    (block,) = await anthropic.results([outcome("t1", Ok("", media=(large,)))], media=MediaSupport())

    assert {each["type"] for each in block["content"]} == {"text"}


async def test_ids_of_other_providers_are_made_fit() -> None:
    first, second = await anthropic.results([outcome("call:1|x", Ok("")), outcome("call:1|y", Ok(""))])

    assert first["tool_use_id"].replace("_", "").isalnum()
    assert first["tool_use_id"] != second["tool_use_id"]


# Conversations


async def test_consecutive_messages_of_one_role_are_one_message() -> None:
    written = await conversation(
        Said.user("a"), Said.user("b"), Said.assistant("c "), Said.assistant(" "), Said.user("d")
    )

    assert written == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "c"}]},
        {"role": "user", "content": [{"type": "text", "text": "d"}]},
    ]


async def test_a_conversation_always_begins_with_the_user() -> None:
    assert (await conversation())[0]["role"] == "user"
    assert [each["role"] for each in await conversation(Said.assistant("hi"))] == ["user", "assistant"]


async def test_system_messages_become_the_system_prompt() -> None:
    ctx = DispatchContext(messages=[Said.user("a"), Said.system("be brief")])
    steps = await Transcript().build_steps(ctx, API.restrict_media(None))

    writer = MessagesWriter()
    writer.write(steps, anthropic.definitions([]))
    assert writer.collect_system_texts("be kind") == ["be kind", "be brief"]
    assert await conversation(Said.user("a"), Said.system("be brief")) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]}
    ]


async def test_attachments_are_blocks() -> None:
    written = await conversation(Said.user("look", attachments=(picture(),)))

    assert [block["type"] for block in written[0]["content"]] == ["text", "text", "image"]


async def test_records_of_earlier_turns_become_calls_and_their_answers() -> None:
    old = [record("t1", args={"a": 1}), record("t1", args={"a": 2}), record("odd id!", "gone.tool", is_error=True)]

    written = await conversation(Said.user("a"), records=tuple(old))

    asked = [block for each in written for block in each["content"] if block["type"] == "tool_use"]
    answered = [block for each in written for block in each["content"] if block["type"] == "tool_result"]
    assert [block["input"] for block in asked] == [{"a": 1}, {"a": 2}, {}]
    assert [block["id"] for block in asked] == [block["tool_use_id"] for block in answered]
    assert len({block["id"] for block in asked}) == 3
    assert asked[2]["name"].startswith("gone_tool_")
    assert answered[2]["is_error"] is True
    assert written[-1]["content"][0]["type"] == "tool_result"


async def test_removed_tools_are_still_defined_if_the_conversation_names_them() -> None:
    written = await conversation(Said.user("a"), records=(record("t1"),))

    assert [each["name"] for each in build_placeholder_tools(written)] == ["add"]
    TypeAdapter(list[ToolParam]).validate_python(build_placeholder_tools(written))
