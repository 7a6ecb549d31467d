"""An answer of Converse is put together, and sent back, as it came."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import Call
from spindle.bridges.bedrock import Stream
from spindle.errors import InvalidToolArgsError, ModelStoppedError
from spindle.tools import read_arguments


def start(index: Any, name: Any = "find", id: Any = "t1", **more: Any) -> dict[str, Any]:
    tool_use = {"toolUseId": id, "name": name, **more}
    return {"contentBlockStart": {"start": {"toolUse": tool_use}, "contentBlockIndex": index}}


def piece(index: Any, text: Any) -> dict[str, Any]:
    return delta(index, {"toolUse": {"input": text}})


def delta(index: Any, data: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"delta": data, "contentBlockIndex": index}}


def stop(index: Any) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def end(reason: str = "tool_use") -> dict[str, Any]:
    return {"messageStop": {"stopReason": reason}}


USAGE = {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12, "cacheReadInputTokens": 3}


def fed(*events: Any) -> Stream:
    stream = Stream()
    for event in events:
        stream.feed(event)
    return stream


def args(call: Call) -> Any:
    return json.loads(cast("str", call.args))


def is_refused(call: Call) -> bool:
    try:
        read_arguments(call.args, tool="x", empty_ok=True)
    except InvalidToolArgsError:
        return True
    return False


def test_interleaved_calls_stay_separate() -> None:
    stream = fed(
        delta(0, {"text": "Let me "}),
        delta(0, {"text": "see."}),
        stop(0),
        start(1, id="t1"),
        start(2, "clock", "t2"),
        piece(1, '{"ci'),
        piece(2, ""),
        piece(1, 'ty": "Ulm"}'),
        stop(1),
        stop(2),
        end(),
        {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 3}}},
    )

    assert stream.text == "Let me see."
    assert [(call.tool_call_id, call.name, args(call)) for call in stream.calls()] == [
        ("t1", "find", {"city": "Ulm"}),
        ("t2", "clock", {}),
    ]
    assert stream.usage == {"input_tokens": 10, "output_tokens": 5, "cached_input_tokens": 3, "total_tokens": 15}
    assert (stream.is_complete, stream.finish_reason) == (True, "tool_use")


def test_pieces_are_reported_as_they_come() -> None:
    stream = Stream()

    pieces = [
        each
        for event in [
            delta(0, {"reasoningContent": {"text": "Hm."}}),
            delta(1, {"text": "Yes"}),
            start(2),
            piece(2, "{"),
        ]
        for each in stream.feed(event)
    ]

    assert [(each.kind, each.text, each.id, each.tool) for each in pieces] == [
        ("thought", "Hm.", "", ""),
        ("text", "Yes", "", ""),
        ("call", "", "t1", "find"),
        ("call", "{", "t1", "find"),
    ]


def test_thoughts_are_sent_back_with_their_signatures() -> None:
    stream = fed(
        delta(0, {"reasoningContent": {"text": "First "}}),
        delta(0, {"reasoningContent": {"text": "this."}}),
        delta(0, {"reasoningContent": {"signature": "sig"}}),
        stop(0),
        delta(1, {"reasoningContent": {"redactedContent": b"\x00\xff"}}),
        stop(1),
        delta(2, {"text": " "}),
        stop(2),
        start(3),
        piece(3, '{"city": "Ulm"}'),
        stop(3),
        end(),
    )

    assert stream.build_response().raw == [
        {"reasoningContent": {"reasoningText": {"text": "First this.", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": b"\x00\xff"}},
        {"toolUse": {"toolUseId": "t1", "name": "find", "input": {"city": "Ulm"}}},
    ]


def test_a_whole_answer_and_its_stream_are_sent_back_alike() -> None:
    content: list[dict[str, Any]] = [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "sig"}}},
        {"text": "Let me see."},
        {"toolUse": {"toolUseId": "s1", "name": "web", "input": {}, "type": "server_tool_use"}},
        {"toolResult": {"toolUseId": "s1", "status": "success", "content": [{"text": "found"}]}},
        {"toolUse": {"toolUseId": "t1", "name": "find", "input": {"city": "Ulm"}}},
    ]
    whole = Stream()
    whole.feed_response({"output": {"message": {"content": content}}, "stopReason": "tool_use", "usage": USAGE})
    result_start = {"toolResult": {"toolUseId": "s1", "status": "success"}}
    streamed = fed(
        delta(0, {"reasoningContent": {"text": "Hm."}}),
        delta(0, {"reasoningContent": {"signature": "sig"}}),
        stop(0),
        delta(1, {"text": "Let me see."}),
        stop(1),
        start(2, "web", "s1", type="server_tool_use"),
        stop(2),
        {"contentBlockStart": {"start": result_start, "contentBlockIndex": 3}},
        delta(3, {"toolResult": [{"text": "found"}]}),
        stop(3),
        start(4),
        piece(4, '{"city": "Ulm"}'),
        stop(4),
        end(),
        {"metadata": {"usage": USAGE}},
    )

    assert whole.raw == streamed.raw == content
    assert whole.calls() == streamed.calls()
    assert len(whole.calls()) == 1
    assert (whole.text, whole.usage, whole.finish_reason) == (streamed.text, streamed.usage, streamed.finish_reason)


def test_cited_text_is_said_and_sent_back_with_its_citations() -> None:
    cited = {"citationsContent": {"content": [{"text": "Rain."}], "citations": [{"title": "Weather"}]}}
    stream = Stream()
    stream.feed_response({"output": {"message": {"content": [cited]}}, "stopReason": "end_turn"})

    assert (stream.text, stream.raw) == ("Rain.", [cited])


def test_an_unfinished_call_is_refused_even_when_it_is_empty() -> None:
    unfinished = fed(start(0)).calls()[0]
    cut = fed(start(0), stop(0), end("max_tokens")).calls()[0]
    partial = fed(start(0), piece(0, '{"city": "U'), stop(0), end("max_tokens")).calls()[0]

    assert (unfinished.args, cut.args, partial.args) == ("{", "{", '{"city": "U')


@pytest.mark.parametrize("given", [None, 7, {"a": 1}, ["{}"]], ids=["none", "number", "object", "list"])
def test_a_piece_that_is_none_spoils_its_call_only(given: Any) -> None:
    stream = fed(start(0), start(1, id="t2"), piece(0, "{}"), piece(0, given), piece(1, "{}"), stop(0), stop(1), end())

    assert [is_refused(call) for call in stream.calls()] == [True, False]


def test_a_call_whose_beginning_was_lost_is_refused() -> None:
    [call] = fed(piece(0, "{}"), stop(0), end()).calls()

    assert (call.name, is_refused(call)) == ("(no name)", True)


def test_a_second_beginning_is_a_second_call() -> None:
    stream = fed(start(0), piece(0, "{}"), stop(0), start(0, id="t1"), piece(0, "{}"), stop(0), end())

    first, second = stream.calls()
    assert first.tool_call_id == "t1" != second.tool_call_id


def test_a_stream_without_its_end_is_not_complete() -> None:
    assert not fed(start(0), piece(0, "{}"), stop(0)).is_complete


def test_a_model_that_stopped_without_a_word_is_an_error() -> None:
    with pytest.raises(ModelStoppedError) as caught:
        fed(end("content_filtered")).build_response()

    assert caught.value.reason == "content_filtered"
    assert fed(end("end_turn")).build_response().text is None
    assert fed(delta(0, {"text": "So"}), end("max_tokens")).build_response().is_truncated


def named(kind: str, data: Any) -> dict[str, Any]:
    return {kind: data}


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "{", "{}", "find", "end_turn", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["toolUse", "text", "input"]), inner),
    max_leaves=5,
)
EVENTS = st.one_of(
    st.builds(start, ODD, ODD, ODD),
    st.builds(piece, ODD, ODD),
    st.builds(delta, ODD, ODD),
    st.builds(stop, ODD),
    st.builds(named, st.sampled_from(["metadata", "messageStop", "contentBlockStart", "x"]), ODD),
    ODD,
)


@given(st.lists(EVENTS, max_size=12))
def test_no_stream_raises_and_what_is_sent_back_fits_its_calls(events: list[Any]) -> None:
    stream = fed(*events)
    calls = stream.calls()

    sent = [block["toolUse"]["toolUseId"] for block in stream.raw if "toolUse" in block]
    assert len(sent) == len(calls) == len({call.tool_call_id for call in calls})
    json.dumps(stream.raw)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=4), st.data())
def test_however_arguments_are_cut_they_come_together(arguments: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(arguments)
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]

    [call] = fed(start(0), *(piece(0, each) for each in pieces), stop(0), end()).calls()

    assert args(call) == arguments
