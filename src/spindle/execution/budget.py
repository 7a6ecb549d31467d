"""How much of its results a batch may show, and how that room is shared out. No clock, no I/O."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from spindle.artifacts.tokens import MACHINE_BYTES_PER_TOKEN, PROSE_BYTES_PER_TOKEN, estimate, is_prose
from spindle.errors import InvalidBudgetError

Unit: TypeAlias = Literal["chars", "tokens"]

DEFAULT_CHARS: Final = 80_000

MAX_SHOWN_ID_CHARS: Final = 120
"""A longer id is shown in part; the reader tools list it whole."""

_SAMPLE_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Budget:
    """The room of one batch's results: so many characters (80,000 unless said), or so many estimated tokens."""

    chars: int | None = None
    tokens: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.chars is not None and self.tokens is not None:
            raise InvalidBudgetError("A budget has one unit: give Budget(chars=…) or Budget(tokens=…), not both.")
        if self.chars is None and self.tokens is None:
            object.__setattr__(self, "chars", DEFAULT_CHARS)
        _check(self.total, self.unit)

    @property
    def unit(self) -> Unit:
        """What is counted."""
        return "chars" if self.tokens is None else "tokens"

    @property
    def total(self) -> int:
        """How many of them all results of a batch may have together."""
        return (self.chars if self.tokens is None else self.tokens) or 0

    def with_total(self, total: int) -> "Budget":
        """The same unit with another total.

        Raises:
            InvalidBudgetError: It is no positive whole number.
        """
        _check(total, self.unit)
        return Budget(total) if self.tokens is None else Budget(tokens=total)

    def chars_for(self, size: int) -> int:
        """So many plain characters surely fit into `size`."""
        return size if self.tokens is None else int(size * MACHINE_BYTES_PER_TOKEN)

    @property
    def most_chars(self) -> int:
        """No text with more characters fits into the whole budget."""
        return self.total if self.tokens is None else int(self.total * PROSE_BYTES_PER_TOKEN)

    def size(self, text: str) -> int:
        """What `text` takes of this budget: its code points, or an estimate of its tokens."""
        if self.tokens is None:
            return len(text)
        return estimate(_byte_length(text), prose=is_prose(text[:_SAMPLE_CHARS]))

    def cut(self, text: str, size: int) -> str:
        """The longest beginning of `text` that takes at most `size`.

        In tokens it may be a little shorter: where the first words read as prose and the next as machine text.
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
        raise InvalidBudgetError(
            f"A budget is a whole number of {unit}, at least 1, and not {total!r}; say Budget({unit}=…).", field=unit
        )


def first_chars(text: str, count: int) -> str:
    """The first `count` characters; one fewer where a surrogate pair would be split."""
    if count >= len(text):
        return text
    if count <= 0:
        return ""
    splits_a_pair = "\ud800" <= text[count - 1] <= "\udbff" and "\udc00" <= text[count] <= "\udfff"
    return text[: count - 1 if splits_a_pair else count]


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _first_bytes(text: str, count: int) -> str:
    """The first characters that have at most `count` bytes together."""
    data = text[: count + 1].encode("utf-8", "surrogatepass")
    while 0 < count < len(data) and data[count] & 0xC0 == 0x80:
        count -= 1
    return first_chars(text, len(data[:count].decode("utf-8", "surrogatepass")))


def fair_share(total: int, calls: int) -> int:
    """What each of so many calls may count on before anyone knows what the others need."""
    return total // max(calls, 1)


def allot(total: int, wants: Sequence[int]) -> list[int]:
    """Share `total` out: small wants are met, and what they leave is split evenly among the large ones.

    Equal wants get equal room, so a remainder that cannot be split evenly stays unused.
    """
    if sum(wants) <= total:
        return list(wants)
    level = _level(max(total, 0), sorted(wants))
    return [min(want, level) for want in wants]


def _level(left: int, ascending: list[int]) -> int:
    """The most that anyone can get when nobody who wants more than another gets less."""
    for place, want in enumerate(ascending):
        share = left // (len(ascending) - place)
        if want > share:
            return share
        left -= want
    return left


def truncation_marker(total_chars: int) -> str:
    """The line that ends a result which is shown in part."""
    return f"\n[truncated — {total_chars} chars total]"


def kept_line(artifact_id: str, readers: Sequence[str]) -> str:
    """The line after the marker: how to read the rest."""
    shown = _quoted(artifact_id)
    if not readers:
        return f"\n[the whole result is kept as artifact {shown}]"
    *others, last = readers
    tools = f"{', '.join(others)} or {last}" if others else last
    return f"\n[the whole result is kept: call {tools} with call_id {shown}]"


def _quoted(name: str) -> str:
    """A JSON string without anything that could end the line or its bracket, or hide from a reader."""
    short = name if len(name) <= MAX_SHOWN_ID_CHARS else first_chars(name, MAX_SHOWN_ID_CHARS) + "…"
    return '"' + "".join(map(_escaped, short)) + '"'


def _escaped(char: str) -> str:
    if char in "[]":
        return f"\\u{ord(char):04x}"
    return json.dumps(char, ensure_ascii=not char.isprintable())[1:-1]
