"""One spelling of texts, blocks of them, and the boundaries at which a value in a text begins and ends.

A value stands alone in a text if nothing joins it to what is around it: `x.com` does not stand alone in `bob@x.com`,
and `26` not in `$26.50`. What cannot be seen joins too.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from spindle.text import INVISIBLE

OVERLAP_CHARS: Final = 500
MAX_VALUE_CHARS: Final = OVERLAP_CHARS // 2
"""A longer value is found nowhere as a whole."""
_BLOCK_CHARS: Final = 8_000
_CHUNK_CHARS: Final = 16_000
WORD: Final = re.compile(r"\w+")
HIDDEN: Final = re.compile(f"[{INVISIBLE}]")
_SPACE: Final = re.compile(r"\s")
_APOSTROPHES: Final = frozenset("'\u2019")
_JOINERS: Final = frozenset("@.-_/:+%#&=~?$*\\|^") | _APOSTROPHES
"""Characters that make one token of what stands on both sides of them."""
_CLOSERS: Final = frozenset(".:?!*_") | _APOSTROPHES
"""Joiners that end a sentence or a quotation if nothing follows them."""
_MAX_CLOSERS: Final = 4
_SCHEMES: Final = ("https://", "http://")


def normalize(text: str) -> str:
    """Return a text with composed characters and single spaces."""
    plain = text if text.isascii() else unicodedata.normalize("NFC", text)
    return " ".join(plain.split())


def fold(text: str) -> str:
    """Return a text in small letters, as long as it was.

    `casefold` would also make `ss` of `ß` and `fi` of its ligature, which look like them and are other names.
    """
    if text.isascii():
        return text.lower()
    folded = text.lower()
    if len(folded) != len(text):
        folded = "".join(small if len(small := each.lower()) == 1 else each for each in text)
    return folded.replace("\u03c2", "\u03c3")  # which of the two small sigmas it is depends on the place in a word


def split_into_blocks(text: str) -> Iterator[str]:
    """Iterate over overlapping blocks of a text in its one spelling, cut between tokens.

    A cut inside a token is marked by an underscore, so that half a token does not count as one.
    """
    start, carried = 0, ""
    while start < len(text):
        end, is_inside = start + _CHUNK_CHARS, False
        if end < len(text):
            space = _SPACE.search(text, end, end + OVERLAP_CHARS)
            end, is_inside = (end, True) if space is None else (space.start(), False)
        plain = carried + normalize(text[start:end])
        yield from _cut(plain + "_" if is_inside else plain)
        tail = _mark_start(plain, max(0, len(plain) - OVERLAP_CHARS), len(plain))
        start, carried = end, tail if is_inside else f"{tail} "


def _cut(text: str) -> Iterator[str]:
    start = 0
    while start + _BLOCK_CHARS < len(text):
        end = start + _BLOCK_CHARS
        space = text.find(" ", end, end + OVERLAP_CHARS)
        cut = end if space < 0 else space
        yield _mark_start(text, start, cut) + ("_" if space < 0 else "")
        start = cut - OVERLAP_CHARS
    if text.strip():
        yield _mark_start(text, start, len(text))


def _mark_start(text: str, start: int, end: int) -> str:
    if not start:
        return text[:end]
    space = text.find(" ", start, start + OVERLAP_CHARS // 2)
    return "_" + text[start:end] if space < 0 else text[space + 1 : end]


def is_alone(text: str, start: int, end: int) -> bool:
    """Return whether nothing joins a part of a text to what is around it."""
    return _is_open_before(text, start) and _is_open_after(text, end)


def get_scheme_before(text: str, start: int) -> str:
    """Return the scheme of a web address that ends where a value starts, or nothing."""
    for scheme in _SCHEMES:
        begin = start - len(scheme)
        if begin >= 0 and text[begin:start].lower() == scheme:
            return scheme if begin == 0 or not _is_joining(text[begin - 1]) else ""
    return ""


def _is_open_before(text: str, start: int) -> bool:
    if start == 0:
        return True
    before = text[start - 1]
    if _is_wordlike(before):
        return False
    if before == "/" and get_scheme_before(text, start):
        return True
    if before == "," and start > 1 and text[start - 2].isdigit() and text[start].isdigit():
        return False
    # A joiner joins only what it stands between: in "to: -x" and "'x'" there is nothing before it.
    return start == 1 or not _is_joiner(before) or not _is_joining(text[start - 2])


def _is_open_after(text: str, end: int) -> bool:
    if end >= len(text):
        return True
    after = text[end]
    if _is_wordlike(after):
        return False
    following = text[end + 1] if end + 1 < len(text) else " "
    if after == "," and text[end - 1].isdigit() and following.isdigit():
        return False
    if after == "/":
        return following == " " or following in "\"'),;"
    if after in _APOSTROPHES and following in "sS":  # "Bob's calendar"
        return end + 2 >= len(text) or not _is_joining(text[end + 2])
    if not _is_joiner(after):
        return True
    if after not in _CLOSERS:
        return False
    # Several marks may close a sentence that ends with a quotation: 'bob@x.com'.
    for character in text[end + 1 : end + 1 + _MAX_CLOSERS]:
        if character not in _CLOSERS:
            return not _is_joining(character)
    return end + 1 + _MAX_CLOSERS >= len(text)


def _is_joining(character: str) -> bool:
    return _is_wordlike(character) or _is_joiner(character)


def _is_wordlike(character: str) -> bool:
    return character.isalnum() or character == "_" or (character > "\x7f" and _get_category(character)[0] in "MC")


def _is_joiner(character: str) -> bool:
    if character <= "\x7f":
        return character in _JOINERS
    return character in _APOSTROPHES or _is_foreign_joiner(character)


@lru_cache(maxsize=1_000)
def _get_category(character: str) -> str:
    return unicodedata.category(character)


@lru_cache(maxsize=1_000)
def _is_foreign_joiner(character: str) -> bool:
    """Return whether a character of another script stands for a joiner, or is a dash."""
    return _get_category(character) in ("Pc", "Pd") or any(
        each in _JOINERS for each in unicodedata.normalize("NFKC", character)
    )
