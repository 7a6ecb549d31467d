from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.queries import Bounds, get_class_queries, query
from spindle.errors import ArtifactQueryError, UsageError

if TYPE_CHECKING:
    from decimal import Decimal


class Span(BaseModel):
    low: int
    high: int


class LogArtifact(Artifact):
    @query("log_errors", "Find error lines.", hidden={"limit": "max_items"})
    async def errors(self, level: Annotated[int, Field(ge=0, le=9)] = 3, *, limit: int | None = None) -> "Decimal":
        raise NotImplementedError

    @query("log_between", "Lines of a span.")
    async def between(self, span: Span, note: str | None = None) -> str:
        return ""

    @query("artifact_head", "Ours.")
    async def head(self, n: int = 1) -> list[str]:
        return []


def test_the_schema_comes_from_the_signature() -> None:
    told = get_class_queries(LogArtifact)["log_errors"].schema

    assert told == {"properties": {"level": {"default": 3, "maximum": 9, "minimum": 0, "type": "integer"}}}


def test_required_parameters_and_nested_types_are_told() -> None:
    told = get_class_queries(LogArtifact)["log_between"].schema

    assert told["required"] == ["span"]
    assert "Span" in told["$defs"]
    assert told["properties"]["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}


def test_queries_are_collected_over_the_class_chain_and_the_nearest_wins() -> None:
    names = list(get_class_queries(LogArtifact))

    assert names[:7] == [
        "artifact_head",
        "artifact_tail",
        "artifact_grep",
        "artifact_cat",
        "artifact_byte_length",
        "artifact_line_count",
        "artifact_estimate_tokens",
    ]
    assert names[7:] == ["log_errors", "log_between"]
    assert get_class_queries(LogArtifact)["artifact_head"].description == "Ours."
    assert get_class_queries(Artifact)["artifact_head"].description != "Ours."
    assert not get_class_queries(str)


def test_a_parameter_that_is_a_model_reaches_the_method_as_one() -> None:
    bound = get_class_queries(LogArtifact)["log_between"].bind({"span": {"low": 1, "high": 2}}, Bounds())

    assert bound == {"span": Span(low=1, high=2), "note": None}


def test_hidden_parameters_are_filled_and_cannot_be_given() -> None:
    asked = get_class_queries(LogArtifact)["log_errors"]

    assert asked.bind({}, Bounds(max_items=5)) == {"level": 3, "limit": 6}
    with pytest.raises(ArtifactQueryError):
        asked.bind({"limit": 10**9}, Bounds())


@pytest.mark.parametrize("args", [{"level": "x"}, {"level": 10}, {"other": 1}])
def test_arguments_that_do_not_fit_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        get_class_queries(LogArtifact)["log_errors"].bind(args, Bounds())

    assert caught.value.tool == "log_errors"


@pytest.mark.parametrize(
    ("name", "args", "clamped"),
    [
        ("artifact_head", {"n": 10**9}, {"n": 6}),
        ("artifact_tail", {"n": 2}, {"n": 2}),
        ("artifact_cat", {}, {"start": None, "end": 6}),
        ("artifact_cat", {"start": 10, "end": 10**9}, {"start": 10, "end": 16}),
        ("artifact_cat", {"start": 10, "end": 12}, {"start": 10, "end": 12}),
        ("artifact_json_slice", {"start": 3}, {"start": 3, "end": 9}),
        ("artifact_json_get", {"path": "$"}, {"path": "$", "limit": 6}),
    ],
)
def test_no_more_is_fetched_than_an_answer_can_show(name: str, args: dict[str, Any], clamped: dict[str, Any]) -> None:
    assert get_class_queries(JsonArtifact)[name].bind(args, Bounds(max_items=5)) == clamped


def test_grep_is_limited_whatever_was_asked() -> None:
    asked = get_class_queries(Artifact)["artifact_grep"]

    assert asked.bind({"pattern": "x"}, Bounds(max_items=5))["limit"] == 6
    assert asked.bind({"pattern": "x", "limit": 2}, Bounds(max_items=5))["limit"] == 2
    assert asked.bind({"pattern": "x", "limit": 99}, Bounds(max_items=5))["limit"] == 6


def test_a_query_needs_a_name_and_words() -> None:
    with pytest.raises(UsageError):
        query("", "words")
    with pytest.raises(UsageError):
        query("name", "")


def test_a_catch_all_parameter_cannot_be_offered_to_a_model() -> None:
    class Loose(Artifact):
        @query("loose", "Anything.")
        async def loose(self, **anything: Any) -> None: ...

    with pytest.raises(UsageError):
        _ = get_class_queries(Loose)["loose"].schema
