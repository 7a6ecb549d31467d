"""The dialect of Chat Completions: definitions, calls and results."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel, TypeAdapter

from spindle import Call, Media, Ok
from spindle.bridges.openai import chat_completions
from spindle.bridges.openai.chat_completions import Stream
from spindle.bridges.partial_calls import NAMELESS
from spindle.bridges.rendering import MediaSupport
from spindle.errors import UnsupportedMediaError
from tests.bridges.chat_scene import add, asked, dotted, now, refused, streamed
from tests.bridges.chat_wire import asking, call_delta, chunk, saying, usage_chunk, whole
from tests.bridges.outcomes import GOLDEN, OUTCOMES, outcome, picture, steady

# Definitions


def test_definitions_are_what_the_sdk_takes() -> None:
    reported = chat_completions.definitions([add, now])

    TypeAdapter(list[ChatCompletionToolParam]).validate_python(reported.tools)
    assert [each["function"]["name"] for each in reported.tools] == ["add", "now"]
    assert reported.tools[0]["function"]["parameters"]["required"] == ["a", "b"]
    assert "strict" not in reported.tools[0]["function"]


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
    reported = chat_completions.definitions([dotted()])
    on_wire = reported.tools[0]["function"]["name"]

    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", on_wire)
    assert chat_completions.calls(whole({"tool_calls": [function(on_wire, "{}")]}), reported)[0].name == "shop.orders"
    assert streamed(*asking(("c1", on_wire, {})), definitions=reported).calls()[0].name == "shop.orders"


@pytest.mark.parametrize(
    "junk",
    NO_ANSWERS,
    ids=lambda junk: json.dumps(junk)[:40],
)
def test_a_value_that_is_not_an_answer_has_no_calls(junk: Any) -> None:
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
        await chat_completions.results(drawn, media=MediaSupport(mime_types=frozenset()))
    described = await chat_completions.results(drawn, media=blind)

    assert [each["role"] for each in described] == ["tool"]
    assert "it cannot be shown here" in described[0]["content"]


@pytest.mark.anyio
async def test_documents_and_sound_have_parts_of_their_own() -> None:
    def media(kind: Any, mime_type: str, data: bytes) -> Media:
        return Media.tool_generated(data, kind=kind, mime_type=mime_type, filename="f")

    pdf, wav = media("document", "application/pdf", b"%PDF-1.7\n"), media("audio", "audio/wav", b"RIFF\0\0\0\0WAVEfmt ")
    sees = MediaSupport(mime_types=frozenset({"application/pdf", "audio/wav", "video/mp4"}))

    written = await chat_completions.results([outcome("c1", Ok("", media=(pdf, wav)))], media=sees)

    Messages.model_validate({"messages": written})
    assert [part["type"] for part in written[-1]["content"]] == ["text", "text", "file", "text", "input_audio"]
    assert "video/mp4" not in chat_completions.API.restrict_media(sees).mime_types


# --- Streams of Chat Completions, from OpenAI and from servers that speak its API in their own ways


@pytest.mark.parametrize("as_objects", [False, True])
def test_pieces_of_parallel_calls_are_put_together_by_their_index(as_objects: bool) -> None:
    events: list[Any] = [
        *asking(("c1", "add", {"a": 1, "b": 2}), ("c2", "add", {"a": 30, "b": 4}), text="Let me see."),
        usage_chunk(prompt_tokens=5, completion_tokens=7, total_tokens=12),
    ]
    if as_objects:
        events = [ChatCompletionChunk.model_validate(event) for event in events]

    stream = streamed(*events)

    assert [(each.tool_call_id, json.loads(str(each.args))) for each in stream.calls()] == [
        ("c1", {"a": 1, "b": 2}),
        ("c2", {"a": 30, "b": 4}),
    ]
    assert (stream.text, stream.finish_reason, stream.is_complete) == ("Let me see.", "tool_calls", True)
    assert stream.usage == {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}


def test_calls_stand_in_the_order_of_their_index_whatever_came_first() -> None:
    events = [
        call_delta(2, "c3", "now", ""),
        call_delta(0, "c1", "add", '{"a":1'),
        call_delta(1, "c2", "now", ""),
        call_delta(0, arguments=',"b":2}'),
        chunk(finish_reason="tool_calls"),
    ]
    stream = streamed(*events)

    assert [call.tool_call_id for call in stream.calls()] == ["c1", "c2", "c3"]
    assert [call["id"] for call in stream.build_response().raw["tool_calls"]] == ["c1", "c2", "c3"]


def test_deltas_are_emitted_as_they_arrive() -> None:
    stream = Stream(chat_completions.definitions([add]))
    pieces = [piece for event in asking(("c1", "add", {"a": 1}), text="Hm.") for piece in stream.feed(event)]

    assert [(each.kind, each.text) for each in pieces][:2] == [("text", "Hm."), ("call", "")]
    assert "".join(each.text for each in pieces if each.kind == "call") == '{"a": 1}'
    assert {(each.id, each.tool) for each in pieces if each.kind == "call"} == {("c1", "add")}


def test_servers_that_use_index_0_for_every_call_are_understood_by_their_ids() -> None:
    events = [
        call_delta(0, "c1", "add", '{"a":1,"b":2}'),
        call_delta(0, "c2", "add", '{"a":3,'),
        call_delta(0, arguments='"b":4}'),
        chunk(finish_reason="tool_calls"),
    ]

    assert asked(*events) == [("add", '{"a":1,"b":2}'), ("add", '{"a":3,"b":4}')]


def test_whole_calls_without_ids_at_index_0_stay_separate() -> None:
    events = [
        call_delta(0, None, "add", '{"a":1,"b":2}'),
        call_delta(0, None, "add", '{"a":3,"b":4}'),
        chunk(finish_reason="stop"),
    ]

    assert asked(*events) == [("add", '{"a":1,"b":2}'), ("add", '{"a":3,"b":4}')]
    assert len({call.tool_call_id for call in streamed(*events).calls()}) == 2


def test_whole_calls_without_index_stay_separate_and_their_parts_are_joined() -> None:
    events = [
        call_delta(None, "c1", "add", {"a": 1, "b": 2}),
        call_delta(None, None, "now", "{}"),
        call_delta(None, "c3", "add", '{"a":3'),
        call_delta(None, None, None, ',"b":4}'),
        call_delta(None, "c4", "add", '{"a":5'),
        call_delta(None, "c4", "add", ',"b":6}'),
        chunk(finish_reason="tool_calls"),
    ]

    assert asked(*events) == [
        ("add", '{"a": 1, "b": 2}'),
        ("now", "{}"),
        ("add", '{"a":3,"b":4}'),
        ("add", '{"a":5,"b":6}'),
    ]


def test_names_and_ids_that_are_repeated_in_each_piece_begin_no_new_call() -> None:
    events = [
        *(call_delta(0, "c1", "add", piece) for piece in ('{"a"', ":1,", '"b":2', "}", "")),
        *(call_delta(1, None, "add", piece) for piece in ('{"a"', ":3,", '"b":4', "}", "")),
        chunk(finish_reason="tool_calls"),
    ]

    assert asked(*events) == [("add", '{"a":1,"b":2}'), ("add", '{"a":3,"b":4}')]


def test_a_late_id_is_taken() -> None:
    events = [call_delta(0, None, "now", ""), call_delta(0, "c9", None, "{}"), chunk(finish_reason="tool_calls")]

    assert streamed(*events).calls() == [Call("c9", "now", "{}")]


def test_a_call_in_the_old_way_is_streamed_too() -> None:
    events = [
        chunk({"function_call": {"name": "add", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"a":1,'}}),
        chunk({"function_call": {"arguments": '"b":2}'}}),
        chunk(finish_reason="function_call"),
    ]

    assert asked(*events) == [("add", '{"a":1,"b":2}')]


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["length", "content_filter", "abort", None])
async def test_a_call_that_was_cut_short_never_runs(end: str | None) -> None:
    begun = [call_delta(0, "c1", "now"), call_delta(1, "c2", "add", '{"a":1,')]
    stream = streamed(*begun, *([chunk(finish_reason=end)] if end else []))

    assert [call.args for call in stream.calls()] == ["{", '{"a":1,']
    assert await refused(stream.calls()) == ["input_invalid", "input_invalid"]
    assert stream.is_complete == (end is not None)
    assert stream.build_response().is_truncated


def test_broken_json_is_kept_to_the_letter() -> None:
    events = asking(("c1", "add", '{"a": 1, b: 2,}'))

    assert asked(*events) == [("add", '{"a": 1, b: 2,}')]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "lost",
    [
        call_delta(-1, arguments=',"b":3'),
        call_delta("0", arguments=',"b":3'),
        call_delta(True, arguments=',"b":3'),
        call_delta(0.0, arguments=',"b":3'),
        call_delta(0, "c7", None, ',"b":3'),
        chunk({"tool_calls": ["?"]}),
        chunk({"tool_calls": [None]}),
        chunk({"tool_calls": [{"index": 0, "function": "?"}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ["?"]}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": {"b": 3}}}]}),
    ],
    ids=range(10),
)
async def test_a_piece_that_is_lost_leaves_no_call_that_looks_whole(lost: Any) -> None:
    stream = streamed(
        call_delta(0, "c1", "add", '{"a":1,"b":2'), lost, call_delta(0, arguments="}"), chunk(finish_reason="stop")
    )

    assert await refused(stream.calls()) == ["input_invalid"]


@pytest.mark.anyio
async def test_a_call_whose_name_never_came_is_refused() -> None:
    stream = streamed(call_delta(0, "c1"), call_delta(0, arguments="{}"), chunk(finish_reason="tool_calls"))

    assert [(call.tool_call_id, call.name) for call in stream.calls()] == [("c1", NAMELESS)]
    assert await refused(stream.calls()) == ["not_available"]


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(["", "{}", "now", "c1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["index", "id", "function", "name", "arguments", "custom", "input", "content", "usage"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
DELTAS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {}, optional={"tool_calls": JUNK, "function_call": JUNK, "content": JUNK}
)
CHOICES: st.SearchStrategy[Any] = st.fixed_dictionaries({}, optional={"delta": DELTAS | JUNK, "index": JUNK})
CHUNKS: st.SearchStrategy[Any] = st.fixed_dictionaries({}, optional={"choices": st.lists(CHOICES)})


@settings(deadline=None)
@given(st.lists(CHUNKS | JUNK, max_size=6))
def test_no_junk_makes_a_stream_fail(events: list[Any]) -> None:
    stream = streamed(*events)

    assert all(call.tool_call_id and call.name for call in stream.calls())
    json.dumps(stream.build_response().raw)
    assert not stream.is_complete


@settings(deadline=None)
@given(st.data())
def test_however_pieces_are_cut_and_mixed_the_calls_are_the_same(data: st.DataObject) -> None:
    wanted = [
        (f"c{n}", f"tool_{n}", json.dumps({"text": data.draw(st.text())})) for n in range(data.draw(st.integers(1, 4)))
    ]
    queues: list[list[Any]] = []
    for index, (call_id, name, arguments) in enumerate(wanted):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(arguments)), max_size=4)))
        pieces = [arguments[start:end] for start, end in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
        queues.append([call_delta(index, call_id, name), *(call_delta(index, arguments=piece) for piece in pieces)])
    events: list[Any] = [queue.pop(0) for queue in queues]
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        events.append(queue.pop(0))

    calls = streamed(*events, chunk(finish_reason="tool_calls")).calls()

    assert [(call.tool_call_id, call.name, call.args) for call in calls] == wanted


# Text, refusals, thoughts, usage


def test_a_refusal_is_what_the_model_said() -> None:
    stream = streamed(chunk({"refusal": "I "}), chunk({"refusal": "won't."}), chunk(finish_reason="stop"))

    assert stream.text == "I won't."
    assert stream.build_response().raw == {"role": "assistant", "content": "", "refusal": "I won't."}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_emitted_and_sent_back_in_place(field: str) -> None:
    stream = Stream()
    pieces = [*stream.feed(chunk({field: "First "})), *stream.feed(chunk({field: "this."}))]

    assert [(each.kind, each.text) for each in pieces] == [("thought", "First "), ("thought", "this.")]
    assert stream.text == ""
    assert stream.build_response().raw[field] == "First this."


def test_content_in_parts_is_text() -> None:
    assert streamed(chunk({"content": [{"type": "text", "text": "Hi"}, {"type": "x"}, 5]})).text == "Hi"


def test_only_the_first_of_several_answers_counts() -> None:
    second = chunk({"content": "no"}, "length")
    second["choices"][0]["index"] = 1

    stream = streamed(*saying("yes"), second)

    assert (stream.text, stream.finish_reason) == ("yes", "stop")


def test_usage_has_the_names_that_all_bridges_use() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 2}}
    stream = streamed(usage_chunk(prompt_tokens=5, completion_tokens=7, **details), usage_chunk(prompt_tokens=True))

    assert stream.usage == {
        "input_tokens": 5,
        "output_tokens": 7,
        "cached_input_tokens": 3,
        "reasoning_tokens": 2,
        "total_tokens": 12,
    }


def test_repeated_calls_are_always_readable_json() -> None:
    events = asking(("c1", "add", '{"a":'), ("c2", "no such.tool", ""), ("c3", "add", {"a": 1}))

    message = streamed(*events).build_response().raw

    TypeAdapter(ChatCompletionMessageParam).validate_python(message)
    functions = [entry["function"] for entry in message["tool_calls"]]
    assert [json.loads(each["arguments"]) for each in functions] == [{"unreadable_arguments": '{"a":'}, {}, {"a": 1}]
    assert [each["name"] for each in functions] == ["add", "no_such_tool_a900eb74", "add"]
