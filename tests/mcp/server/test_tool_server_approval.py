"""The question that the user of an MCP client sees before a call is approved."""

import hashlib
from typing import Any

import mcp_types as types
import pytest

from spindle import tool
from tests.mcp.asking_clients import LEGACY, MODERN, Asked, connected, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", [LEGACY, MODERN])]

NO = types.ElicitResult(action="accept", content={"approve": False})
YES = types.ElicitResult(action="accept", content={"approve": True})
SHOW = types.ElicitResult(action="accept", content={"approve": False, "show_in_full": True})


@tool(requires_approval=True)
def send(body: str, to: str = "", cc: list[str] | None = None) -> str:
    """Send a mail."""
    return f"sent {len(body)} to {to}"


class Person(Asked):
    """A user with several answers, who remembers the questions and their forms."""

    answers: list[types.ElicitResult]
    forms: list[Any]

    async def elicit(self, _context: Any, params: types.ElicitRequestParams) -> Any:
        self.requests.append(params.message)
        self.forms.append(params)
        return self.answers.pop(0)


async def ask(mode: str, args: dict[str, Any], *answers: types.ElicitResult) -> tuple[Person, str]:
    person = Person()
    person.answers, person.forms = list(answers), []
    async with connected(send, mode=mode, asked=person, can=("elicitation",)) as client:
        result = await client.call_tool("send", args)
    return person, text_of(result)


async def test_a_short_call_is_shown_completely(mode: str) -> None:
    person, _ = await ask(mode, {"body": "/tmp/x y", "to": "ann"}, NO)

    assert person.requests == ['Run send with {"body": "/tmp/x y", "to": "ann", "cc": null}?']


@pytest.mark.parametrize(
    "filler", ["\ufdfa" * 150, "\ufdfa" * 110, "\u200b" * 1990, "<" * 1990, "\x07" * 400, " " * 1900]
)
async def test_no_value_can_hide_the_arguments_after_it(mode: str, filler: str) -> None:
    person, _ = await ask(mode, {"body": filler, "to": "attacker@evil.example"}, NO)

    [question] = person.requests
    assert "attacker@evil.example" in question
    assert question.isprintable()


async def test_a_long_value_is_summarised_and_can_be_shown_in_full(mode: str) -> None:
    body = "a" * 3_000 + "MIDDLE" + "b" * 3_000 + "END"
    person, said = await ask(mode, {"body": body, "to": "ann"}, SHOW, YES)

    short, full = person.requests
    assert "MIDDLE" not in short
    assert "END" in short
    assert f"{len(body)} characters" in short
    assert hashlib.sha256(body.encode()).hexdigest() in short
    assert body in full
    assert "to ann" in said


async def test_a_yes_together_with_the_wish_to_see_more_is_not_an_approval(mode: str) -> None:
    both = types.ElicitResult(action="accept", content={"approve": True, "show_in_full": True})
    person, said = await ask(mode, {"body": "x" * 5_000}, both, NO)

    assert len(person.requests) == 2
    assert "sent" not in said


async def test_hidden_and_direction_characters_are_shown_as_numbers(mode: str) -> None:
    person, _ = await ask(mode, {"body": "x\u202etxt.exe\x1b[2K\nRun nothing\U000e0041\u3164\u00a0?"}, NO)

    [question] = person.requests
    assert question.isprintable()
    assert all(number in question for number in (r"\u202e", r"\u001b", r"\U000e0041", r"\u3164", r"\u00a0"))


async def test_a_list_shows_how_many_items_are_left_out(mode: str) -> None:
    person, _ = await ask(mode, {"body": "", "cc": [f"person{n}@example.com" for n in range(1_000)]}, SHOW, NO)

    short, full = person.requests
    assert "of 1000 items" in short
    assert "person0@" in short
    assert "person999@" in short
    assert all(f"person{n}@" in full for n in range(1_000))


async def test_a_call_that_cannot_be_shown_is_refused_without_a_question(mode: str) -> None:
    person, said = await ask(mode, {"body": "x" * 1_100_000})

    assert person.requests == []
    assert "cannot be shown" in said
