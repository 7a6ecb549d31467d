from io import StringIO

import pytest
from rich.console import Console

from spindle.calls import Call, Err, Ok
from spindle.cli.demo_calls import Answer, Case
from spindle.cli.demo_table import show
from spindle.errors import ToolAlreadyRegisteredError

REFUSAL = "The arguments were refused:\n- a: expected text, received [bold]null[/bold]\nCorrect this."


def answer(title: str, result: Ok | Err, *, ran: bool) -> Answer:
    return Answer(case=Case(title=title, call=Call("c1", "t", '{"a": "[red]"}')), ran=ran, result=result)


def printed(*answers: Answer, width: int = 120, clash: ToolAlreadyRegisteredError | None = None) -> str:
    out = StringIO()
    console = Console(file=out, width=width, color_system=None)
    show(answers, clash=clash, refunded_cents=7, console=console)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_a_row_says_whether_the_tool_ran_and_what_came_of_it(width: int) -> None:
    text = printed(
        answer("first", Ok("fine"), ran=True),
        answer("second", Err("execution_failed", "broke"), ran=True),
        answer("third", Err("input_invalid", REFUSAL), ran=False),
        width=width,
    )

    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert rows["first"][1:4] == ["ran", "ok", "fine"]
    assert rows["second"][1:4] == ["ran,", "raised", "execution_failed"]
    assert rows["third"][1:5] == ["did", "not", "run", "input_invalid"]
    assert "7 cents" in text


def test_a_refusal_is_shown_once_in_full() -> None:
    text = printed(answer("third", Err("input_invalid", REFUSAL), ran=False))

    assert text.count("Correct this.") == 1


def test_markup_in_what_a_tool_or_a_model_says_is_shown_as_it_is() -> None:
    text = printed(answer("third", Err("input_invalid", REFUSAL), ran=False))

    assert "[red]" in text
    assert "[bold]null[/bold]" in text


def test_a_clash_is_a_row_of_its_own() -> None:
    text = printed(answer("first", Ok("fine"), ran=True), clash=ToolAlreadyRegisteredError("two of them", tool="t"))

    assert "name clash" in text
    assert "two of them" in text
