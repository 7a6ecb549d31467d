"""The dialect of the Responses API: definitions, calls and results."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import FunctionToolParam, Response, ResponseInputItemParam, ResponseStreamEvent
from pydantic import TypeAdapter

from spindle import Call, Media, Ok
from spindle.bridges.openai import responses_api
from spindle.bridges.openai.responses_api import Stream
from spindle.bridges.rendering import MediaSupport
from spindle.errors import ModelStoppedError
from tests.bridges.chat_scene import add, dotted, now, refused
from tests.bridges.outcomes import GOLDEN, OUTCOMES, outcome, picture, steady
from tests.bridges.responses_wire import call_item, events, message_item, reasoning_item, response

NO_ANSWERS: list[Any] = [None, "x", 5, [], {}, {"output": None}, {"output": [None, 5, "x", {}, []]}]
INPUT: TypeAdapter[Any] = TypeAdapter(list[ResponseInputItemParam])
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def streamed(*sent: Any, definitions: Any = None) -> Stream:
    stream = Stream(definitions)
    for event in sent:
        stream.feed(event)
    return stream


def test_definitions_are_what_the_sdk_takes_and_strict_is_said_either_way() -> None:
    loose, strict = responses_api.definitions([add, now]), responses_api.definitions([add], strict=True)

    TypeAdapter(list[FunctionToolParam]).validate_python(loose.tools)
    assert [(each["type"], each["name"], each["strict"]) for each in loose.tools] == [
        ("function", "add", False),
        ("function", "now", False),
    ]
    assert strict.tools[0]["strict"] is True


@pytest.mark.parametrize("as_object", [False, True])
def test_calls_of_a_whole_answer_are_read_from_data_and_from_sdk_objects(as_object: bool) -> None:
    answer: Any = response(reasoning_item(), call_item("c1", "add", {"a": 1, "b": 2}), call_item("c2", "now", ""))
    if as_object:
        answer = Response.model_validate(answer)

    assert responses_api.calls(answer) == [Call("c1", "add", '{"a": 1, "b": 2}'), Call("c2", "now", "")]


def test_missing_ids_are_made_and_go_back_with_the_call() -> None:
    item = call_item("c1", "now", {}) | {"call_id": None}
    stream = Stream()
    stream.feed_response(response(item))

    made = stream.calls()[0].tool_call_id

    assert made
    assert [each["call_id"] for each in stream.build_response().raw] == [made]


@pytest.mark.parametrize("as_objects", [False, True])
@pytest.mark.parametrize("has_output", [False, True])
def test_a_stream_gives_what_the_whole_answer_gives(as_objects: bool, has_output: bool) -> None:
    items = [
        reasoning_item(encrypted_content="abc"),
        message_item("Let me see."),
        call_item("c1", "add", {"a": 1, "b": 2}),
        call_item("c2", "add", {"a": 3, "b": 4}),
    ]
    sent: list[Any] = events(*items, has_output=has_output)
    if as_objects:
        sent = [EVENT.validate_python(event) for event in sent]
    stream, known = streamed(*sent), Stream()
    known.feed_response(response(*items))

    assert stream.build_response() == known.build_response()
    assert (stream.text, stream.finish_reason, stream.is_complete) == ("Let me see.", "completed", True)
    assert stream.build_response().raw == items
    assert stream.usage == {
        "input_tokens": 5,
        "output_tokens": 7,
        "cached_input_tokens": 3,
        "reasoning_tokens": 2,
        "total_tokens": 12,
    }


def test_deltas_are_emitted_as_they_arrive() -> None:
    stream = Stream(responses_api.definitions([add]))
    items = [reasoning_item(), message_item("Let me see."), call_item("c1", "add", {"a": 1})]
    pieces = [piece for event in events(*items) for piece in stream.feed(event)]

    def reported(kind: str) -> str:
        return "".join(each.text for each in pieces if each.kind == kind)

    assert (reported("thought"), reported("text"), reported("call")) == ("Hm.", "Let me see.", '{"a": 1}')
    assert {(each.id, each.tool) for each in pieces if each.kind == "call"} == {("c1", "add")}


def test_names_come_back_as_the_tools_own_and_go_out_as_the_providers() -> None:
    reported = responses_api.definitions([dotted()])
    on_wire = reported.tools[0]["name"]
    stream = streamed(*events(call_item("c1", on_wire, {})), definitions=reported)

    assert stream.calls()[0].name == "shop.orders"
    assert stream.build_response().raw[0]["name"] == on_wire


@pytest.mark.anyio
async def test_a_call_that_was_cut_short_never_runs() -> None:
    cut = [call_item("c1", "now", "", status="incomplete"), call_item("c2", "now", "{}", status="incomplete")]
    cut.append(call_item("c3", "add", '{"a":', status="incomplete"))
    details: dict[str, Any] = {"incomplete_details": {"reason": "max_output_tokens"}}

    stream = streamed(*events(*cut, status="incomplete", **details))

    assert (stream.finish_reason, stream.is_complete, stream.build_response().is_truncated) == (
        "max_output_tokens",
        True,
        True,
    )
    assert stream.calls()[2].args == '{"a":'
    assert await refused(stream.calls()) == ["input_invalid"] * 3


@pytest.mark.anyio
async def test_a_stream_that_breaks_off_is_not_complete_and_its_calls_never_run() -> None:
    sent = events(call_item("c1", "now", ""), call_item("c2", "add", {"a": 1, "b": 2}))
    begun = [event for event in sent if event["type"].endswith((".added", ".delta"))][:4]

    stream = streamed(*begun)

    assert not stream.is_complete
    assert await refused(stream.calls()) == ["input_invalid"] * 2


@pytest.mark.anyio
async def test_a_delta_without_a_call_leaves_no_complete_call() -> None:
    item = call_item("c1", "now", "")
    begun = next(event for event in events(item) if event["type"].endswith("added"))
    delta = {"type": "response.function_call_arguments.delta"}
    lost = [{**delta, "delta": '{"x":1', "item_id": "other"}, {**delta, "delta": '{"x":1', "output_index": -1}]

    for each in lost:
        stream = streamed(begun, each, {**delta, "item_id": item["id"], "delta": "{}"})
        assert await refused(stream.calls()) == ["input_invalid"]


@pytest.mark.anyio
async def test_a_custom_call_is_refused_and_answered_as_one() -> None:
    item = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c1", "name": "now", "input": "{}"}
    stream = Stream()
    stream.feed_response(response(item))

    assert await refused(stream.calls()) == ["input_invalid"]
    assert stream.build_response().raw == [item]


def test_a_refusal_is_what_the_model_said() -> None:
    parts = [{"type": "refusal", "refusal": "I won't."}]
    item = message_item("") | {"content": parts}
    deltas = [{"type": "response.refusal.delta", "item_id": "msg_1", "delta": each} for each in ("I ", "won't.")]

    assert streamed(*deltas).text == "I won't."
    assert streamed(*deltas, {"type": "response.completed", "response": response(item)}).text == "I won't."


def test_repeated_calls_are_readable_json_that_the_sdk_accepts() -> None:
    items = [call_item("c1", "add", '{"a":'), call_item("c2", "no such.tool", ""), reasoning_item(content=None)]
    raw = streamed(*events(*items)).build_response().raw

    INPUT.validate_python(raw)
    assert [json.loads(each["arguments"]) for each in raw[:2]] == [{"unreadable_arguments": '{"a":'}, {}]
    assert raw[1]["name"] == "no_such_tool_a900eb74"
    assert "content" not in raw[2]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "{}", "now", "function_call", "fc_1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "id", "call_id", "name", "arguments", "content", "text", "output", "status"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
KINDS = st.sampled_from(
    [
        *sorted({event["type"] for event in events(reasoning_item(), message_item("x"), call_item("c1", "now", "{}"))}),
        "response.custom_tool_call_input.delta",
        "response.refusal.delta",
        "response.new_kind",
        "error",
    ]
)
EVENTS = st.fixed_dictionaries(
    {"type": KINDS},
    optional=dict.fromkeys(("item", "item_id", "output_index", "delta", "arguments", "response"), JUNK),
)


@settings(deadline=None)
@given(st.lists(EVENTS | JUNK, max_size=8))
def test_no_junk_makes_a_stream_fail(sent: list[Any]) -> None:
    stream = streamed(*sent)

    assert all(call.tool_call_id and call.name for call in stream.calls())
    with suppress(ModelStoppedError):
        json.dumps(stream.build_response().raw)
    json.dumps(stream.text)


@pytest.mark.parametrize("junk", NO_ANSWERS, ids=str)
def test_a_value_that_is_not_an_answer_has_no_calls(junk: Any) -> None:
    assert responses_api.calls(junk) == []


# Results


@pytest.mark.anyio
async def test_results_are_as_the_golden_file_has_them() -> None:
    written = await responses_api.results(OUTCOMES)

    INPUT.validate_python(written)
    assert steady(written) == json.loads((GOLDEN / "openai_responses.json").read_text())


@pytest.mark.anyio
async def test_every_call_is_answered_in_order_and_shows_its_own_media() -> None:
    written = await responses_api.results(OUTCOMES)

    assert [each["call_id"] for each in written] == ["c1", "c2", "c3", "c4", "c5", "c6"]
    assert [part["type"] for part in written[2]["output"]] == ["input_text", "input_image"]
    assert [part["type"] for part in written[3]["output"]] == ["input_text"] * 2 + [
        "input_image",
        "input_text",
        "input_image",
    ]
    assert 'kind="tool-error"' in written[1]["output"]
    assert steady(written[0])["output"].count("42") == 1


@pytest.mark.anyio
async def test_documents_are_files_and_what_cannot_be_carried_is_described() -> None:
    pdf = Media.tool_generated(b"%PDF-1.7\n", kind="document", mime_type="application/pdf", filename="a.pdf")
    wav = Media.tool_generated(b"RIFF\0\0\0\0WAVEfmt ", kind="audio", mime_type="audio/wav", filename="a.wav")
    sees = MediaSupport(mime_types=frozenset({"application/pdf", "audio/wav"}), unsupported="fallback-stash")

    written = await responses_api.results([outcome("c1", Ok("", media=(pdf, wav, picture())))], media=sees)

    INPUT.validate_python(written)
    assert [part["type"] for part in written[0]["output"]] == ["input_text", "input_file"] + ["input_text"] * 4


@pytest.mark.anyio
@pytest.mark.parametrize("status", ["completed", "", "incomplete"])
async def test_the_last_call_of_a_cut_answer_is_whole_only_by_its_own_word(status: str) -> None:
    cut = response(call_item("c1", "now", ""), call_item("c2", "now", "", status=status), status="incomplete")

    assert await refused(responses_api.calls(cut)) == ["ok", "ok" if status == "completed" else "input_invalid"]


def test_an_id_that_was_used_before_is_replaced_and_the_call_goes_back_under_the_new_one() -> None:
    stream = Stream(taken=["c1"])
    for event in events(call_item("c1", "now", {}), call_item("c2", "now", {})):
        stream.feed(event)

    first, second = (call.tool_call_id for call in stream.calls())

    assert first.startswith("call_")
    assert second == "c2"
    assert [item["call_id"] for item in stream.build_response().raw] == [first, second]
