"""Results that are too large for a ledger: values of a call are looked up where the whole result is kept."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from anyio import move_on_after

from spindle.json_types import JsonValue
from spindle.trust.flow.identifiers import find_amounts, find_identifiers, find_phrases
from spindle.trust.flow.roles import Content, Free, ToolFlow, to_text
from spindle.trust.flow.tokens import MAX_VALUE_CHARS, fold, normalize

PHRASE_WORDS: Final = 5
"""How many words in a row are looked for in private content."""
MAX_REFERENCES: Final = 16
_MAX_VALUES: Final = 64
"""Of one search; a value beyond was not looked up."""
_MAX_RECALLED: Final = 20_000
_MAX_SECONDS: Final = 3.0
_MAX_LINES: Final = 200
_MAX_LINES_OF_VALUE: Final = 20
_MIN_CHARS: Final = 2
_AROUND_CHARS: Final = 100

SourceT = TypeVar("SourceT")


class FoundLine(Protocol):
    """A line with a match, or the part of it around the match."""

    @property
    def text(self) -> str:
        """The text."""
        ...


class Reference(Protocol):
    """Searches a whole result; an artifact does."""

    async def grep(self, pattern: str, flags: str = "", *, limit: int | None = None) -> Sequence[FoundLine]:
        """Return the lines that match a regular expression, at most `limit`."""
        ...


class CallToRecall(Protocol):
    """A call whose values are looked up."""

    @property
    def flow(self) -> ToolFlow:
        """What a policy knows about its tool."""
        ...

    @property
    def args(self) -> Mapping[str, JsonValue]:
        """Its arguments."""
        ...


class LargeResults(Generic[SourceT]):
    """The results of a session that are too large for its ledger."""

    def __init__(self) -> None:
        self._kept: dict[SourceT, Reference] = {}
        self._recalled: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def sources(self) -> Iterable[SourceT]:
        """The sources of the results."""
        return tuple(self._kept)

    def add(self, source: SourceT, reference: Reference) -> set[SourceT]:
        """Add a result, and return the sources of those that are dropped for it."""
        self._kept[source] = reference
        self._recalled.clear()
        dropped: set[SourceT] = set()
        while len(self._kept) > MAX_REFERENCES:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            dropped.add(oldest)
        return dropped

    def has_recalled(self, value: str) -> bool:
        """Return whether a value was looked up in every result."""
        return not self._kept or _to_key(value) in self._recalled

    async def find_lines(self, calls: Iterable[CallToRecall]) -> list[tuple[SourceT, str]]:
        """Return where the values of calls stand in the results, with the text around them."""
        wanted = dict.fromkeys(value for call in calls for value in collect_values(call.flow, call.args))
        values = [value for value in islice(wanted, _MAX_VALUES) if _to_key(value) not in self._recalled]
        found: list[tuple[SourceT, str]] = []
        if not values:
            return found
        kept = dict(self._kept)
        with move_on_after(_MAX_SECONDS):
            searched = set(values)
            for source, reference in kept.items():
                lines = await _search(reference, values)
                found.extend((source, line) for line in lines.texts)
                searched &= lines.values
            if len(self._recalled) < _MAX_RECALLED and kept.keys() == self._kept.keys():
                self._recalled.update(map(_to_key, searched))
        return found


class _Lines:
    """The texts around values that were found, and the values that were looked for until the end."""

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}
        self.values: set[str] = set()

    def take(self, lines: Sequence[FoundLine], values: Iterable[str]) -> None:
        for line in lines:
            plain = normalize(line.text)
            folded = fold(plain)
            for value in values:
                self.texts.update(dict.fromkeys(_cut_around(plain, folded, _to_key(value))))


async def _search(reference: Reference, values: Sequence[str]) -> _Lines:
    found = _Lines()
    try:
        lines = await reference.grep("|".join(map(_to_pattern, values)), "i", limit=_MAX_LINES)
        found.take(lines, values)
        if len(lines) < _MAX_LINES:
            found.values.update(values)
            return found
        for value in values:  # a frequent one may have hidden the others
            found.take(await reference.grep(_to_pattern(value), "i", limit=_MAX_LINES_OF_VALUE), [value])
            found.values.add(value)
    except Exception:  # noqa: BLE001  the values count as not looked up, whatever went wrong with the store
        found.values.clear()
    return found


def collect_values(tool: ToolFlow, args: Mapping[str, JsonValue]) -> Iterator[str]:
    """Iterate over the values of a call that decide whether a person is asked."""
    for leaf in tool.get_leaves(args):
        role, text = tool.get_role(leaf), to_text(leaf.value)
        if isinstance(role, Free):
            continue
        if _MIN_CHARS <= len(text) <= MAX_VALUE_CHARS:
            yield text
        if isinstance(role, Content):
            kept = text[: _MAX_VALUES * MAX_VALUE_CHARS]
            yield from (*find_identifiers(kept), *find_amounts(kept), *find_phrases(kept, PHRASE_WORDS))


def _to_pattern(value: str) -> str:
    return r"\s+".join(map(re.escape, value.split()))


def _to_key(value: str) -> str:
    return fold(normalize(value))


def _cut_around(plain: str, folded: str, value: str) -> Iterator[str]:
    """Iterate over the places of a value in a line; an underscore marks an edge inside a token."""
    start = folded.find(value)
    for _ in range(_MAX_LINES_OF_VALUE):
        if start < 0:
            return
        first, last = max(0, start - _AROUND_CHARS), start + len(value) + _AROUND_CHARS
        yield f"{'_' if first else ''}{plain[first:last]}{'_' if last < len(plain) else ''}"
        start = folded.find(value, start + len(value))
