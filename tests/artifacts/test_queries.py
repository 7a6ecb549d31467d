from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.queries import (
    UNDEFINED,
    Bounds,
    get_class_queries,
    query,
    render_answer,
    render_result,
    render_rows,
)
from spindle.artifacts.readers import Match
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
    reported = get_class_queries(LogArtifact)["log_errors"].schema

    assert reported == {"properties": {"level": {"default": 3, "maximum": 9, "minimum": 0, "type": "integer"}}}


def test_required_parameters_and_nested_types_are_described() -> None:
    reported = get_class_queries(LogArtifact)["log_between"].schema

    assert reported["required"] == ["span"]
    assert "Span" in reported["$defs"]
    assert reported["properties"]["note"] == {"type": ["string", "null"]}


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
        ("artifact_cat", {"start_char": 7}, {"start": None, "end": 1, "start_char": 7, "end_char": 20_008}),
        (
            "artifact_cat",
            {"start": 4, "end": 90, "end_char": 5},
            {"start": 4, "end": 10, "start_char": None, "end_char": 5},
        ),
        ("artifact_json_slice", {"start": 3}, {"start": 3, "end": 9, "max_chars": 20_001}),
        ("artifact_json_get", {"path": "$"}, {"path": "$", "limit": 6, "max_chars": 20_001}),
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


@dataclass(frozen=True)
class Point:
    x: int


def rest(shown: int) -> str:
    return f"from {shown}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (UNDEFINED, "(undefined)"),
        (None, "null"),
        ("as is\n", "as is\n"),
        ("", ""),
        ([], "(empty list)"),
        ((), "(empty list)"),
        (["a", "b"], "a\nb"),
        (5, "5"),
        (2.5, "2.5"),
        (10**30, "1" + "0" * 30),
        (True, "true"),
        ({"a": 1}, '{\n  "a": 1\n}'),
        ([1, "a"], '[\n  1,\n  "a"\n]'),
        ([Match(3, "x"), Match(9, "y: z")], "3: x\n9: y: z"),
        ([Point(1)], '[\n  {\n    "x": 1\n  }\n]'),
        ({"é": date(2024, 1, 2)}, '{\n  "é": "2024-01-02"\n}'),
        ([datetime(2024, 1, 2, 3, tzinfo=UTC)], '[\n  "2024-01-02T03:00:00+00:00"\n]'),
        ([b"raw", {2, 1}], '[\n  "raw",\n  [\n    1,\n    2\n  ]\n]'),
    ],
)
def test_each_kind_of_result_has_its_text(value: Any, text: str) -> None:
    assert render_result(value) == text


def test_rows_are_one_a_line() -> None:
    assert render_rows([{"a": 1}, {"a": None}]) == '{"a": 1}\n{"a": null}'
    assert render_rows([]) == "(empty list)"


def test_an_answer_that_fits_is_whole() -> None:
    assert render_answer(["a", "b"], Bounds(), rest=rest) == "a\nb"
    assert render_answer("text", Bounds(max_chars=4), rest=rest) == "text"
    assert render_answer([], Bounds(max_items=1), rest=rest) == "(empty list)"


def test_a_list_is_cut_between_items_and_says_where_to_go_on() -> None:
    text = render_answer([f"line {n}" for n in range(10)], Bounds(max_items=3), rest=rest)

    assert text.splitlines()[:3] == ["line 0", "line 1", "line 2"]
    assert text.splitlines()[3:] == ["[3 items shown, more follow; from 3]"]


def test_a_list_is_cut_by_characters_too() -> None:
    text = render_answer(["x" * 40, "y" * 40, "z" * 40], Bounds(max_chars=100), rest=rest)

    assert "y" in text
    assert "z" not in text
    assert "from 2" in text


def test_an_item_that_is_too_long_alone_is_shown_in_part() -> None:
    text = render_answer(["x" * 500, "y"], Bounds(max_chars=100), rest=rest)

    assert text.startswith("x" * 100 + "\n[")
    assert "from 1" in text


def test_from_the_end_the_last_items_stay_and_the_note_says_what_came_before() -> None:
    def ending(items: list[str], bounds: Bounds) -> str:
        return render_answer(items, bounds, rest=rest, from_end=True)

    assert ending(["a", "b", "c"], Bounds(max_items=2)) == "b\nc\n[2 items shown, more come before; from 2]"
    assert ending(["aaa", "bbb", "ccc"], Bounds(max_chars=8)).startswith("bbb\nccc\n[2 items")
    assert ending(["a", "xxEND"], Bounds(max_chars=3)).startswith("END\n[3 characters shown, more come before")
    assert ending(["a", "b"], Bounds()) == "a\nb"
    assert ending([], Bounds()) == "(empty list)"


def test_half_a_surrogate_pair_does_not_spoil_an_answer() -> None:
    assert render_answer(["\ud800"], Bounds(), rest=rest).encode()


@given(
    st.lists(st.one_of(st.text(), st.integers(), st.dictionaries(st.text(), st.text()))),
    st.integers(1, 50),
    st.integers(10, 500),
)
def test_an_answer_stays_within_its_bounds_but_for_the_note(items: list[Any], max_items: int, max_chars: int) -> None:
    text = render_answer(items, Bounds(max_items=max_items, max_chars=max_chars), rest=rest)

    assert len(text) <= max_chars + 200
