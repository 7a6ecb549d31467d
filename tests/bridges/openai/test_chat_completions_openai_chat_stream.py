"""Streams of Chat Completions, from OpenAI and from servers that speak its API in their own ways."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam
from pydantic import TypeAdapter

from spindle import Call
from spindle.bridges.openai import chat_completions
from spindle.bridges.openai.chat_completions import Stream
from spindle.bridges.partial_calls import NAMELESS
from tests.bridges.chat_scene import add, asked, refused, streamed
from tests.bridges.chat_wire import asking, call_delta, chunk, saying, usage_chunk


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


def test_pieces_are_told_as_they_come() -> None:
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


def test_whole_calls_without_ids_at_index_0_are_told_apart() -> None:
    events = [
        call_delta(0, None, "add", '{"a":1,"b":2}'),
        call_delta(0, None, "add", '{"a":3,"b":4}'),
        chunk(finish_reason="stop"),
    ]

    assert asked(*events) == [("add", '{"a":1,"b":2}'), ("add", '{"a":3,"b":4}')]
    assert len({call.tool_call_id for call in streamed(*events).calls()}) == 2


def test_whole_calls_without_index_are_told_apart_and_their_pieces_joined() -> None:
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
    assert stream.build_response().raw == {"role": "assistant", "content": None, "refusal": "I won't."}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_told_and_go_back_where_they_came_from(field: str) -> None:
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


def test_usage_is_told_by_the_names_all_bridges_use() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 2}}
    stream = streamed(usage_chunk(prompt_tokens=5, completion_tokens=7, **details), usage_chunk(prompt_tokens=True))

    assert stream.usage == {
        "input_tokens": 5,
        "output_tokens": 7,
        "cached_input_tokens": 3,
        "reasoning_tokens": 2,
        "total_tokens": 12,
    }


def test_what_goes_back_is_always_readable_json() -> None:
    events = asking(("c1", "add", '{"a":'), ("c2", "no such.tool", ""), ("c3", "add", {"a": 1}))

    message = streamed(*events).build_response().raw

    TypeAdapter(ChatCompletionMessageParam).validate_python(message)
    functions = [entry["function"] for entry in message["tool_calls"]]
    assert [json.loads(each["arguments"]) for each in functions] == [{"unreadable_arguments": '{"a":'}, {}, {"a": 1}]
    assert [each["name"] for each in functions] == ["add", "no_such_tool", "add"]
