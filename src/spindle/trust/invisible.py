"""Characters that nobody sees, and what becomes of them.

What only says where a line may break or how letters join is left out. What can hide text, reverse it or steer a
terminal is shown by its number, `[U+202E]`, so that a reader learns that it was there. Both stay as they are where
writing needs them: in an emoji, between Persian or Indian letters, behind the ideograph of a Japanese name.
"""

import re
from typing import Final

LEFT_OUT: Final = "\u00ad\u034f\u061c\u200b-\u200f\u2060\ufeff"
"""Soft hyphen, joiners, zero-width spaces and direction marks, as the inside of a character class."""

INVISIBLE: Final = (
    LEFT_OUT + r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, without tab, newline and carriage return
    r"\u115f\u1160\u3164\uffa0\u17b4\u17b5"  # fillers: letters without a shape
    r"\u2028-\u202e\u2061-\u206f"  # line separators, direction overrides and isolates, invisible operators
    r"\u180b-\u180f\ufe00-\ufe0f"  # variation selectors; those of plane 14 are below
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # annotations, shorthand and music controls
    r"\U000e0000-\U000e0fff"  # tags, and all else of that plane
    r"\ud800-\udfff\ufdd0-\ufdef"  # halves of a surrogate pair, and what is no character at all
     + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
)
"""Every character that is never drawn, as the inside of a character class."""

_MOST_SHOWN: Final = 4
_EMOJI: Final = (
    "©®‼⁉™\u2139\u2190-\u21ff\u2300-\u23ffⓂ\u25a0-\u27bf\u2934\u2935\u2b00-\u2bff〰〽㊗㊙\U0001f000-\U0001faff"
)
# Arabic to Sinhala, Lao to Myanmar, Khmer to Vedic, Syloti to Meetei, Arabic forms, the older Indian scripts, Adlam.
_JOINED: Final = (
    "\u0600-\u0dff\u0e80-\u109f\u1780-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
_IDEOGRAPHS: Final = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_FLAGS: Final = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f" for region in ("gbeng", "gbsct", "gbwls")
)

_RUN: Final = re.compile(f"[{INVISIBLE}]+")
_NOT_SHOWN: Final = re.compile(f"[{LEFT_OUT}]+")
# A whole run between its two neighbours.
_AT_HOME: Final = re.compile(
    rf"[{_EMOJI}][\ufe0e\ufe0f].?"
    rf"|[{_EMOJI}]\ufe0f?\u200d[{_EMOJI}]"
    r"|[0-9#*]\ufe0f\u20e3"
    rf"|\U0001f3f4(?:{_FLAGS}).?"
    rf"|[{_JOINED}][\u200c\u200d].?"
    rf"|[{_IDEOGRAPHS}][\ufe00-\ufe02\U000e0100-\U000e01ef].?"
    r"|[\u2200-\u2aff\u1000-\u109f]\ufe00.?"
    r"|[\u1800-\u18af][\u180b-\u180f].?"
    r"|[^\u115f\u1160]?[\u115f\u1160]{1,2}[\u1100-\u115e\u1161-\u11ff]",
    re.DOTALL,
)


def reveal(text: str) -> str:
    """Show or leave out every invisible character that is not at home where it stands."""
    return _RUN.sub(_revealed, text)


def _revealed(found: re.Match[str]) -> str:
    run, text = found[0], found.string
    # Where there is no neighbour something must stand, or a part of the run would pass for one.
    before = text[max(found.start() - 1, 0) : found.start()] or "\n"
    after = text[found.end() : found.end() + 1] or "\n"
    if len(run) <= 8 and _AT_HOME.fullmatch(f"{before}{run}{after}"):
        return run
    told = _NOT_SHOWN.sub("", run)
    # A long run is told in short, so that hidden text cannot make a result many times as long.
    more = f"[+{len(told) - _MOST_SHOWN} invisible]" if len(told) > _MOST_SHOWN else ""
    return "".join(f"[U+{ord(each):04X}]" for each in told[:_MOST_SHOWN]) + more
