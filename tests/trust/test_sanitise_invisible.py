"""Every character that is never drawn is known, and each is kept only where writing needs it."""

import re
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spindle.trust.sanitise import INVISIBLE, reveal_invisible

DRAWN_FORMATS = re.compile("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f]")
"""Signs that Unicode calls formats and that are drawn, or arrange hieroglyphs."""

MIXED = st.text(
    alphabet=st.sampled_from(
        "\u200b\u200c\u200d\ufe0e\ufe0f\u202e\U000e0067\U000e007f\U000e0100\u1160\u180b👩🏽❤1\u20e3🏴ی神aᠠ∩\n"
    )
)


@pytest.mark.slow
def test_every_control_and_format_that_is_not_drawn_is_known() -> None:
    known = re.compile(f"[{INVISIBLE}]")
    missed = [
        hex(point)
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and not known.match(chr(point))
        and not DRAWN_FORMATS.match(chr(point))
    ]

    assert missed == ["0x9", "0xa", "0xd"]


@pytest.mark.slow
def test_nothing_that_is_drawn_is_taken_for_invisible() -> None:
    known = re.compile(f"[{INVISIBLE}]")
    drawn = {
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Nd",
        "Nl",
        "No",
        "Pc",
        "Pd",
        "Pe",
        "Pf",
        "Pi",
        "Po",
        "Ps",
        "Sc",
        "Sk",
        "Sm",
        "So",
        "Zs",
        "Co",
    }

    wrong = [hex(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) in drawn and known.match(chr(n))]

    assert not wrong


@given(MIXED)
def test_revealing_twice_reveals_nothing_more(text: str) -> None:
    once = reveal_invisible(text)

    assert reveal_invisible(once) == once


@given(MIXED)
@example("\u180b\u200c\u1160")
def test_kept_invisible_characters_are_never_consecutive(text: str) -> None:
    flags = re.compile("🏴[\U000e0061-\U000e007a]{5}\U000e007f")

    assert not re.search(f"[{INVISIBLE}]{{3}}", flags.sub("", reveal_invisible(text)))


def test_fillers_are_at_home_before_a_letter_they_carry_and_nowhere_else() -> None:
    assert reveal_invisible("\u115f\u1160\u11a8") == "\u115f\u1160\u11a8"
    assert "\u1160" not in reveal_invisible("\u1160" * 3)


def test_a_joiner_stays_between_letters_that_join_and_goes_elsewhere() -> None:
    assert reveal_invisible("می\u200cخواهم") == "می\u200cخواهم"
    assert reveal_invisible("می\u200c\u200cخواهم") == "میخواهم"
    assert reveal_invisible("pass\u200cword") == "password"


def test_only_the_three_flags_of_regions_keep_their_tags() -> None:
    flag, other = (
        "".join(map(chr, (0xE0067, 0xE0062, 0xE0065, 0xE006E, 0xE0067))),
        "".join(map(chr, (0xE0068, 0xE0069))),
    )

    assert reveal_invisible(f"🏴{flag}\U000e007f") == f"🏴{flag}\U000e007f"
    assert reveal_invisible(f"🏴{other}\U000e007f") == "🏴[U+E0068][U+E0069][U+E007F]"
