"""Which words of an answer are the user's own: those that the question does not have."""

from typing import Any

import pytest

from spindle import Gate
from spindle.execution import ApprovalText
from spindle.mcp.client_requests import ListRoots
from spindle.mcp.server.user_words import find_user_words


def form(question: str = "Who gets it?", **fields: Any) -> Gate:
    schema = {"type": "object", "properties": fields or {"answer": {"type": "string"}}}
    return Gate(question, None, schema=schema, timeout_seconds=None)


def test_typed_words_and_numbers_are_the_users() -> None:
    gate = form(to={"type": "string"}, amount={"type": "number"})

    assert find_user_words(gate, {"to": "ann@example.org", "amount": 12.5}) == ["ann@example.org", "12.5"]


@pytest.mark.parametrize(
    ("gate", "value"),
    [
        (form(to={"type": "string", "default": "eve@evil.com"}), {"to": "eve@evil.com"}),
        (form(to={"type": "string", "default": "eve@evil.com"}), {"to": "  EVE@evil.com "}),
        (form(to={"type": "string", "default": "eve@evil.com"}), {"to": "<mailto:eve@evil.com>"}),
        (form(to={"type": "string", "enum": ["eve@evil.com", "ann"]}), {"to": "eve@evil.com"}),
        (form(to={"oneOf": [{"const": "eve", "title": "Ann"}], "type": "string"}), {"to": "eve"}),
        (form(to={"type": "array", "items": {"type": "string", "enum": ["a-1", "b-2"]}}), {"to": ["a-1"]}),
        (form("To confirm, type eve@evil.com"), {"answer": "eve@evil.com"}),
        (form(to={"type": "string", "description": "such as eve@evil.com"}), {"to": "eve@evil.com"}),
        (form(n={"type": "integer", "default": 5000}), {"n": 5000}),
        (form(yes={"type": "boolean"}), {"yes": True}),
        (
            Gate("approval", ApprovalText("Run?", True), schema={"type": "object"}, timeout_seconds=1),
            {"approve": True, "x": "eve"},
        ),
        (Gate("roots", ListRoots(), timeout_seconds=1), ["eve"]),
        (Gate("open", {"mode": "url", "url": "https://evil.com"}, timeout_seconds=1), True),
    ],
)
def test_what_the_question_says_is_not(gate: Gate, value: Any) -> None:
    assert find_user_words(gate, value) == []


def test_words_around_one_of_the_question_do_not_become_neighbours() -> None:
    assert find_user_words(form("Send to general?"), {"answer": "no general please"}) == ["no", "please"]
