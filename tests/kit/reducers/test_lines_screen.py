from collections.abc import Callable
from typing import Any

from spindle.kit.reducers.lines import split_lines, split_shown_lines


def test_colours_and_overwritten_progress_are_not_shown(shell: Callable[..., Any]) -> None:
    text = shell(r"printf '\e[31mred\e[0m\n10%%\r50%%\r100%%\nplain\r\n\e]0;title\aend\n'").text

    assert split_shown_lines(text) == ["red", "100%", "plain", "end"]


def test_a_last_terminator_begins_no_line() -> None:
    assert split_lines("a\n\nb\n") == ["a", "", "b"]
    assert split_lines("a\n\n") == ["a", ""]
    assert split_lines("") == []
