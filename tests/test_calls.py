import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, replace
from typing import Any, assert_type

import pytest

from spindle import Artifact, Call, CallOutcome, Err, Executor, Media, Ok, ToolContext, ToolRegistry, tool
from spindle.calls import ToolCallRecord
from spindle.errors import InvalidToolCallRecordError

pytestmark = pytest.mark.anyio

PICTURE = Media.tool_generated(b"x", kind="image", mime_type="image/png", filename="a.png")


def make(**changes: Any) -> ToolCallRecord:
    values: dict[str, Any] = {
        "id": "c1",
        "tool": "t",
        "args": {"a": 1},
        "checksum": "s",
        "is_complete": True,
        "is_error": False,
        "results": "text",
    }
    return ToolCallRecord(**(values | changes))


def test_defaults_are_those_of_the_contract() -> None:
    record = make()

    assert (record.from_artifact_tool, record.inline, record.trusted) == (False, False, False)
    assert record.created_at.tzinfo is not None
    assert record.created_at <= record.completed_at


@pytest.mark.parametrize("args", ['{"a": 1}', b'{"a": 1}', {"a": 1}])
def test_args_are_always_an_object(args: Any) -> None:
    assert make(args=args).args == {"a": 1}


@pytest.mark.parametrize("results", ["", "text", Artifact.from_text("a"), PICTURE])
def test_results_are_text_artifact_or_media(results: Any) -> None:
    assert make(results=results).results is results


def test_a_list_of_one_kind_is_kept_as_a_tuple() -> None:
    assert make(results=[PICTURE, PICTURE]).results == (PICTURE, PICTURE)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("tool", ""),
        ("checksum", None),
        ("args", "[1]"),
        ("args", "{"),
        ("args", None),
        ("is_complete", "yes"),
        ("is_error", None),
        ("results", None),
        ("results", []),
        ("results", ["text", PICTURE]),
        ("results", 5),
        ("inline", 1),
        ("created_at", "today"),
        ("media", None),
        ("media", ["text"]),
    ],
)
def test_a_bad_value_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidToolCallRecordError) as caught:
        make(**{field: value})

    assert caught.value.field == field


async def test_an_outcome_makes_its_own_record() -> None:
    @tool
    def echo(text: str) -> str:
        """Echo."""
        return text

    @tool(trusted=True)
    def draw() -> Media:
        """Draw."""
        return PICTURE

    @tool
    def draw_list() -> list[Media]:
        """Draw a list of one."""
        return [PICTURE]

    executor = Executor(ToolRegistry([echo, draw, draw_list]))
    calls = [
        Call("1", "echo", '{"text": "hi"}'),
        Call("2", "echo", "{"),
        Call("3", "draw"),
        Call("4", "echo", {"text": "x" * 90_000}),
        Call("5", "draw_list"),
    ]
    said, refused, drawn, large, listed = [
        each.to_record() for each in await executor.execute_parallel(calls, ToolContext())
    ]

    assert (said.id, said.tool, said.args, said.results, said.is_error) == ("1", "echo", {"text": "hi"}, "hi", False)
    assert (refused.is_error, refused.args) == (True, {})
    assert drawn.results is PICTURE
    assert listed.results == (PICTURE,)
    assert drawn.trusted
    assert isinstance(large.results, Artifact)
    assert large.shown is not None
    assert large.shown.startswith("xxx")


async def test_from_outcome_builds_the_same_record_as_to_record_and_takes_another_id() -> None:
    @tool
    def echo(text: str) -> str:
        """Echo."""
        return text

    executor = Executor(ToolRegistry([echo]))
    calls = [Call("1", "echo", '{"text": "hi"}'), Call("2", "echo", "{")]
    for outcome in await executor.execute_parallel(calls, ToolContext()):
        record, expected = ToolCallRecord.from_outcome(outcome), outcome.to_record()
        assert (record.id, record.tool, record.args, record.checksum) == (
            outcome.tool_call_id,
            "echo",
            expected.args,
            outcome.checksum,
        )
        assert (record.results, record.is_error, record.code, record.by, record.raw_args) == (
            expected.results,
            expected.is_error,
            expected.code,
            expected.by,
            expected.raw_args,
        )
        assert ToolCallRecord.from_outcome(outcome, id="mine").id == "mine"


def test_a_record_of_an_outcome_made_by_hand() -> None:
    outcome = CallOutcome("c", "t", "sum", Err("denied", "no"), 1.0)

    assert outcome.to_record().results == "no"
    assert CallOutcome("c", "t", "sum", Ok("yes", trusted=True)).to_record().trusted


def lazy_outcome(computed: list[str]) -> CallOutcome:
    def compute() -> str:
        computed.append("once")
        return "sum"

    return CallOutcome("c", "t", compute, Ok("yes"), 1.0, args={"a": 1})


LOOKS: list[Callable[[CallOutcome], object]] = [
    lambda outcome: outcome.checksum,
    repr,
    hash,
    lambda outcome: outcome == CallOutcome("c", "t", "sum", Ok("yes"), 1.0),
    lambda outcome: replace(outcome, result=Ok("no")).checksum,
    lambda outcome: pickle.loads(pickle.dumps(outcome)).checksum,
    lambda outcome: copy.copy(outcome).checksum,
    asdict,
]


@pytest.mark.parametrize("look", LOOKS)
def test_lazy_checksum_looks_like_a_plain_one(look: Callable[[CallOutcome], object]) -> None:
    computed: list[str] = []
    lazy, plain = lazy_outcome(computed), CallOutcome("c", "t", "sum", Ok("yes"), 1.0, args={"a": 1})

    assert computed == []
    assert look(lazy) == look(plain)
    assert lazy == plain
    assert (lazy.checksum, lazy.checksum) == ("sum", "sum")
    assert len(computed) <= 2  # a copy made before the first look computes its own


def test_outcome_is_frozen_and_needs_a_checksum() -> None:
    outcome = lazy_outcome([])

    with pytest.raises(FrozenInstanceError):
        outcome.checksum = "other"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        CallOutcome("c", "t", result=Ok())  # pyright: ignore[reportCallIssue]


def test_ok_distinguishes_results_for_programs_and_type_checkers() -> None:
    results: list[Ok | Err] = [Ok("fine"), Err("denied", "no")]
    texts: list[str] = []
    for result in results:
        if result.ok is True:
            assert_type(result, Ok)
            texts.append(result.value)
        else:
            assert_type(result, Err)
            texts.append(result.error)

    assert texts == ["fine", "no"]
    fields = {"value", "structured", "media", "artifact", "cost_usd", "trusted", "wire", "label"}
    assert asdict(Ok("fine")).keys() == fields
