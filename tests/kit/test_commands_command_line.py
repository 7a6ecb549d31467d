"""Which lines need a shell."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.kit.commands import find_shell_syntax


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "grep '|' a",
        'grep "a|b" a',
        r"grep a\|b a",
        r"find . -exec rm {} \;",
        "awk '{print $1}' a",
        "grep foo$ a",
        "echo '$HOME'",
        "ls *.py",
        "git commit -m 'a; b && c > d'",
        r'echo "\$HOME"',
        "",
    ],
)
def test_plain_words_need_none(line: str) -> None:
    assert find_shell_syntax(line) is None


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a | b", "|"),
        ("a&&b", "&"),
        ("a; b", ";"),
        ("a > b", ">"),
        ("a < b", "<"),
        ("(a)", "("),
        ("a\nb", "\n"),
        ("a `b`", "`"),
        ('a "`b`"', "`"),
        ("a $(b)", "$("),
        ('a "$B"', "$B"),
        ("a ${B}", "${"),
        ("'a' | 'b'", "|"),
    ],
)
def test_what_a_shell_would_act_on_is_found(line: str, found: str) -> None:
    assert find_shell_syntax(line) == found


@given(st.lists(st.text(min_size=1, max_size=10), min_size=1, max_size=5))
def test_quoted_words_are_always_plain(words: list[str]) -> None:
    assert find_shell_syntax(shlex.join(words)) is None
