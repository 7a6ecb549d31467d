"""Text for people and models: shortening, escaping, quoting, suggestions of similar names, JSON pointers, ids."""

import re
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache
from heapq import nlargest
from itertools import accumulate, chain, islice
from os import urandom
from typing import Any, Final, Protocol, TypeGuard

MASK: Final = "***"
"""Stands for a secret in every text."""


class PayloadRedactor(Protocol):
    """The part of a `Redactor` that masks secrets; it returns the same object if there are none."""

    def redact(self, text: str) -> str:
        """Return a text with every secret masked."""
        ...

    def redact_value(self, value: Any) -> Any:
        """Return a JSON value, dataclass, model or exception with every secret masked."""
        ...


REMOVED: Final = "\u00ad\u034f\u061c\u200b-\u200f\u2060\ufeff"
"""Soft hyphen, joiners, zero-width spaces and direction marks, as the body of a regex character class."""

INVISIBLE: Final = (
    REMOVED + r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, without tab, newline and carriage return
    r"\u115f\u1160\u3164\uffa0\u17b4\u17b5"  # fillers: letters without a glyph
    r"\u2028-\u202e\u2061-\u206f"  # line separators, direction overrides and isolates, invisible operators
    r"\u180b-\u180f\ufe00-\ufe0f"  # variation selectors; those of plane 14 are below
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # annotations, shorthand and music controls
    r"\U000e0000-\U000e0fff"  # tags, and the rest of that block
    r"\ud800-\udfff\ufdd0-\ufdef"  # lone surrogates and noncharacters
     + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
)
"""Every character that is never displayed, as the body of a regex character class."""

_MAX_NAME_CHARS = 60
_MAX_PRINTABLE_CHARS = 400
_MAX_COMPARED = 1000
_FEW_NAMES = 100
"""Up to this number, every name is compared."""
_MAX_CANDIDATES = 32
_MAX_VISITED = 10_000


def shorten(text: str, max_chars: int) -> str:
    """Return the text, or its beginning and an ellipsis: at most `max_chars` characters in all."""
    return text if len(text) <= max_chars else f"{text[: max(0, max_chars - 1)]}…"


def shorten_middle(text: str, max_chars: int) -> str:
    """Return the text, or its beginning and its end around an ellipsis: at most `max_chars` characters in all."""
    if len(text) <= max_chars:
        return text
    tail = (max_chars - 1) // 2
    return f"{text[: max_chars - 1 - tail]}…{text[len(text) - tail :]}"


def to_line(text: str) -> str:
    """Return the text on one line, with every run of white space as one space."""
    return " ".join(text.split())


def to_printable(text: str, max_chars: int = _MAX_PRINTABLE_CHARS) -> str:
    """Shorten untrusted text and escape non-printable characters, which could disturb a terminal or a prompt."""
    short = shorten(text, max_chars)
    return short if short.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in short)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def escape_invisible(text: str) -> str:
    """Write every invisible character as a number, also those that a language needs; line breaks and tabs stay."""
    return text if text.isascii() and text.isprintable() else _invisible().sub(lambda found: _escape(found[0]), text)


@cache
def _invisible() -> re.Pattern[str]:
    return re.compile(f"[{INVISIBLE}]")  # on first use: it takes 4 ms


def to_encodable(text: str) -> str:
    """Return text that can be encoded as UTF-8: lone surrogates become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_ESCAPED_PREFIX = "escaped:"


def escape_surrogates(text: str) -> str:
    """Return an id that can be encoded as UTF-8; different ids stay different, `unescape_surrogates` restores them."""
    if text.isascii():
        return text if not text.startswith(_ESCAPED_PREFIX) else _ESCAPED_PREFIX + _escape(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ESCAPED_PREFIX + _escape(text)
    return _ESCAPED_PREFIX + _escape(text) if text.startswith(_ESCAPED_PREFIX) else text


def unescape_surrogates(text: str) -> str:
    """Return the id that `escape_surrogates` escaped."""
    if not text.startswith(_ESCAPED_PREFIX):
        return text
    return text.removeprefix(_ESCAPED_PREFIX).encode("ascii").decode("unicode_escape")


def quote_name(name: str) -> str:
    """Quote an untrusted name, shortened and with non-printable characters escaped."""
    return f"'{to_printable(name, _MAX_NAME_CHARS)}'"


def join_options(options: Iterable[str], *, limit: int = 20) -> str:
    """Format options as `'a', 'b' or 'c'`, at most `limit` of them."""
    names = list(options)
    shown = names[:limit]
    if len(names) > limit:
        return f"{', '.join(shown)} or {len(names) - limit} others"
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def did_you_mean(word: object, options: Iterable[str], otherwise: str = "", *, count: int = 1) -> str:
    """Return a question with up to `count` similar options, or `otherwise` if none is similar."""
    return ask_if_meant(find_similar(word, options, count=count), otherwise)


def ask_if_meant(near: Iterable[str], otherwise: str = "") -> str:
    """Return a question with these options, or `otherwise` if there are none."""
    shown = join_options(map(quote_name, near))
    return f"did you mean {shown}?" if shown else otherwise


def find_similar(word: object, options: Iterable[str], *, count: int = 1) -> list[str]:
    """Return up to `count` options that resemble `word`, the closest first; one that differs only in form is alone."""
    if not _is_comparable(word):
        return []
    return NameIndex(islice(options, _MAX_COMPARED)).find(word, count=count)


class NameIndex:
    """Names to suggest in place of unknown ones; comparing is slow, so only those with shared trigrams are compared."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_form: dict[str, str] = {}
        for name in names:
            if len(name) <= _MAX_NAME_CHARS:
                self._by_form.setdefault(_fold(name), name)
        self._by_trigram: dict[str, list[str]] = {}
        if len(self._by_form) > _FEW_NAMES:
            for form in self._by_form:
                for trigram in _get_trigrams(form):
                    self._by_trigram.setdefault(trigram, []).append(form)

    def find(self, word: object, *, count: int = 1) -> list[str]:
        """Return up to `count` names that resemble `word`, the closest first, as `find_similar` does."""
        if not _is_comparable(word):
            return []
        wanted = _fold(word)
        if wanted in self._by_form:
            return [self._by_form[wanted]]
        from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it, and it is slow to import

        candidates = self._find_candidates(wanted) if self._by_trigram else self._by_form
        return [self._by_form[form] for form in get_close_matches(wanted, candidates, n=count)]

    def _find_candidates(self, wanted: str) -> list[str]:
        """Return the forms that share most of their trigrams with `wanted`."""
        holders = sorted((self._by_trigram.get(trigram, []) for trigram in _get_trigrams(wanted)), key=len)
        # Rare trigrams distinguish names best; those that thousands of names share hardly do.
        visited = accumulate(map(len, holders))
        few = [held for held, total in zip(holders, visited, strict=True) if total <= _MAX_VISITED]
        shared = Counter(chain.from_iterable(few or holders[:1]))
        return nlargest(_MAX_CANDIDATES, shared, key=lambda form: shared[form] / (len(form) + len(wanted)))


def _is_comparable(word: object) -> TypeGuard[str]:
    return isinstance(word, str) and 0 < len(word) <= _MAX_NAME_CHARS


def _get_trigrams(form: str) -> set[str]:
    """Return all parts of three characters; with the padding, each character at the edges is in a part of its own."""
    padded = f"  {form}  "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}


def _fold(word: str) -> str:
    """Normalize a name so that `orderId`, `order-id` and `Order ID` are equal."""
    return word.casefold().replace("_", "").replace("-", "").replace(" ", "") or word


def extend_pointer(path: str, *steps: str | int) -> str:
    """Extend a JSON pointer."""
    for step in steps:
        text = str(step)
        if "~" in text or "/" in text:
            text = text.replace("~", "~0").replace("/", "~1")
        path = f"{path}/{text}"
    return path


def new_token() -> str:
    """Return 32 random hexadecimal digits; in a third of the time of `secrets.token_hex`."""
    return urandom(16).hex()


def new_id() -> str:
    """Return a version 7 UUID; they sort by creation time."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 4096 // 1_000_000  # the 12 bits after the version hold sub-millisecond time
    noise = int.from_bytes(urandom(8), "big") >> 2
    digits = f"{milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | noise:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
