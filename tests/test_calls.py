from typing import Any

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

    executor = Executor(ToolRegistry([echo, draw]))
    calls = [
        Call("1", "echo", '{"text": "hi"}'),
        Call("2", "echo", "{"),
        Call("3", "draw"),
        Call("4", "echo", {"text": "x" * 90_000}),
    ]
    said, refused, drawn, large = [each.to_record() for each in await executor.execute_parallel(calls, ToolContext())]

    assert (said.id, said.tool, said.args, said.results, said.is_error) == ("1", "echo", {"text": "hi"}, "hi", False)
    assert (refused.is_error, refused.args) == (True, {})
    assert drawn.results == (PICTURE,)
    assert drawn.trusted
    assert isinstance(large.results, Artifact)
    assert large.shown is not None
    assert large.shown.startswith("xxx")


def test_a_record_of_an_outcome_made_by_hand() -> None:
    outcome = CallOutcome("c", "t", "sum", Err("denied", "no"), 1.0)

    assert outcome.to_record().results == "no"
    assert CallOutcome("c", "t", "sum", Ok("yes", trusted=True)).to_record().trusted
