"""What pydantic finds wrong, in our own words."""

import datetime
import decimal
import enum
import json
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from spindle.tools.schema.base import Location, Problem, format_problems
from spindle.tools.schema.pydantic_errors import EXPECTED_TEMPLATES, EXPECTED_WORDS, translate_errors

SECRET = "hunter2-and-more"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Circle(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["circle"] = "circle"
    radius: int


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["square"] = "square"
    side: int


class Args(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: Annotated[int, Field(ge=1, le=9)] = 1
    ratio: float = 1
    code: Annotated[str, Field(min_length=2, max_length=3, pattern="^a")] = "aa"
    colour: Colour = Colour.RED
    status: Literal["open", "closed", 3] = "open"
    either: int | str | None = None
    shape: Circle | Square | int | None = None
    tagged: Annotated[Circle | Square, Field(discriminator="kind")] | None = None
    rows: Annotated[list[int], Field(min_length=2)] = [1, 2]
    by_number: dict[int, int] = {}
    when: datetime.datetime | None = None
    price: Annotated[decimal.Decimal, Field(max_digits=3)] | None = None
    ident: uuid.UUID | None = None
    link: AnyUrl | None = None
    pair: tuple[int, str] | None = None
    words: list[str] | dict[str, int] | None = None
    token: Any = None


def problems(value: dict[str, Any], model: type[BaseModel] = Args, **options: Any) -> list[Problem]:
    def names_at(loc: Location) -> Sequence[str]:
        return [] if loc else list(model.model_fields)

    with pytest.raises(ValidationError) as caught:
        model.model_validate(value)
    return translate_errors(caught.value.errors(include_url=False), names_at=names_at, given=value, **options)


@pytest.mark.parametrize(
    ("value", "path", "expected", "received"),
    [
        ({"limit": "x"}, "limit", "a whole number", "text"),
        ({"limit": None}, "limit", "a whole number", "null"),
        ({"limit": 1.5}, "limit", "a whole number, without a fraction", "a number"),
        ({"limit": 0}, "limit", "a number of at least 1", "a whole number"),
        ({"limit": 10}, "limit", "a number of at most 9", "a whole number"),
        ({"ratio": []}, "ratio", "a number", "a list"),
        ({"code": "a"}, "code", "text of at least 2 characters", "text"),
        ({"code": "aaaa"}, "code", "text of at most 3 characters", "text"),
        ({"code": "bb"}, "code", "text that matches the pattern ^a", "text"),
        ({"code": 3}, "code", "text", "a whole number"),
        ({"either": []}, "either", "a whole number or text", "a list"),
        ({"shape": "x"}, "shape", "an object or a whole number", "text"),
        ({"shape": {"radius": "x"}}, "shape.radius", "a whole number", "text"),
        ({"tagged": {"kind": "circle", "radius": "x"}}, "tagged.radius", "a whole number", "text"),
        ({"tagged": {"kind": "cube"}}, "tagged.kind", "'circle' or 'square'", "another value"),
        ({"rows": [1]}, "rows", "at least 2 items", "a list"),
        ({"rows": [1, "x"]}, "rows[1]", "a whole number", "text"),
        ({"by_number": {"x": 1}}, "by_number", "every name in it to be a whole number", "another name"),
        ({"when": "soon"}, "when", "a date and time such as 2026-01-31T14:30:00Z", "text"),
        ({"price": "12345"}, "price", "at most 3 digits", "text"),
        ({"ident": "x"}, "ident", "a UUID", "text"),
        ({"link": "x"}, "link", "a URL", "text"),
        ({"pair": [1, 2]}, "pair[1]", "text", "a whole number"),
        ({"words": 3}, "words", "a list or an object", "a whole number"),
        ({"words": {"a": "x"}}, "words.a", "a whole number", "text"),
    ],
)
def test_a_problem_has_its_path_its_expectation_and_the_kind_received(
    value: dict[str, Any], path: str, expected: str, received: str
) -> None:
    assert problems(value) == [Problem(path=path, expected=expected, received=received)]


@pytest.mark.parametrize(
    ("value", "path", "hint"),
    [
        ({"lmit": 1}, "lmit", "did you mean 'limit'?"),
        ({"byNumber": 1}, "byNumber", "did you mean 'by_number'?"),
        ({"colour": "rde"}, "colour", "nearest: 'red'"),
        ({"status": "Closed"}, "status", "nearest: 'closed'"),
        ({"tagged": {"kind": "sqare"}}, "tagged.kind", "nearest: 'square'"),
    ],
)
def test_the_nearest_name_or_option_is_hinted_at(value: dict[str, Any], path: str, hint: str) -> None:
    (problem,) = problems(value)

    assert (problem.path, problem.hint) == (path, hint)


def test_missing_and_unknown_arguments_are_reported_as_such() -> None:
    missing, unknown = problems({"diameter": 1}, Circle)

    assert (missing.path, missing.received) == ("radius", "missing")
    assert (unknown.path, unknown.received) == ("diameter", "unknown argument")
    assert "'radius'" in unknown.expected


def test_the_branch_of_a_union_that_comes_nearest_speaks() -> None:
    (problem,) = problems({"shape": {"radius": 1, "colour": 2}})

    assert (problem.path, problem.received) == ("shape.colour", "unknown argument")


def test_a_missing_tag_points_at_its_key() -> None:
    (problem,) = problems({"tagged": {"radius": 1}})

    assert (problem.path, problem.received) == ("tagged.kind", "missing")


def test_without_arguments_branches_are_distinguished_by_their_shape() -> None:
    with pytest.raises(ValidationError) as caught:
        Args.model_validate({"either": [], "words": {"a": "x"}})

    paths = [problem.path for problem in translate_errors(caught.value.errors())]

    assert paths == ["either", "words.a"]


class Guarded(BaseModel):
    password: Annotated[str, Field(max_length=3)] = ""
    vault: dict[str, int] = {}
    choice: Literal["open", "hunter2"] = "open"
    other: int = 1

    @field_validator("password")
    @classmethod
    def never(cls, value: str) -> str:
        raise ValueError(f"{value} is too weak")

    @field_validator("other")
    @classmethod
    def quotes_another_field(cls, value: int, info: Any) -> int:
        raise ValueError(f"not with {info.data}")

    @model_validator(mode="before")
    @classmethod
    def quotes_everything(cls, value: Any) -> Any:
        if "boom" in value:
            raise ValueError(f"cannot take {value}")
        return value


@pytest.mark.parametrize(
    "value",
    [
        {"password": SECRET},
        {"password": SECRET[:3]},
        {"vault": {SECRET: SECRET}},
        {"vault": {SECRET: {SECRET: 1}}},
        {"choice": SECRET[:6]},
        {"vault": {}, "choice": "open", "password": "", "other": 2, "boom": SECRET},
        {"vault": {"a": 271828}, "other": 2},
        {"password": [SECRET]},
    ],
)
def test_nothing_of_a_secret_field_shows(value: dict[str, Any]) -> None:
    found = problems(value, Guarded, secret_fields=frozenset(("password", "vault", "choice")))
    text = format_problems(found, "login")

    assert found
    assert SECRET[:3] not in text
    assert "271828" not in text


def test_the_message_of_an_own_check_shows_where_no_secret_is_about() -> None:
    (problem,) = problems({"other": 7}, Guarded)

    assert "not with" in problem.expected


def test_a_message_that_cannot_be_checked_for_a_secret_is_withheld() -> None:
    with pytest.raises(ValidationError) as caught:
        Guarded.model_validate({"vault": {"a": 271828}, "other": 2})

    found = translate_errors(caught.value.errors(), secret_fields=frozenset(("vault",)))

    assert "271828" not in format_problems(found, "login")


KEPT_OUT = {
    # made by programs, not by arguments
    *("no_such_attribute", "needs_python_object", "get_attribute_error", "frozen_field", "frozen_instance"),
    *("default_factory_not_called", "iteration_error", "callable_type", "multiple_argument_values"),
    *("missing_sentinel_error", "ellipsis_error"),
    # worded by functions of their own
    *("missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument"),
    *("extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument"),
    *("literal_error", "enum", "url_scheme", "union_tag_invalid", "union_tag_not_found"),
    *("value_error", "assertion_error"),
}


def test_every_error_that_arguments_can_cause_has_words_of_ours() -> None:
    from typing import get_args

    from pydantic_core.core_schema import ErrorType

    worded = EXPECTED_WORDS.keys() | EXPECTED_TEMPLATES.keys()
    assert set(get_args(ErrorType)) - worded - KEPT_OUT == set()
    assert worded & KEPT_OUT == set()


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(Args.model_fields)), JSON_VALUES))
def test_any_refusal_can_be_worded(value: dict[str, Any]) -> None:
    try:
        TypeAdapter(Args).validate_json(json.dumps(value))
    except ValidationError as error:
        found = translate_errors(error.errors(include_url=False), given=value)

        assert found
        assert format_problems(found, "t").replace("\n", "").isprintable()
