"""The size budget of a batch's results, how it is allotted, and the truncation notes. Pure: no clock, no I/O."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from spindle.artifacts.tokens import MACHINE_BYTES_PER_TOKEN, PROSE_BYTES_PER_TOKEN, estimate_from_bytes, is_prose
from spindle.calls import Ok
from spindle.errors import InvalidBudgetError

if TYPE_CHECKING:
    from spindle.execution.call_state import AdmittedCall, CallState
    from spindle.execution.reducers import ReducerRegistry

Unit: TypeAlias = Literal["chars", "tokens"]

DEFAULT_CHARS: Final = 80_000

_CHARS_PER_TOKEN: Final = 3
"""Assumed when a budget in characters is compared with a context window in tokens."""

MAX_SHOWN_ID_CHARS: Final = 120
"""A longer id is shortened in notes; the reader tools list it in full."""

_SAMPLE_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Budget:
    """The size limit of all results of one batch, in characters (default 80,000) or estimated tokens."""

    chars: int | None = None
    tokens: int | None = field(default=None, kw_only=True)
    preview_chars: int | None = field(default=None, kw_only=True)
    """How many characters are shown of a result that does not fit its share and is spooled; `None` for the share."""

    def __post_init__(self) -> None:
        if self.chars is not None and self.tokens is not None:
            raise InvalidBudgetError("Budget takes either chars or tokens, not both.")
        if self.chars is None and self.tokens is None:
            object.__setattr__(self, "chars", DEFAULT_CHARS)
        _check(self.total, self.unit)
        if self.preview_chars is not None:
            _check(self.preview_chars, "preview_chars")

    @property
    def unit(self) -> Unit:
        """The unit of the budget."""
        return "chars" if self.tokens is None else "tokens"

    @property
    def total(self) -> int:
        """The limit for all results of a batch together, in that unit."""
        return (self.chars if self.tokens is None else self.tokens) or 0

    @classmethod
    def for_context(cls, context_tokens: int) -> "Budget":
        """Return the default budget for a model with such a context window: at most a quarter of the window."""
        return cls(max(1, min(DEFAULT_CHARS, context_tokens * _CHARS_PER_TOKEN // 4)))

    def exceeds_context(self, context_tokens: int) -> bool:
        """Return whether results of this size cannot fit into a context window, even without anything else in it."""
        most = context_tokens * _CHARS_PER_TOKEN if self.tokens is None else context_tokens
        return self.total > most

    def with_total(self, total: int) -> "Budget":
        """Return a budget of the same unit and preview with another total.

        Raises:
            InvalidBudgetError: `total` is not a positive integer.
        """
        _check(total, self.unit)
        return replace(self, chars=total) if self.tokens is None else replace(self, tokens=total)

    def with_chars(self, total: int) -> "Budget":
        """Return a budget of `total` characters with the same preview."""
        return Budget(total, preview_chars=self.preview_chars)

    def chars_for(self, size: int) -> int:
        """Return the number of plain characters that always fit into `size`."""
        return size if self.tokens is None else int(size * MACHINE_BYTES_PER_TOKEN)

    def chars_for_each(self, calls: int) -> int:
        """Return the number of plain characters that each of `calls` results is guaranteed."""
        if self.chars is not None:
            return self.chars // (calls or 1)  # as `fair_share` does it, written out because every batch comes here
        return self.chars_for(fair_share(self.total, calls))

    @property
    def max_chars(self) -> int:
        """The largest number of characters that can fit into the whole budget."""
        return self.total if self.tokens is None else int(self.total * PROSE_BYTES_PER_TOKEN)

    def size(self, text: str) -> int:
        """Return the size of `text` in this unit: code points, or estimated tokens."""
        if self.tokens is None:
            return len(text)
        return estimate_from_bytes(_byte_length(text), prose=is_prose(text[:_SAMPLE_CHARS]))

    def cut_preview(self, text: str, size: int) -> str:
        """Return the longest prefix of `text` that takes at most `size` and `preview_chars`."""
        return self.cut(text if self.preview_chars is None else first_chars(text, self.preview_chars), size)

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


def _check(size: object, name: str) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InvalidBudgetError(f"Budget({name}=…) must be a whole number of at least 1, got {size!r}.", field=name)


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


_MARKER_HINT: Final = re.compile(r"\[[\s\x00-\x1f\x7f]*t|[\uff3b\ufe47]|\[[^\x00-\x7f]", re.IGNORECASE)
"""Whether a text may contain a line like those that end a truncated result; a quick test."""


def fits_untruncated(state: "CallState", budget: Budget, share: int) -> bool:
    """Return whether a result fits into its fair share, so that it is not truncated whatever its siblings return."""
    result = state.reduced
    if result is None or state.needs_full_copy or (isinstance(result, Ok) and result.artifact is not None):
        return False
    text, cap = result.value if isinstance(result, Ok) else result.error, state.max_chars
    return (cap is None or len(text) <= cap) and budget.size(text) <= share and not _MARKER_HINT.search(text)


def is_final_result(reducers: "ReducerRegistry | None", budget: Budget, share: int, state: "AdmittedCall") -> bool:
    """Return whether a result cannot change any more, before the results of its siblings are known."""
    is_reduced = reducers is not None and reducers.get(state.call.name) is not None
    return not is_reduced and fits_untruncated(state, budget, share)


def all_fit(states: Sequence["CallState"], budget: Budget) -> bool:
    """Return quickly whether all results fit and none must be spooled, which is the common case."""
    if budget.chars is None:
        return False
    chars, total = 0, budget.chars
    for state in states:
        result, handled, entry = state.reduced, state.handled, state.entry
        if isinstance(result, Ok):
            # What `needs_full_copy` can be true for; it is asked only then, because every result comes here.
            may_need_copy = handled is None or handled.result is not result or handled.full_bytes is not None
            if result.artifact is not None or (
                (may_need_copy or entry is None or entry.tool.artifact_constructor is not None)
                and state.needs_full_copy
            ):
                return False
            text = result.value
        else:
            text = "" if result is None else result.error
        length = len(text)
        cap = None if entry is None else entry.tool.max_result_chars
        if cap is not None and length > cap:
            return False
        chars += length
        if chars > total or _MARKER_HINT.search(text) is not None:
            return False
    return True
