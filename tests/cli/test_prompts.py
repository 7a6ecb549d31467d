"""Questions to the person at the terminal."""

import io
from typing import Any

import pytest

from spindle import Gate, Tool, ToolContext
from spindle.cli import prompts
from spindle.cli.prompts import build_approver, build_gate_handler
from spindle.errors import GateNotSupportedError
from spindle.execution import ApprovalRequest

pytestmark = pytest.mark.anyio


def nothing() -> None:
    pass


def pay(args: Any, ctx: Any, meta: Any) -> str:
    return ""


def request() -> ApprovalRequest:
    tool = Tool(name="pay", description="Pay.", input_schema={"type": "object"}, handler=pay)
    return ApprovalRequest(tool=tool, args={"note": "\x1b[2J" + "x" * 5000}, checksum="c", ctx=ToolContext())


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal with lines that were typed in advance."""
    typed = io.StringIO()
    monkeypatch.setattr(prompts, "can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", typed)
    return typed


def test_without_a_terminal_no_question_is_asked() -> None:
    assert build_approver(yes=False, before=nothing) is None


async def test_yes_agrees_to_everything() -> None:
    approve = build_approver(yes=True, before=nothing)

    assert approve is not None
    assert await approve(request()) is True


@pytest.mark.parametrize(
    ("line", "agreed"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
async def test_only_a_clear_yes_agrees(
    person: io.StringIO, line: str, agreed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    person.write(line)
    person.seek(0)
    approve = build_approver(yes=False, before=nothing)

    assert approve is not None
    assert await approve(request()) is agreed
    asked = capsys.readouterr().err
    assert "pay" in asked
    assert len(asked) < 3000


async def test_the_approval_prompt_hides_no_argument_behind_a_long_one(
    person: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    person.write("v\ny\n")
    person.seek(0)
    args = {"note": "x" * 3_000 + "MIDDLE" + "\u202e" * 3_000, "to": "attacker\x1b[2K"}
    asked = ApprovalRequest(tool=request().tool, args=args, checksum="c", ctx=ToolContext())
    approve = build_approver(yes=False, before=nothing)

    assert approve is not None
    assert await approve(asked) is True
    short, full = capsys.readouterr().err.split("v shows every value in full")
    assert r"attacker\u001b[2K" in short
    assert "MIDDLE" not in short
    assert "MIDDLE" in full
    assert all(line.isprintable() for line in (short + full).splitlines())


async def test_a_tools_question_is_answered_with_one_of_its_options(
    person: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    person.write("purple\nred\n")
    person.seek(0)
    payload: Any = {"question": "Which colour?", "options": ["red", "blue"]}

    answer = await build_gate_handler(nothing)(Gate("ask_user", payload, timeout_seconds=5))

    assert answer == "red"
    assert capsys.readouterr().err.count("Which colour?") == 2


async def test_a_question_without_anybody_there_cannot_be_asked() -> None:
    with pytest.raises(GateNotSupportedError):
        await build_gate_handler(nothing)(Gate("ask_user", timeout_seconds=5))


async def test_end_of_input_is_not_an_answer(person: io.StringIO) -> None:
    payload: Any = {"question": "Which colour?", "options": ["red", "blue"]}

    with pytest.raises(GateNotSupportedError):
        await build_gate_handler(nothing)(Gate("ask_user", payload, timeout_seconds=5))


FORM: Any = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer", "minimum": 0},
        "loud": {"type": "boolean", "default": False},
        "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
        "note": {"type": "string"},
    },
    "required": ["name", "age"],
}


async def test_a_form_of_an_mcp_server_is_asked_field_by_field(
    person: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    # No name at first; then an age that the schema refuses, so that it is asked anew.
    person.write("\nAda\n-1\n\n\n\n" + "Ada\n36\n\nred, blue\n\n")
    person.seek(0)
    gate = Gate("The MCP server 's' asks", {"schema": FORM, "mode": "form"}, schema=FORM, timeout_seconds=5)

    answer = await build_gate_handler(nothing)(gate)

    assert answer == {"name": "Ada", "age": 36, "loud": False, "colours": ["red", "blue"]}
    assert "Your name" in capsys.readouterr().err


async def test_an_abandoned_form_is_not_an_answer(person: io.StringIO) -> None:
    with pytest.raises(GateNotSupportedError):
        await build_gate_handler(nothing)(Gate("asks", {"schema": FORM}, schema=FORM, timeout_seconds=5))


@pytest.mark.parametrize(("line", "agreed"), [("y\n", True), ("\n", False), ("", False)])
async def test_a_page_is_visited_or_not(
    person: io.StringIO, line: str, agreed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    person.write(line)
    person.seek(0)

    answer = await build_gate_handler(nothing)(
        Gate("asks", {"mode": "url", "url": "https://x.example"}, timeout_seconds=5)
    )

    assert answer is agreed
    assert "https://x.example" in capsys.readouterr().err
