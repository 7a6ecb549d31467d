"""The size budget of a batch's results, how it is allotted, and the truncation notes. Pure: no clock, no I/O."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from spindle.artifacts.tokens import MACHINE_BYTES_PER_TOKEN, PROSE_BYTES_PER_TOKEN, estimate_from_bytes, is_prose
from spindle.errors import InvalidBudgetError

Unit: TypeAlias = Literal["chars", "tokens"]

DEFAULT_CHARS: Final = 80_000

MAX_SHOWN_ID_CHARS: Final = 120
"""A longer id is shortened in notes; the reader tools list it in full."""

_SAMPLE_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Budget:
    """The size limit of all results of one batch, in characters (default 80,000) or estimated tokens."""

    chars: int | None = None
    tokens: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.chars is not None and self.tokens is not None:
            raise InvalidBudgetError("Budget takes either chars or tokens, not both.")
        if self.chars is None and self.tokens is None:
            object.__setattr__(self, "chars", DEFAULT_CHARS)
        _check(self.total, self.unit)

    @property
    def unit(self) -> Unit:
        """The unit of the budget."""
        return "chars" if self.tokens is None else "tokens"

    @property
    def total(self) -> int:
        """The limit for all results of a batch together, in that unit."""
        return (self.chars if self.tokens is None else self.tokens) or 0

    def with_total(self, total: int) -> "Budget":
        """Return a budget of the same unit with another total.

        Raises:
            InvalidBudgetError: `total` is not a positive integer.
        """
        _check(total, self.unit)
        return Budget(total) if self.tokens is None else Budget(tokens=total)

    def chars_for(self, size: int) -> int:
        """Return the number of plain characters that always fit into `size`."""
        return size if self.tokens is None else int(size * MACHINE_BYTES_PER_TOKEN)

    @property
    def max_chars(self) -> int:
        """The largest number of characters that can fit into the whole budget."""
        return self.total if self.tokens is None else int(self.total * PROSE_BYTES_PER_TOKEN)

    def size(self, text: str) -> int:
        """Return the size of `text` in this unit: code points, or estimated tokens."""
        if self.tokens is None:
            return len(text)
        return estimate_from_bytes(_byte_length(text), prose=is_prose(text[:_SAMPLE_CHARS]))

    def cut(self, text: str, size: int) -> str:
        """Return the longest prefix of `text` that takes at most `size`.

        In tokens it may be shorter than possible if the text starts as prose and continues as machine text.
        """
        if self.tokens is None:
            return first_chars(text, size)
        if size <= 0 or self.size(text) <= size:
            return text if size > 0 else ""
        beginning = _first_bytes(text, int(size * PROSE_BYTES_PER_TOKEN))
        if self.size(beginning) <= size:
            return beginning
        return _first_bytes(beginning, int(size * MACHINE_BYTES_PER_TOKEN))


def _check(total: object, unit: Unit) -> None:
    if not isinstance(total, int) or isinstance(total, bool) or total < 1:
        raise InvalidBudgetError(f"Budget({unit}=…) must be a whole number of at least 1, got {total!r}.", field=unit)


def first_chars(text: str, count: int) -> str:
    """Return the first `count` characters, or one fewer to avoid splitting a surrogate pair."""
    if count >= len(text):
        return text
    if count <= 0:
        return ""
    splits_a_pair = "\ud800" <= text[count - 1] <= "\udbff" and "\udc00" <= text[count] <= "\udfff"
    return text[: count - 1 if splits_a_pair else count]


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _first_bytes(text: str, count: int) -> str:
    """Return the longest prefix of at most `count` UTF-8 bytes."""
    data = text[: count + 1].encode("utf-8", "surrogatepass")
    while 0 < count < len(data) and data[count] & 0xC0 == 0x80:
        count -= 1
    return first_chars(text, len(data[:count].decode("utf-8", "surrogatepass")))


def fair_share(total: int, calls: int) -> int:
    """Return the room that each call is guaranteed, before the sizes of the others are known."""
    return total // max(calls, 1)


def allot(total: int, wants: Sequence[int]) -> list[int]:
    """Allot `total`: small wants are met in full, and the rest is split evenly among the large ones.

    Equal wants get equal room, so a remainder that cannot be split evenly stays unused.
    """
    if sum(wants) <= total:
        return list(wants)
    level = _find_max_share(max(total, 0), sorted(wants))
    return [min(want, level) for want in wants]


def _find_max_share(left: int, ascending: list[int]) -> int:
    """Return the largest room any want can get (max-min fairness)."""
    for place, want in enumerate(ascending):
        share = left // (len(ascending) - place)
        if want > share:
            return share
        left -= want
    return left


def truncation_marker(total_chars: int) -> str:
    """Return the line that ends a truncated result."""
    return f"\n[truncated — {total_chars} chars total]"


def spool_note(artifact_id: str, readers: Sequence[str]) -> str:
    """Return the line after the marker: how to read the rest."""
    shown = _quoted(artifact_id)
    if not readers:
        return f"\n[the whole result is kept as artifact {shown}]"
    *others, last = readers
    tools = f"{', '.join(others)} or {last}" if others else last
    return f"\n[the whole result is kept: call {tools} with call_id {shown}]"


def _quoted(name: str) -> str:
    """Return a JSON string without brackets, line breaks or invisible characters."""
    short = name if len(name) <= MAX_SHOWN_ID_CHARS else first_chars(name, MAX_SHOWN_ID_CHARS) + "…"
    return '"' + "".join(map(_escaped, short)) + '"'


def _escaped(char: str) -> str:
    if char in "[]":
        return f"\\u{ord(char):04x}"
    return json.dumps(char, ensure_ascii=not char.isprintable())[1:-1]
