"""Values that calls have passed on without being trusted, and that a later trusted result may be an echo of.

A note that is written with foreign words and read back by a trusted tool has not become trusted. Only letters and
digits are compared, also across calls, so neither spelling nor splitting a value hides it.
"""

import re
import unicodedata
from bisect import bisect_left
from typing import Final

from spindle.json_types import JsonObject, JsonValue, is_array, is_object

MAX_CHARS: Final = 1_000_000
"""Of all passed values; if there are more, later trusted results vouch for nothing."""
_MIN_PART_CHARS: Final = 4
"""A shorter value is compared with whole words: it is a part of too many others."""
_OTHERS: Final = re.compile(r"[\W_]+")
_WORDS: Final = re.compile(r"[^\W_]+")


class Echoes:
    """The values that were passed on, in the order of the session."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._ends: list[int] = []
        self._orders: list[int] = []
        self._words: dict[str, int] = {}
        self._joined: str | None = ""
        self._is_full_since: int | None = None

    def __bool__(self) -> bool:
        return bool(self._orders) or self._is_full_since is not None

    def add(self, text: str, order: int) -> None:
        """Add a value that was passed on at a place of the session."""
        if self._is_full_since is not None:
            return
        plain = _to_plain(text)
        piece = _OTHERS.sub("", plain)
        end = (self._ends[-1] if self._ends else 0) + len(piece)
        if end > MAX_CHARS:
            self._is_full_since = order
            return
        if not piece:
            return
        self._pieces.append(piece)
        self._ends.append(end)
        self._orders.append(order)
        self._joined = None
        for word in _WORDS.findall(plain):
            self._words.setdefault(word, order)

    def has(self, value: str, order: int) -> bool:
        """Return whether a value in a result at a place of the session may have been passed on before."""
        if self._is_full_since is not None and self._is_full_since <= order:
            return True
        if not self._orders or self._orders[0] > order:
            return False
        plain = _to_plain(value)
        piece = _OTHERS.sub("", plain)
        if len(piece) < _MIN_PART_CHARS:
            words = _WORDS.findall(plain)
            return all(self._words.get(word, order + 1) <= order for word in words)
        joined = self._joined
        if joined is None:
            self._joined = joined = "".join(self._pieces)
        start = joined.find(piece)
        return start >= 0 and self._orders[bisect_left(self._ends, start + len(piece))] <= order

    def has_word(self, word: str) -> bool:
        """Return whether a word was passed on."""
        return self._is_full_since is not None or any(each in self._words for each in _WORDS.findall(_to_plain(word)))

    def save(self) -> JsonObject:
        """Return the values as JSON."""
        return {"pieces": list(self._pieces), "words": list(self._words), "is_full": self._is_full_since is not None}

    def restore(self, saved: JsonValue) -> None:
        """Add the values of another process, which come before everything here."""
        pieces, words = (saved.get("pieces"), saved.get("words")) if is_object(saved) else (None, None)
        if not is_array(pieces) or not is_array(words) or saved.get("is_full") is not False:
            self._is_full_since = 0
            return
        for text in (*pieces, " ".join(map(str, words))):
            self.add(str(text), 0)
        order = sorted(range(len(self._orders)), key=self._orders.__getitem__)
        self._pieces = [self._pieces[each] for each in order]
        self._orders = [self._orders[each] for each in order]
        self._words.update(dict.fromkeys(map(str, words), 0))
        total = 0
        for number, piece in enumerate(self._pieces):
            total += len(piece)
            self._ends[number] = total
        self._joined = None


def _to_plain(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
