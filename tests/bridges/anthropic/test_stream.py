"""Answers of the Messages API are put together, and nothing a stream does makes a guessed call."""

import json
from typing import Any

import pytest
from anthropic.types import RawMessageStreamEvent
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from spindle import Call, tool
from spindle.bridges.anthropic import Stream, calls, definitions
from spindle.errors import InvalidToolArgsError, ModelStoppedError
from spindle.tools import read_arguments
from tests.bridges.wire import messages as wire

REDACTED = {"type": "redacted_thinking", "data": "b3BhcXVl"}


def fed(*events: Any) -> Stream:
    stream = Stream()
    for event in events:
        stream.feed(event)
    return stream


def is_refused(call: Call) -> bool:
    try:
        read_arguments(call.args, tool=call.name, empty_ok=True)
    except InvalidToolArgsError:
        return True
    return False


def test_text_and_calls_come_out_of_interleaved_deltas() -> None:
    one, two = wire.use(1, "t1", "add", '{"a"', ": 1}"), wire.use(2, "t2", "add", '{"a"', ": 2}")
    mixed = [event for pair in zip(one, two, strict=True) for event in pair]

    stream = fed(*wire.events(wire.say(0, "let me ", "see"), mixed))

    assert stream.text == "let me see"
    assert stream.calls() == [Call("t1", "add", '{"a": 1}'), Call("t2", "add", '{"a": 2}')]
    assert stream.is_complete
    assert stream.finish_reason == "tool_use"


def test_events_of_the_sdk_give_the_same_as_plain_data() -> None:
    raw = wire.events(wire.think(0, "hm", "sig=="), wire.say(1, "x"), wire.use(2, "t1", "add", '{"a": null}'))
    adapter: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)

    sdk = fed(*[adapter.validate_python(event) for event in raw if event["type"] != "ping"])

    assert sdk.build_response() == fed(*raw).build_response()


def test_deltas_contain_only_new_text() -> None:
    stream = Stream()
    raw = wire.events(wire.think(0, "hm", "s"), wire.say(1, "a", "b"), wire.use(2, "t1", "add", "{", "}"))

    pieces = [(piece.kind, piece.text, piece.id) for event in raw for piece in stream.feed(event)]

    assert pieces == [
        ("thought", "hm", ""),
        ("text", "a", ""),
        ("text", "b", ""),
        ("call", "", "t1"),
        ("call", "{", "t1"),
        ("call", "}", "t1"),
    ]


def test_thoughts_and_blocks_of_other_tools_are_kept_as_they_came() -> None:
    search: dict[str, Any] = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"encrypted_content": "zzz"}]}
    remote: dict[str, Any] = {"type": "mcp_tool_use", "id": "mcp_1", "name": "x", "server_name": "s", "input": {}}
    raw = wire.events(
        wire.think(0, "secret", "SIG=="),
        [wire.begin(1, REDACTED), wire.end(1)],
        [wire.begin(2, search), wire.delta(2, "input_json_delta", partial_json='{"query": "q"}'), wire.end(2)],
        [wire.begin(3, found), wire.end(3)],
        [wire.begin(4, remote), wire.end(4)],
        wire.use(5, "t1", "add", '{"a": 1}'),
    )

    stream = fed(*raw)

    assert [call.tool_call_id for call in stream.calls()] == ["t1"]
    assert stream.raw == [
        {"type": "thinking", "thinking": "secret", "signature": "SIG=="},
        REDACTED,
        search | {"input": {"query": "q"}},
        found,
        remote,
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
    ]


def test_citations_stay_on_their_text() -> None:
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0}

    stream = fed(
        wire.START,
        wire.begin(0, {"type": "text", "text": ""}),
        wire.delta(0, "text_delta", text="so"),
        wire.delta(0, "citations_delta", citation=cited),
        wire.end(0),
        *wire.ended("end_turn"),
    )

    assert stream.raw == [{"type": "text", "text": "so", "citations": [cited]}]


def test_a_call_without_arguments_is_whole_when_the_answer_is() -> None:
    assert calls(wire.message({"type": "tool_use", "id": "t1", "name": "now", "input": {}})) == [
        Call("t1", "now", "{}")
    ]
    assert fed(*wire.events(wire.use(0, "t1", "now"))).calls() == [Call("t1", "now", "{}")]
    assert fed(*wire.events(wire.use(0, "t1", "now", ""))).calls() == [Call("t1", "now", "{}")]


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", None])
def test_a_call_cut_before_its_first_argument_can_never_run_as_an_empty_one(reason: str | None) -> None:
    assert fed(*wire.events(wire.use(0, "t1", "now"), reason=reason)).calls() == [Call("t1", "now", "{")]
    assert fed(*wire.events(wire.use(0, "t1", "now")[:-1], reason=reason)).calls() == [Call("t1", "now", "{")]


def test_a_whole_answer_cut_inside_a_call_does_not_run_it() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "save", "input": {"path": "/"}}

    (cut,) = calls(wire.message(block, reason="max_tokens"))

    assert is_refused(cut)


def test_broken_arguments_stay_the_very_text_and_are_repeated_as_an_object() -> None:
    stream = fed(*wire.events(wire.use(0, "t1", "add", '{"a": 1, "b'), reason="max_tokens"))

    assert stream.calls() == [Call("t1", "add", '{"a": 1, "b')]
    assert stream.raw[0]["input"] == {"INVALID_JSON": '{"a": 1, "b'}
    assert stream.build_response().is_truncated


@pytest.mark.parametrize("junk", [5, None, ["}"], {"a": 1}])
def test_a_piece_that_is_not_text_spoils_its_call(junk: Any) -> None:
    raw = wire.use(0, "t1", "add", '{"a": 1', "}")
    raw.insert(2, wire.delta(0, "input_json_delta", partial_json=junk))

    (call,) = fed(*wire.events(raw)).calls()

    assert is_refused(call)


@pytest.mark.parametrize("index", [7, "0", None, -1, 0.5])
def test_a_piece_for_no_block_spoils_the_calls_that_are_open(index: Any) -> None:
    raw = wire.use(0, "t1", "add", '{"a": 1', "}")
    raw.insert(2, wire.delta(index, "input_json_delta", partial_json=', "b": 2'))

    (call,) = fed(*wire.events(raw)).calls()

    assert is_refused(call)


def test_a_piece_after_the_end_spoils_its_call() -> None:
    raw = [*wire.use(0, "t1", "add", '{"a": 1}'), wire.delta(0, "input_json_delta", partial_json=" ")]

    (call,) = fed(*wire.events(raw)).calls()

    assert is_refused(call)


def test_two_calls_with_one_id_stay_separate() -> None:
    stream = fed(
        *wire.events(wire.use(0, "t1", "add", "{}"), wire.use(1, "t1", "add", "{}"), wire.use(2, "", "add", "{}"))
    )

    ids = [call.tool_call_id for call in stream.calls()]

    assert ids[0] == "t1"
    assert len(set(ids)) == 3
    assert [block["id"] for block in stream.raw] == ids


def test_a_call_without_a_name_is_answered_and_never_run() -> None:
    stream = fed(*wire.events([wire.begin(0, {"type": "tool_use", "id": "t1", "input": {}}), wire.end(0)]))

    (call,) = stream.calls()

    assert call.tool_call_id == "t1"
    assert is_refused(call)
    assert stream.raw[0]["id"] == "t1"


def test_an_error_in_the_stream_leaves_the_answer_incomplete() -> None:
    stream = fed(wire.START, *wire.say(0, "x"), {"type": "error", "error": {"type": "overloaded_error"}}, wire.STOP)

    assert not stream.is_complete


def test_a_refusal_is_loud() -> None:
    with pytest.raises(ModelStoppedError) as caught:
        fed(*wire.events(wire.say(0, "I ca"), reason="refusal")).build_response()

    assert (caught.value.reason, caught.value.text) == ("refusal", "I ca")


def test_tokens_that_ran_out_before_a_word_are_loud() -> None:
    with pytest.raises(ModelStoppedError) as caught:
        fed(*wire.events(wire.think(0, "long", "s"), reason="max_tokens")).build_response()

    assert caught.value.reason == "max_tokens"


def test_usage_counts_the_cache_as_input_and_goes_on_over_a_pause() -> None:
    counts = {"cache_creation_input_tokens": 6, "output_tokens_details": {"thinking_tokens": 5}}
    first = [wire.START, *wire.say(0, "a"), *wire.ended("pause_turn", **counts)]

    stream = fed(*first, *wire.events(wire.say(0, "b"), reason="end_turn"))

    assert stream.text == "ab"
    assert stream.usage == {
        "input_tokens": 20 + 14,
        "output_tokens": 14,
        "cached_input_tokens": 8,
        "cache_write_tokens": 6,
        "reasoning_tokens": 5,
        "total_tokens": 48,
    }


def test_names_are_mapped_back() -> None:
    @tool(name="files.read")
    def read(path: str) -> str:
        """Read."""
        return path

    reported = definitions([read])
    stream = Stream(reported)
    for event in wire.events(wire.use(0, "t1", reported.tools[0]["name"], '{"path": "x"}')):
        stream.feed(event)

    assert reported.tools[0]["name"] != "files.read"
    assert stream.calls()[0].name == "files.read"
    assert stream.raw[0]["name"] == reported.tools[0]["name"]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_words = st.sampled_from(["tool_use", "text", "thinking", "input_json_delta", "text_delta", "signature_delta", "x"])
_kinds = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "error", "x"]
)
_inner = st.dictionaries(
    st.sampled_from(["type", "id", "name", "input", "text", "thinking", "partial_json", "stop_reason", "signature"]),
    _json | _words,
)
_events = st.fixed_dictionaries(
    {"type": _kinds},
    optional={
        "index": st.integers(-1, 2) | _json,
        "content_block": _inner | _json,
        "delta": _inner | _json,
        "message": _inner | _json,
        "usage": _inner | _json,
    },
)


@given(st.lists(_events | _json, max_size=12))
@example([wire.begin(0, {"type": "text", "text": None})])
@example([wire.begin(0, {"text": "of no type"})])
def test_no_stream_can_crash_the_reader_and_everything_it_repeats_is_json(junk: list[Any]) -> None:
    stream = fed(*junk)

    named = [block for block in stream.raw if block["type"] == "tool_use"]

    assert [call.tool_call_id for call in stream.calls()] == [block["id"] for block in named]
    assert all(isinstance(block["input"], dict) for block in named)
    json.dumps(stream.raw)
    assert stream.text is not None
    assert stream.usage is None or stream.usage["total_tokens"] >= 0


@given(st.recursive(_json, lambda inner: st.dictionaries(st.sampled_from(["content", "type", "input"]), inner)))
def test_no_response_can_crash_the_reader(junk: Any) -> None:
    assert isinstance(calls(junk), list)
