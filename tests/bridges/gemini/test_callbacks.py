"""The dialect of Gemini's generateContent: definitions, calls and results."""

import subprocess
import sys
from typing import Any

import pytest
from google.genai import types

from spindle import Call, DispatchContext, Media, Ok, ToolCallRecord, tool
from spindle.bridges import gemini
from spindle.bridges.gemini.conversation import API, ContentsWriter
from spindle.bridges.rendering import MediaSupport
from spindle.bridges.transcript import Transcript
from spindle.errors import UnsupportedMediaError, UsageError
from spindle.turns import Message as Said
from tests.bridges.golden.comparing import agrees
from tests.bridges.outcomes import OUTCOMES, outcome, picture
from tests.bridges.wire.generating import call, chunk

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(name="files read/all")
async def read_all() -> str:
    """Read everything."""
    return ""


async def conversation(*said: Any, records: tuple[ToolCallRecord, ...] = ()) -> list[dict[str, Any]]:
    ctx = DispatchContext(messages=said, tool_calls=records, tools=[add])
    steps = await Transcript().build_steps(ctx, API.restrict_media(None))
    written = ContentsWriter(is_inside=True).write(steps, gemini.definitions([add, read_all]))
    for content in written:
        types.Content.model_validate(content)
    return written


# Definitions


def test_definitions_are_what_the_sdk_takes() -> None:
    reported = gemini.definitions([add, read_all])

    types.Tool.model_validate({"functionDeclarations": reported.tools})
    assert [each["name"] for each in reported.tools] == ["add", "files_read_all_fa74fd01"]
    assert reported.tools[0]["parameters"]["required"] == ["a"]


def test_a_tool_without_arguments_has_no_parameters() -> None:
    assert "parameters" not in gemini.definitions([read_all]).tools[0]


def test_the_dialect_does_not_import_the_sdk() -> None:
    code = "import sys, spindle.bridges.gemini; print('google.genai' in sys.modules)"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.split() == ["False"]


def test_a_client_and_an_address_are_not_both_taken() -> None:
    client: Any = object()

    with pytest.raises(UsageError):
        gemini.generate(model="m", client=client, base_url="http://127.0.0.1")


# Calls, from whole answers


@pytest.mark.parametrize("as_object", [False, True])
def test_calls_of_a_whole_answer_are_read_from_data_and_from_sdk_objects(as_object: bool) -> None:
    response: Any = chunk(
        {"text": "so"}, call("files_read_all_fa74fd01", {}, "f1"), call("add", {"a": 1}, "f2"), reason="STOP"
    )
    if as_object:
        response = types.GenerateContentResponse.model_validate(response)

    found = gemini.calls(response, gemini.definitions([add, read_all]))

    assert found == [Call("f1", "files read/all", {}), Call("f2", "add", {"a": 1})]


@pytest.mark.parametrize("junk", [None, 5, "x", [], {}, {"candidates": None}, {"candidates": [None, {"content": 5}]}])
def test_a_value_that_is_not_an_answer_has_no_calls(junk: Any) -> None:
    assert gemini.calls(junk) == []


# What the model is answered


async def test_results_are_as_the_golden_file_has_them() -> None:
    written = await gemini.results(OUTCOMES)

    types.Content.model_validate({"role": "user", "parts": written})
    answered = [part["functionResponse"] for part in written]
    assert [each["id"] for each in answered] == [each.tool_call_id for each in OUTCOMES]
    assert [("error" in each["response"]) for each in answered] == [not each.ok for each in OUTCOMES]
    agrees("results/gemini_outcomes.json", written)


async def test_an_id_the_api_did_not_give_is_not_sent_to_it() -> None:
    first, second = gemini.calls(chunk(call("add", {"a": 1}), call("add", {"a": 2}, "f2"), reason="STOP"))

    written = await gemini.results([outcome(first.tool_call_id, Ok("2")), outcome(second.tool_call_id, Ok("3"))])

    assert [part["functionResponse"].get("id") for part in written] == [None, "f2"]


async def test_a_name_that_was_mapped_is_answered_by_its_name_on_the_wire() -> None:
    reported = gemini.definitions([read_all])

    (part,) = await gemini.results([outcome("f1", Ok("x"), "files read/all")], definitions=reported)

    assert part["functionResponse"]["name"] == "files_read_all_fa74fd01"


async def test_sound_follows_the_response_that_cannot_hold_it() -> None:
    sound = Media.tool_generated(b"RIFF\0\0\0\0WAVEfmt ", kind="audio", mime_type="audio/wav", filename="a.wav")

    written = await gemini.results([outcome("f1", Ok("heard", media=(sound,))), outcome("f2", Ok("x"))])

    types.Content.model_validate({"role": "user", "parts": written})
    assert [next(iter(part)) for part in written] == ["functionResponse", "functionResponse", "text", "inlineData"]


async def test_media_the_model_cannot_see_is_refused_or_described() -> None:
    packed = Media.tool_generated(b"PK", kind="document", mime_type="application/zip", filename="a.zip")
    found = [outcome("f1", Ok("", media=(packed,)))]

    with pytest.raises(UnsupportedMediaError):
        await gemini.results(found)
    (part,) = await gemini.results(found, media=MediaSupport(unsupported="synthetic-description"))

    assert "a.zip" in part["functionResponse"]["response"]["result"]


# Conversations


async def test_consecutive_messages_of_one_role_are_one_content() -> None:
    written = await conversation(
        Said.user("a"), Said.user("b"), Said.assistant("c"), Said.assistant(" "), Said.user("d")
    )

    assert written == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
        {"role": "model", "parts": [{"text": "c"}]},
        {"role": "user", "parts": [{"text": "d"}]},
    ]


async def test_a_conversation_always_begins_with_the_user() -> None:
    assert (await conversation())[0]["role"] == "user"
    assert [each["role"] for each in await conversation(Said.assistant("hi"))] == ["user", "model"]


async def test_system_messages_become_the_system_instruction() -> None:
    ctx = DispatchContext(messages=[Said.user("a"), Said.system("be brief")])
    steps = await Transcript().build_steps(ctx, API.restrict_media(None))

    writer = ContentsWriter(is_inside=True)
    writer.write(steps, gemini.definitions([]))
    assert writer.collect_system_texts("be kind") == ["be kind", "be brief"]


async def test_attachments_are_parts() -> None:
    written = await conversation(Said.user("look", attachments=(picture(),)))

    assert [next(iter(part)) for part in written[0]["parts"]] == ["text", "text", "inlineData"]


async def test_records_of_earlier_turns_become_calls_and_their_answers() -> None:
    facts: dict[str, Any] = {"checksum": "0" * 64, "is_complete": True, "is_error": False, "results": "r"}
    old = [
        ToolCallRecord(id="x", tool="add", args={"a": 1}, **facts),
        ToolCallRecord(id="y", tool="a b", args={}, **facts),
    ]

    written = await conversation(Said.user("a"), records=tuple(old))

    asked = [part["functionCall"] for each in written for part in each["parts"] if "functionCall" in part]
    answered = [part["functionResponse"] for each in written for part in each["parts"] if "functionResponse" in part]
    assert asked == [{"name": "add", "args": {"a": 1}}, {"name": "a_b_c8687a08", "args": {}}]
    assert [each["name"] for each in answered] == ["add", "a_b_c8687a08"]
    assert all("id" not in each for each in answered)
