import subprocess
import sys

import pytest

from spindle.artifacts.grep import DIALECT, compile_pattern
from spindle.errors import ArtifactQueryError


@pytest.mark.parametrize(("text", "flags", "is_literal"), [
    ("plain text", "", True),
    ("plain text", "msu", True),
    ("plain text", "i", False),
    ("a.b", "", False),
    ("a\nb", "", False),
    ("\ufffd", "", False),
    ("", "", True),
])  # fmt: skip
def test_plain_text_is_looked_for_as_it_is(text: str, flags: str, is_literal: bool) -> None:
    assert compile_pattern(text, flags).is_literal is is_literal


@pytest.mark.parametrize(("text", "is_line_by_line"), [
    (r"\Aa", True),
    (r"a\z", True),
    (r"\C", True),
    ("(?-m)^a", True),
    ("(?i-s:a)", True),
    ("^a$", False),
    ("(?i)a", False),
])  # fmt: skip
def test_a_pattern_that_speaks_of_the_whole_text_sees_single_lines(text: str, is_line_by_line: bool) -> None:
    assert compile_pattern(text).is_line_by_line is is_line_by_line


def test_a_refusal_shows_the_pattern_as_given_and_names_the_dialect() -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        compile_pattern("(?=a)")

    assert "(?m)" not in caught.value.message
    assert DIALECT in caught.value.message


def test_the_engine_is_loaded_by_the_first_search_only() -> None:
    code = "import sys, spindle.artifacts.spool, spindle.artifacts.backends.memory; print('re2' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_compiled_patterns_are_not_hoarded() -> None:
    import re2

    for n in range(50):
        compile_pattern(f"a{n}+")

    assert re2._Regexp._make.cache_info().currsize == 0  # pyright: ignore - no stubs, and no public count
