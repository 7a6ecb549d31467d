"""Answers of generateContent are put together, and nothing a stream does makes a guessed call."""

import json
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from spindle import Call, tool
from spindle.bridges.gemini import Stream, calls, definitions
from spindle.errors import InvalidToolArgsError, ModelStoppedError
from spindle.tools import read_arguments
from tests.bridges.wire.generating import call, chunk


def fed(*events: Any) -> Stream:
    stream = Stream()
    for event in events:
        stream.feed(event)
    return stream


def is_refused(asked: Call) -> bool:
    try:
        read_arguments(asked.args, tool=asked.name, empty_ok=True)
    except InvalidToolArgsError:
        return True
    return False


def test_text_thoughts_and_calls_come_out_of_chunks() -> None:
    stream = fed(
        chunk({"text": "so ", "thought": True}),
        chunk({"text": "that", "thought": True}),
        chunk({"text": "Let me "}),
        chunk({"text": "see."}, call("add", {"a": 1}, "f1")),
        chunk(call("add", {"a": None}, "f2"), reason="STOP"),
    )

    assert (stream.thoughts, stream.text) == ("so that", "Let me see.")
    assert stream.calls() == [Call("f1", "add", {"a": 1}), Call("f2", "add", {"a": None})]
    assert (stream.is_complete, stream.finish_reason) == (True, "STOP")
    assert stream.usage == {
        "input_tokens": 10,
        "output_tokens": 7,
        "reasoning_tokens": 2,
        "total_tokens": 17,
    }


def test_objects_of_the_sdk_give_the_same_as_plain_data() -> None:
    raw = [chunk({"text": "x"}, call("add", {"a": None, "b": [1]}, "f1", "c2ln"), reason="STOP")]

    sdk = fed(*[types.GenerateContentResponse.model_validate(each) for each in raw])

    assert sdk.build_response() == fed(*raw).build_response()


def test_deltas_contain_only_new_text() -> None:
    stream = Stream()
    raw = [chunk({"text": "hm", "thought": True}), chunk({"text": "a"}), chunk(call("add", {}, "f1"), reason="STOP")]

    pieces = [(piece.kind, piece.text, piece.id) for event in raw for piece in stream.feed(event)]

    assert pieces == [("thought", "hm", ""), ("text", "a", ""), ("call", "", "f1")]


def test_calls_of_one_name_without_ids_stay_apart() -> None:
    stream = fed(chunk(call("add", {"a": 1}), call("add", {"a": 1}), reason="STOP"))

    first, second = stream.calls()

    assert first.tool_call_id
    assert first.tool_call_id != second.tool_call_id
    assert [part["functionCall"] for part in stream.raw] == [{"name": "add", "args": {"a": 1}}] * 2
    assert [each.tool_call_id for each in stream.calls()] == [first.tool_call_id, second.tool_call_id]


def test_signatures_stay_on_the_very_part_they_came_with() -> None:
    run = {"executableCode": {"code": "1", "language": "PYTHON"}}

    stream = fed(
        chunk({"text": "a"}),
        chunk({"text": "b"}),
        chunk({"text": "", "thoughtSignature": "QQ=="}),
        chunk({"text": "c"}),
        chunk(run),
        chunk(call("add", {"a": 1}, signature="Qg=="), call("add", {"a": 2})),
        chunk({"text": ""}, reason="STOP"),
    )

    assert stream.raw == [
        {"text": "ab"},
        {"text": "", "thoughtSignature": "QQ=="},
        {"text": "c"},
        run,
        {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "Qg=="},
        {"functionCall": {"name": "add", "args": {"a": 2}}},
    ]


def test_a_call_without_arguments_is_whole_when_the_answer_is() -> None:
    assert calls(chunk(call("now", id="f1"), reason="STOP")) == [Call("f1", "now", "{}")]
    assert calls(chunk(call("now", {}, "f1"), reason="STOP")) == [Call("f1", "now", {})]


@pytest.mark.parametrize("reason", ["MAX_TOKENS", None])
@pytest.mark.parametrize("args", [None, {}])
def test_a_call_cut_before_its_first_argument_can_never_run_as_an_empty_one(reason: str | None, args: Any) -> None:
    assert calls(chunk(call("now", args, "f1"), reason=reason)) == [Call("f1", "now", "{")]


@pytest.mark.parametrize("args", ["{", 5, [1]])
def test_arguments_that_are_not_object_are_refused(args: Any) -> None:
    (asked,) = calls(chunk(call("add", args, "f1"), reason="STOP"))

    assert is_refused(asked)


def test_a_call_without_a_name_is_answered_and_never_run() -> None:
    stream = fed(chunk({"functionCall": {"args": {"a": 1}, "id": "f1"}}, reason="STOP"))

    (asked,) = stream.calls()

    assert asked.tool_call_id == "f1"
    assert is_refused(asked)
    assert stream.raw[0]["functionCall"]["name"]


@pytest.mark.parametrize(
    "reason", ["SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "NEW_ONE"]
)
def test_an_end_that_is_none_is_loud(reason: str) -> None:
    stream = fed(chunk({"text": "wel"}, reason=reason, finishMessage="because"))

    with pytest.raises(ModelStoppedError) as caught:
        stream.build_response()

    assert (caught.value.reason, caught.value.text) == (reason, "wel")


def test_a_malformed_call_gives_no_calls() -> None:
    assert calls(chunk(call("add", {"a": 1}), reason="MALFORMED_FUNCTION_CALL")) == []


def test_a_blocked_prompt_is_loud() -> None:
    stream = fed({"promptFeedback": {"blockReason": "SAFETY"}})

    assert stream.is_complete
    with pytest.raises(ModelStoppedError):
        stream.build_response()


def test_an_exhausted_token_limit_is_reported_and_raises_before_any_text() -> None:
    assert fed(chunk({"text": "half"}, reason="MAX_TOKENS")).build_response().is_truncated
    with pytest.raises(ModelStoppedError):
        fed(chunk({"text": "long", "thought": True}, reason="MAX_TOKENS")).build_response()


def test_only_the_first_of_several_answers_counts() -> None:
    both = chunk({"text": "one"}, reason="STOP")
    both["candidates"].insert(0, {"index": 1, "content": {"parts": [{"text": "two"}]}, "finishReason": "SAFETY"})

    assert fed(both).build_response().text == "one"


def test_names_are_mapped_back() -> None:
    @tool(name="1 files/read")
    def read(path: str) -> str:
        """Read."""
        return path

    reported = definitions([read])
    name = reported.tools[0]["name"]

    assert name != "1 files/read"
    assert calls(chunk(call(name, {"path": "x"}), reason="STOP"), reported)[0].name == "1 files/read"


# Arguments in pieces


def piece(path: str, *, goes_on: bool = False, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value} | ({"willContinue": True} if goes_on else {})


def part(*pieces: Any, name: str | None = None, goes_on: bool = True) -> dict[str, Any]:
    asked: dict[str, Any] = {"partialArgs": list(pieces)} if pieces else {}
    if name is not None:
        asked |= {"name": name, "id": "f1"}
    return {"functionCall": asked | ({"willContinue": True} if goes_on else {})}


def test_arguments_in_pieces_are_put_in_their_places() -> None:
    stream = fed(
        chunk(part(name="book")),
        chunk(part(piece("$.to.city", goes_on=True, stringValue="New "))),
        chunk(part(piece("$.to.city", stringValue="York"), piece("$.seats[0]", numberValue=12.0))),
        chunk(part(piece("$.seats[1]", numberValue=1.5), piece("$['a b']", nullValue="NULL_VALUE"))),
        chunk(part(piece("$.now", boolValue=True), goes_on=False), reason="STOP"),
    )

    (asked,) = stream.calls()

    args = {"to": {"city": "New York"}, "seats": [12, 1.5], "a b": None, "now": True}
    assert json.loads(str(asked.args)) == args
    assert stream.raw == [{"functionCall": {"name": "book", "id": "f1", "args": args}}]


@pytest.mark.parametrize(
    "bad",
    [
        [piece("city", stringValue="x")],
        [piece("$.a[5]", stringValue="x")],
        [piece("$.a", stringValue="x", boolValue=True)],
        [piece("$.a")],
        [5],
        [piece("$.a", stringValue="x"), piece("$.a.b", stringValue="y")],
        [piece("$.a", goes_on=True, stringValue="x"), piece("$.b", stringValue="y")],
        [piece("$.a", goes_on=True, stringValue="x"), piece("$.a", numberValue=1)],
    ],
    ids=["no-path", "gap", "two-values", "no-value", "no-piece", "into-text", "left-open", "mixed"],
)
def test_a_piece_that_has_no_place_spoils_its_call(bad: list[Any]) -> None:
    stream = fed(chunk(part(name="book")), chunk(part(*bad)), chunk(part(goes_on=False), reason="STOP"))

    assert [is_refused(asked) for asked in stream.calls()] == [True]


def test_arguments_that_never_end_are_refused() -> None:
    stream = fed(chunk(part(name="book")), chunk(part(piece("$.a", stringValue="x")), reason="MAX_TOKENS"))

    assert [is_refused(asked) for asked in stream.calls()] == [True]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_paths = st.sampled_from(["$.a", "$.a.b", "$.a[0]", "$[0]", "$", "x"])
_piece = st.dictionaries(st.sampled_from(["jsonPath", "stringValue", "numberValue", "willContinue"]), _json | _paths)
_asked = st.dictionaries(
    st.sampled_from(["name", "args", "id", "willContinue", "partialArgs"]), _json | st.lists(_piece | _json, max_size=3)
)
_part = st.dictionaries(
    st.sampled_from(["text", "thought", "functionCall", "thoughtSignature", "inlineData"]), _json | _asked
)
_chunk = st.fixed_dictionaries(
    {
        "candidates": st.lists(
            st.fixed_dictionaries(
                {"content": st.fixed_dictionaries({"parts": st.lists(_part | _json, max_size=4)}) | _json},
                optional={"finishReason": st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY"]) | _json, "index": _json},
            )
            | _json,
            max_size=2,
        )
    },
    optional={"usageMetadata": _json, "promptFeedback": _json},
)


@given(st.lists(_chunk | _json, max_size=5))
def test_no_stream_can_crash_the_reader_and_everything_it_repeats_is_json(junk: list[Any]) -> None:
    stream = fed(*junk)

    named = [each["functionCall"] for each in stream.raw if "functionCall" in each]

    assert len(stream.calls()) == len(named)
    assert all(isinstance(each["args"], dict) and each["name"] for each in named)
    json.dumps(stream.raw)
    assert stream.text is not None


def test_the_call_in_which_a_model_was_stopped_is_refused_and_the_ones_before_it_stand() -> None:
    stream = fed(chunk(call("add", {"a": 1}, "f1")), chunk(call("add", {"a": 2}, "f2"), reason="MAX_TOKENS"))

    first, last = stream.calls()

    assert first == Call("f1", "add", {"a": 1})
    assert is_refused(last)
