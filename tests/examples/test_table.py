from io import StringIO

import pytest
from rich.console import Console

from examples.hostile_calls.demonstration import SIBLING, DemoAnswer, DemoCall, Demonstration
from examples.hostile_calls.table import show
from spindle import Call, CallOutcome, Err, Ok
from spindle.errors import ToolAlreadyRegisteredError

REFUSAL = "The arguments were refused:\n- a: expected text, received [bold]null[/bold]\nCorrect this."


def answer(title: str, result: Ok | Err, *, ran: bool) -> DemoAnswer:
    outcome = CallOutcome("c1", "t", "sum", result, duration_ms=1.5)
    return DemoAnswer(asked=DemoCall(title=title, call=Call("c1", "t", '{"a": "[red]"}')), ran=ran, outcome=outcome)


def printed(
    *answers: DemoAnswer,
    width: int = 120,
    clash: ToolAlreadyRegisteredError | None = None,
    read_back: tuple[DemoAnswer, ...] = (),
    entered: tuple[str, ...] = (),
) -> str:
    out = StringIO()
    demo = Demonstration(answers=answers, clash=clash, read_back=read_back, entered=entered)
    show(demo, console=Console(file=out, width=width, color_system=None))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_a_row_says_what_ran_what_the_model_saw_and_how_long_it_took(width: int) -> None:
    text = printed(
        answer("first", Ok("fine"), ran=True),
        answer("second", Err("execution_failed", "broke"), ran=True),
        answer("third", Err("input_invalid", REFUSAL), ran=False),
        answer("fourth", Err("timed_out", "late"), ran=True),
        width=width,
    )

    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert rows["first"][1:] == ["ran", "fine", "1.5", "ms"]
    assert rows["second"][1:] == ["ran,", "raised", "broke", "1.5", "ms"]
    assert rows["third"][1:4] == ["did", "not", "run"]
    assert rows["fourth"][1:] == ["ran,", "left", "behind", "late", "1.5", "ms"]
    for code in ("ok", "execution_failed", "input_invalid", "timed_out"):
        assert code in text


def test_a_refusal_is_shown_once_in_full() -> None:
    text = printed(answer("third", Err("input_invalid", REFUSAL), ran=False))

    assert text.count("Correct this.") == 1


def test_of_a_long_result_the_beginning_the_size_and_the_last_lines_are_shown() -> None:
    text = printed(answer("long", Ok("begin " + "x" * 9_000 + "\n[cut]\n[kept]"), ran=True))

    assert "begin" in text
    assert "9,019 characters" in text
    assert "[kept]" in text


def test_good_siblings_share_a_row_that_says_how_many_are_well() -> None:
    lost = Err("cancelled", "gone")
    text = printed(answer(SIBLING, Ok("3 words"), ran=True), answer(SIBLING, lost, ran=True))

    assert "2 good siblings" in text
    assert "1 ok" in text


def test_markup_in_what_a_tool_or_a_model_says_is_shown_as_it_is() -> None:
    reading = answer("artifact_head", Ok("[blue]"), ran=True)
    text = printed(answer("third", Err("input_invalid", REFUSAL), ran=False), read_back=(reading,))

    for words in ("[red]", "[bold]null[/bold]", "[blue]"):
        assert words in text


def test_side_effects_are_reported_by_the_tools() -> None:
    text = printed(
        answer("first", Ok(""), ran=True), entered=("count_words('a')", "delete_files('[red]', dry_run=False)")
    )

    assert "delete_files('[red]', dry_run=False)" in text
    assert "count_words('a')" not in text


def test_a_clash_is_a_row_of_its_own() -> None:
    text = printed(answer("first", Ok("fine"), ran=True), clash=ToolAlreadyRegisteredError("two of them", tool="t"))

    assert "name clash" in text
    assert "two of them" in text
