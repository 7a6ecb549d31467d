"""Gates as forms, and answers back."""

from dataclasses import dataclass
from typing import Any, Literal

import mcp_types as types
import pytest

from spindle import Gate
from spindle.errors import GateAbortedError, InvalidGateResolutionError
from spindle.mcp.server.elicitation import apply_answer, build_form, get_key


@dataclass
class Order:
    size: Literal["small", "large"]
    count: int = 1


AS_TEXT = {"type": "string", "description": "The answer."}
"""What a form cannot ask is asked as text, and refused if the text does not fit."""


def gate(schema: Any = None, payload: Any = None, reason: str = "order") -> Gate:
    return Gate(reason, payload, schema=schema, timeout_seconds=60)


def form(asked: Gate) -> dict[str, Any]:
    params = build_form(asked).params
    assert isinstance(params, types.ElicitRequestFormParams)
    return dict(params.requested_schema)


def accept(content: dict[str, Any]) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        (None, {"type": "string"}),
        (bool, {"type": "boolean"}),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 1}),
        ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a"]}},
            {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        ),
        # What a form cannot ask is asked as text, and refused if the text does not fit.
        (
            {"type": "object", "properties": {"deep": {"type": "object"}}},
            {"type": "string", "description": "The answer."},
        ),
        ({"type": "array", "items": {"type": "object"}}, {"type": "string", "description": "The answer."}),
    ],
    ids=["nothing", "yes or no", "number", "choice", "choices", "nested", "list"],
)
def test_a_value_becomes_one_field(schema: Any, field: dict[str, Any]) -> None:
    assert form(gate(schema)) == {"type": "object", "properties": {"answer": field}, "required": ["answer"]}


def test_a_flat_object_becomes_a_form_of_its_fields() -> None:
    shown = form(gate(Order))

    assert set(shown["properties"]) == {"size", "count"}
    assert shown["required"] == ["size"]


def test_an_answer_arrives_as_the_schema_gives_it() -> None:
    asked = gate(Order)
    apply_answer(asked, accept({"size": "large", "count": "3"}))

    assert asked.outcome() == Order(size="large", count=3)


def test_a_single_value_is_taken_out_of_its_field() -> None:
    asked = gate(int)
    apply_answer(asked, accept({"answer": 7}))

    assert asked.outcome() == 7


def test_an_answer_that_does_not_fit_rejects_the_gate() -> None:
    asked = gate({"type": "integer"})
    apply_answer(asked, accept({"answer": "seven"}))

    with pytest.raises(InvalidGateResolutionError):
        asked.outcome()


@pytest.mark.parametrize(("action", "error"), [("decline", PermissionError), ("cancel", GateAbortedError)])
def test_a_user_may_say_no(action: Literal["decline", "cancel"], error: type[Exception]) -> None:
    asked = gate()
    apply_answer(asked, types.ElicitResult(action=action))

    with pytest.raises(error):
        asked.outcome()


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (None, "order"),
        ({"question": "How many?"}, "How many?"),
        ({"path": "/x", "size": 3}, "order\npath: /x; size: 3"),
        ("plain", "order: plain"),
        ({"question": "one\ntwo\x1b[31m"}, "one two"),
    ],
    ids=["none", "question", "facts", "text", "hostile"],
)
def test_the_message_says_what_is_asked(payload: Any, message: str) -> None:
    assert build_form(gate(payload=payload)).params.message.startswith(message)


@pytest.mark.parametrize(("reason", "key"), [("user_name", "user_name"), ("may I?", "answer"), ("9", "answer")])
def test_a_question_is_named_by_its_reason_where_that_is_a_name(reason: str, key: str) -> None:
    assert get_key(gate(reason=reason)) == key
