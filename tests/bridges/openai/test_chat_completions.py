"""The dialect of Chat Completions: what the model is told, what it asks for, what it is answered."""

import json
import re
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel, TypeAdapter

from spindle import Call, Media, Ok
from spindle.bridges.openai import chat_completions
from spindle.bridges.rendering import MediaSupport
from spindle.errors import UnsupportedMediaError
from tests.bridges.chat_scene import add, dotted, now, refused, streamed
from tests.bridges.chat_wire import asking, whole
from tests.bridges.outcomes import GOLDEN, OUTCOMES, outcome, picture, steady

# What the model is told


def test_definitions_are_what_the_sdk_takes() -> None:
    told = chat_completions.definitions([add, now])

    TypeAdapter(list[ChatCompletionToolParam]).validate_python(told.tools)
    assert [each["function"]["name"] for each in told.tools] == ["add", "now"]
    assert told.tools[0]["function"]["parameters"]["required"] == ["a", "b"]
    assert "strict" not in told.tools[0]["function"]


def test_strict_definitions_say_so() -> None:
    assert chat_completions.definitions([add], strict=True).tools[0]["function"]["strict"] is True


NO_ANSWERS: list[Any] = [
    *(None, "text", 5, [], {}, {"choices": None}, {"choices": [None]}, {"choices": [{"message": None}]}),
    *({"choices": [{"message": {"tool_calls": junk}}]} for junk in ("x", 5, [None, 5, "x"])),
    {"choices": [{"message": {"tool_calls": [{}, [[]]]}}]},
]

# Calls, from whole answers


def function(name: str, arguments: Any, id: str | None = "c1") -> dict[str, Any]:
    entry = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return entry | ({"id": id} if id else {})


@pytest.mark.parametrize("as_object", [False, True])
def test_calls_of_a_whole_answer_are_read_from_data_and_from_sdk_objects(as_object: bool) -> None:
    message = {"content": None, "tool_calls": [function("add", '{"a":1,"b":2}'), function("now", "", "c2")]}
    response: Any = whole(message, "tool_calls")
    if as_object:
        response = ChatCompletion.model_validate(response)

    assert chat_completions.calls(response) == [Call("c1", "add", '{"a":1,"b":2}'), Call("c2", "now", "")]


def test_missing_ids_are_made_and_none_is_given_twice() -> None:
    entries = [function("now", "{}", None), function("now", "{}", None), function("now", "{}"), function("now", "{}")]

    ids = [call.tool_call_id for call in chat_completions.calls(whole({"tool_calls": entries}, "tool_calls"))]

    assert ids[2] == "c1"
    assert len(set(ids)) == 4
    assert all(ids)


def test_arguments_that_are_an_object_are_taken_as_one() -> None:
    call = chat_completions.calls(whole({"tool_calls": [function("add", {"a": 1, "b": 2})]}))[0]

    assert isinstance(call.args, str)
    assert json.loads(call.args) == {"a": 1, "b": 2}


def test_a_call_in_the_old_way_is_a_call_and_is_not_taken_twice() -> None:
    legacy = {"name": "add", "arguments": '{"a":1,"b":2}'}
    alone = chat_completions.calls(whole({"function_call": legacy}, "function_call"))
    both = chat_completions.calls(whole({"function_call": legacy, "tool_calls": [function("add", '{"a":1,"b":2}')]}))

    assert [(call.name, call.args) for call in alone] == [("add", '{"a":1,"b":2}')]
    assert both == [Call("c1", "add", '{"a":1,"b":2}')]


def test_names_come_back_as_the_tools_own() -> None:
    told = chat_completions.definitions([dotted()])
    on_wire = told.tools[0]["function"]["name"]

    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", on_wire)
    assert chat_completions.calls(whole({"tool_calls": [function(on_wire, "{}")]}), told)[0].name == "shop.orders"
    assert streamed(*asking(("c1", on_wire, {})), definitions=told).calls()[0].name == "shop.orders"


@pytest.mark.parametrize(
    "junk",
    NO_ANSWERS,
    ids=lambda junk: json.dumps(junk)[:40],
)
def test_what_is_no_answer_has_no_calls(junk: Any) -> None:
    assert chat_completions.calls(junk) == []


@pytest.mark.anyio
async def test_a_custom_call_is_refused_and_never_run_as_a_function() -> None:
    entry = {"id": "c1", "type": "custom", "custom": {"name": "now", "input": "{}"}}

    calls = chat_completions.calls(whole({"tool_calls": [entry]}, "tool_calls"))

    assert [call.name for call in calls] == ["now"]
    assert await refused(calls) == ["input_invalid"]


# Results


class Messages(BaseModel):
    messages: list[ChatCompletionMessageParam]


@pytest.mark.anyio
async def test_results_are_as_the_golden_file_has_them() -> None:
    written = await chat_completions.results(OUTCOMES)

    golden = GOLDEN / "openai_chat.json"
    assert steady(written) == json.loads(golden.read_text())
    Messages.model_validate({"messages": written})


@pytest.mark.anyio
async def test_every_call_is_answered_in_order_before_any_media() -> None:
    written = await chat_completions.results(OUTCOMES)

    assert [each.get("tool_call_id") for each in written] == ["c1", "c2", "c3", "c4", "c5", "c6", None]
    assert [each["role"] for each in written] == ["tool"] * 6 + ["user"]
    kinds = [part["type"] for part in written[-1]["content"]]
    assert kinds == ["text", "text", "image_url", "text", "image_url", "text", "image_url"]
    markers = [part["text"] for part in written[-1]["content"] if part["type"] == "text"][1:]
    assert markers == [f"[media id: {name} | {name}]" for name in ("chart.png", "a.png", "b.png")]
    assert all(marker in "".join(each["content"] for each in written[:-1]) for marker in markers)
    assert 'kind="tool-error"' in written[1]["content"]
    assert steady(written[0])["content"].count("42") == 1


@pytest.mark.anyio
async def test_media_the_model_cannot_see_is_refused_or_described() -> None:
    drawn = [outcome("c1", Ok("", media=(picture(),)))]
    blind = MediaSupport(mime_types=frozenset(), unsupported="synthetic-description")

    with pytest.raises(UnsupportedMediaError):
        await chat_completions.results(drawn, sees=MediaSupport(mime_types=frozenset()))
    described = await chat_completions.results(drawn, sees=blind)

    assert [each["role"] for each in described] == ["tool"]
    assert "it cannot be shown here" in described[0]["content"]


@pytest.mark.anyio
async def test_documents_and_sound_have_parts_of_their_own() -> None:
    def media(kind: Any, mime_type: str, data: bytes) -> Media:
        return Media.tool_generated(data, kind=kind, mime_type=mime_type, filename="f")

    pdf, wav = media("document", "application/pdf", b"%PDF-1.7\n"), media("audio", "audio/wav", b"RIFF\0\0\0\0WAVEfmt ")
    sees = MediaSupport(mime_types=frozenset({"application/pdf", "audio/wav", "video/mp4"}))

    written = await chat_completions.results([outcome("c1", Ok("", media=(pdf, wav)))], sees=sees)

    Messages.model_validate({"messages": written})
    assert [part["type"] for part in written[-1]["content"]] == ["text", "text", "file", "text", "input_audio"]
    assert "video/mp4" not in chat_completions.restrict_media(sees).mime_types
