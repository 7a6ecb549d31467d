"""Finding in a text what a reader would find who first folds its look-alikes together (Unicode's NFKC).

A token in full-width or mathematical letters is the plain token to whoever normalises first. So patterns are searched
in the folded text, and what is found is changed in the text itself, which otherwise stays as it was written.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

BREAK: Final = "※"
"""Put into a token to break it: no token holds it, nothing looks like it, and no normalisation takes it away."""


def broken_behind(first: str) -> str:
    """Break a token behind its first character."""
    return first + BREAK


def broken_before(first: str) -> str:
    """Break a token before its first character, from what makes it one."""
    return BREAK + first


def rewrite(text: str, pattern: re.Pattern[str], put: Callable[[str], str]) -> str:
    """Put `put(character)` in the place of each character at which `pattern`'s group 1 begins in the folded text."""
    folds = _folds(text)
    folded = text.translate({ord(character): fold for character, fold in folds.items()}) if folds else text
    places = (found.start(1) for found in pattern.finditer(folded))
    first = next(places, None)
    if first is None:
        return text
    pieces: list[str] = []
    done = 0
    for place in _origins(text, folds, _chained(first, places)):
        if place >= done:  # one character may fold to several, and be found several times
            pieces += (text[done:place], put(text[place]))
            done = place + 1
    return "".join([*pieces, text[done:]])


def _folds(text: str) -> dict[str, str]:
    """Give the characters of the text that ASCII hides in, each with what it folds to.

    Folding each character for itself is enough: composition never leaves a bare ASCII character that was not one.
    """
    if text.isascii():
        return {}
    folds = {each: unicodedata.normalize("NFKC", each) for each in set(text) if not each.isascii()}
    return {each: fold for each, fold in folds.items() if any(part.isascii() for part in fold)}


def _chained(first: int, others: Iterator[int]) -> Iterator[int]:
    yield first
    yield from others


def _origins(text: str, folds: dict[str, str], places: Iterator[int]) -> Iterator[int]:
    """Turn places of the folded text, which ascend, into places of the text itself."""
    grown = "".join(map(re.escape, (each for each, fold in folds.items() if len(fold) > 1)))
    growths = re.finditer(f"[{grown}]", text) if grown else iter(())
    shift = 0  # how much longer the folded text is, up to and with the growths that were passed
    growth = next(growths, None)
    for place in places:
        while growth is not None and growth.start() + shift + len(folds[growth[0]]) <= place:
            shift += len(folds[growth[0]]) - 1
            growth = next(growths, None)
        is_inside = growth is not None and growth.start() + shift <= place
        yield growth.start() if growth is not None and is_inside else place - shift
