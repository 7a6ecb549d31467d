"""Large JSON documents, read in windows: the members of a container that fills a window are parsed as they are used.

A small value is a plain Python value. A container of more than half a window is a `LargeArray` or a `LargeObject`, so
memory holds one window and what a caller keeps, whatever the size of the document.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final, NoReturn, Self, TypeAlias

import jiter

from spindle.errors import ArtifactQueryError, InvalidArtifactError
from spindle.json_types import JsonValue, is_array, is_object

ReadBytes: TypeAlias = Callable[[int, int], bytes]
"""Returns the bytes from a start to an end; may block."""

WINDOW_BYTES: Final = 1 << 20
MAX_TEXT_BYTES: Final = 64 << 20
"""A longer text or number inside of a document is rejected."""
MAX_DEPTH: Final = 200
# More live values would make the garbage collector work.
_RUN_VALUES, _RUN_CHARS = 64, 1 << 15
_CUT_TRIES = 64
_BOM = b"\xef\xbb\xbf"

_SPACE = re.compile(r"[ \t\n\r]*")
_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_Scan: TypeAlias = Callable[[str, int], tuple[JsonValue, int]]
_scan: _Scan = getattr(json.JSONDecoder(parse_constant=_reject_constant), "scan_once")  # noqa: B009 - not in its stub


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    """What is known of the large containers that were read to their end, by the offset of their bracket."""

    ends: dict[int, int] = field(default_factory=dict[int, int])
    counts: dict[int, int] = field(default_factory=dict[int, int])


class JsonDocument:
    """One JSON document; documents of the same content may share the known places."""

    def __init__(self, read: ReadBytes, byte_length: int, known: KnownPlaces | None = None) -> None:
        self.read, self.byte_length, self.known = read, byte_length, known or KnownPlaces()

    def load(self) -> "JsonValue | LargeArray | LargeObject":
        """Return the root after reading the document once to its end.

        Raises:
            InvalidArtifactError: The content is not one strict JSON document.
        """
        cursor = Cursor(self, len(_BOM) if self.read(0, len(_BOM)) == _BOM else 0)
        root = cursor.read_value(depth=0)
        if cursor.peek():
            raise cursor.error("there is more text after the document")
        return root


class Cursor:
    """A place in a document, with a window of the text after it; a character of the window is a byte."""

    def __init__(self, document: JsonDocument, offset: int) -> None:
        self._document = document
        self._base, self._text, self._place = offset, "", 0
        self._is_plain = True
        self._unread: LargeArray | LargeObject | None = None

    @property
    def offset(self) -> int:
        """The place in the document, in bytes."""
        self._skip_unread()
        return self._base + self._place

    def peek(self) -> str:
        """Skip white space and return the next character, or an empty text at the end."""
        self._skip_unread()
        while True:
            self._place = _end(_SPACE, self._text, self._place)
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._fill(WINDOW_BYTES):
                return ""

    def take(self, expected: str) -> str:
        """Skip white space and the next character, which must be one of `expected`; return it."""
        found = self.peek()
        if not found or found not in expected:
            raise self.error(f"expected {' or '.join(expected)}, found {found or 'the end'}")
        self._place += 1
        return found

    def read_value(self, depth: int) -> "JsonValue | LargeArray | LargeObject":
        """Read the next value; a large container is returned unread."""
        first = self.peek()
        while True:
            begin = self._place
            try:
                (value, end), is_value = _scan(self._text, begin), True
            except (StopIteration, ValueError, RecursionError):
                value, end, is_value = None, len(self._text), False
            # A number may go on behind the window, at most as in `1e+`.
            if end + 3 <= len(self._text) or (self._is_last and is_value):
                self._place = end
                return self._decode(value, begin, end)
            known = end - begin
            if self._is_last:
                return self._read_last(begin)
            if known >= WINDOW_BYTES // 2 and first in "[{":
                return self._leave_unread(first, depth)
            if known >= (MAX_TEXT_BYTES if first == '"' else WINDOW_BYTES):
                raise self.error("this is not a JSON value, or is too long")
            self._fill(max(WINDOW_BYTES, 2 * known))

    def read_items(self) -> list[JsonValue]:
        """Read some of an array's items that are in this window, as far as a comma follows them."""
        self._skip_unread()
        last = {"{": "}", "[": "]", '"': '"'}.get(self._text[self._place : self._place + 1], "")
        items = self._parse_run(f"[{self._cut_run(last)}]")
        return self._scan_run() if items is None else items

    def read_members(self) -> dict[str, JsonValue]:
        """Read some of an object's members that are in this window, as far as a comma follows them."""
        self._skip_unread()
        return self._parse_run(f"{{{self._cut_run('')}}}") or {}

    def _cut_run(self, last: str) -> str:
        cut = _guess_cut(self._text, self._place, last)
        return "" if cut is None else self._text[self._place : cut]

    def _parse_run(self, text: str) -> JsonValue:
        """Parse a guessed run and move behind it; return `None` if it was guessed wrong."""
        # Only if the cut is between two members is the text before it the inside of a container.
        if len(text) == len("[]"):
            return None
        try:
            values = jiter.from_json(text.encode("latin-1"), allow_inf_nan=False, cache_mode="keys")
        except ValueError:
            return None
        self._place = _end(_COMMA, self._text, self._place + len(text) - len("[]"))
        return values

    def _scan_run(self) -> list[JsonValue]:
        text, place, values = self._text, self._place, list[JsonValue]()
        while len(values) < _RUN_VALUES:
            try:
                value, end = _scan(text, place)
            except (StopIteration, ValueError, RecursionError):
                break
            comma = _COMMA.match(text, end)
            if comma is None:
                break
            values.append(self._decode(value, place, end))
            place = comma.end()
        self._place = place
        return values

    def error(self, why: str) -> InvalidArtifactError:
        """Return the error for the current place."""
        return InvalidArtifactError(f"the content is not one JSON document: byte {self._base + self._place}: {why}")

    @property
    def _is_last(self) -> bool:
        return self._base + len(self._text) >= self._document.byte_length

    def _fill(self, count: int) -> bool:
        """Start the window at the current place, with `count` bytes; return whether there are any."""
        begin = self._base + self._place
        end = min(begin + count, self._document.byte_length)
        data = self._document.read(begin, end) if begin < end else b""
        self._base, self._place, self._text = begin, 0, data.decode("latin-1")
        self._is_plain = data.isascii() and b"\\u" not in data
        return bool(data)

    def _decode(self, value: JsonValue, begin: int, end: int) -> JsonValue:
        # The window is not decoded as UTF-8, nor checked for lone surrogates and depth: the strict parser does that.
        if self._is_plain and self._is_shallow(begin, end):
            return value
        data = self._text[begin:end].encode("latin-1")
        if data.isascii() and b"\\u" not in data and self._is_shallow(begin, end):
            return value
        return self._parse(data)

    def _is_shallow(self, begin: int, end: int) -> bool:
        return end - begin <= MAX_DEPTH or (
            self._text.count("[", begin, end) + self._text.count("{", begin, end) <= MAX_DEPTH
        )

    def _read_last(self, begin: int) -> JsonValue:
        """Read a value that ends with the document, or explain why it is none."""
        data = self._text[begin:].encode("latin-1")
        self._place = len(self._text)
        return self._parse(data)

    def _parse(self, data: bytes) -> JsonValue:
        try:
            return jiter.from_json(data.decode("utf-8", "replace").encode(), allow_inf_nan=False, cache_mode="keys")
        except ValueError as error:
            raise self.error(str(error)) from error

    def _leave_unread(self, first: str, depth: int) -> "LargeArray | LargeObject":
        if depth >= MAX_DEPTH:
            raise self.error(f"it is nested deeper than {MAX_DEPTH} levels")
        kind = LargeArray if first == "[" else LargeObject
        self._unread = kind(self._document, self._base + self._place, depth + 1)
        return self._unread

    def _skip_unread(self) -> None:
        """Move behind a large container that was returned; its user may have read it meanwhile."""
        if self._unread is not None:
            unread, self._unread = self._unread, None
            self._base, self._text, self._place = unread.find_end(), "", 0


class _LargeContainer(ABC):
    """A container in a document, from the offset of its bracket."""

    _closing: ClassVar[str]

    def __init__(self, document: JsonDocument, start: int, depth: int) -> None:
        self._document, self._start, self._depth = document, start, depth

    def over(self, document: JsonDocument) -> Self:
        """Return the same container of another document with the same content."""
        return type(self)(document, self._start, self._depth)

    def __len__(self) -> int:
        """Count the members; reads all of them the first time."""
        self.find_end()
        return self._document.known.counts[self._start]

    @property
    def byte_length(self) -> int:
        """The length in bytes; reads all members the first time."""
        return self.find_end() - self._start

    def find_end(self) -> int:
        """Return the offset after the container; reads all members the first time."""
        if self._start not in self._document.known.ends:
            for _ in self._read_members():
                pass
        return self._document.known.ends[self._start]

    @abstractmethod
    def _read_members(self) -> Iterator[object]:
        """Read the members, and note where the container ends."""

    def _finish(self, cursor: Cursor, count: int) -> None:
        cursor.take(self._closing)
        self._document.known.ends[self._start] = cursor.offset
        self._document.known.counts[self._start] = count


class LargeArray(_LargeContainer):
    """An array whose items are read when they are used."""

    _closing = "]"

    def __iter__(self) -> Iterator[object]:
        """Yield the items."""
        return self._read_members()

    def equals(self, other: object, is_equal: Callable[[object, object], bool]) -> bool:
        """Return whether `other` is an array of equal items; the same text may be large at one place only."""
        if not isinstance(other, LargeArray) and not is_array(other):
            return False
        return len(self) == len(other) and all(map(is_equal, self, other))

    def slice(self, cut: slice) -> Iterable[object]:
        """Return the items of a slice."""
        if cut.step is not None and cut.step < 0:
            wanted = range(len(self))[cut]
            return reversed(list(islice(self, wanted[-1], wanted[0] + 1, -cut.step))) if wanted else ()
        if (cut.start or 0) < 0 or (cut.stop or 0) < 0:
            cut = slice(*cut.indices(len(self)))
        return islice(self, cut.start, cut.stop, cut.step)

    def _read_members(self) -> Iterator[object]:
        cursor, count = Cursor(self._document, self._start + 1), 0
        if cursor.peek() != "]":
            while True:
                run = cursor.read_items()
                count += len(run)
                yield from run
                count += 1
                yield cursor.read_value(self._depth)
                if cursor.peek() != ",":
                    break
                cursor.take(",")
                cursor.peek()
        self._finish(cursor, count)


class LargeObject(_LargeContainer):
    """An object whose members are read when they are used; a duplicate name may occur more than once."""

    _closing = "}"

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield the names and values."""
        return self._read_members()

    def equals(self, other: object, is_equal: Callable[[object, object], bool]) -> bool:
        """Return whether `other` is an object of equal members.

        Raises:
            ArtifactQueryError: Both are large: their names are in any order, and memory would hold all of one.
        """
        if isinstance(other, LargeObject):
            raise ArtifactQueryError("the path compares two objects that are too large to compare", field="path")
        if not is_object(other):
            return False
        found: dict[str, object] = {}
        for name, value in self.items():
            if name not in other:
                return False
            found[name] = value
        return len(found) == len(other) and all(is_equal(value, other[name]) for name, value in found.items())

    def values(self) -> Iterator[object]:
        """Yield the values."""
        return (value for _, value in self._read_members())

    def get(self, name: str, default: object) -> object:
        """Return the last value with a name."""
        for found, value in self._read_members():
            if found == name:
                default = value
        return default

    def _read_members(self) -> Iterator[tuple[str, object]]:
        cursor, count = Cursor(self._document, self._start + 1), 0
        if cursor.peek() != "}":
            while True:
                run = cursor.read_members()
                count += len(run)
                yield from run.items()
                name = cursor.read_value(self._depth)
                if not isinstance(name, str):
                    raise cursor.error("expected a text as the name of a member")
                cursor.take(":")
                count += 1
                yield name, cursor.read_value(self._depth)
                if cursor.peek() != ",":
                    break
                cursor.take(",")
                cursor.peek()
        self._finish(cursor, count)


def _guess_cut(text: str, place: int, last: str) -> int | None:
    """Return where a run of members, beginning at `place` and ending with `last`, probably ends before a comma.

    Brackets are counted as if none were inside of texts, so the guess may be wrong.
    """
    end = min(place + _RUN_CHARS, len(text))
    depth = _depth(text, place, end)
    for _ in range(_CUT_TRIES):
        found = text.rfind(last or ",", place + 1, end)
        if found < 0:
            return None
        cut = found + len(last)
        depth -= _depth(text, cut, end)
        end = cut
        if depth == 0 and _COMMA.match(text, cut):
            return cut
        depth -= _depth(text, found, end)
        end = found
    return None


def _depth(text: str, start: int, end: int) -> int:
    opened = text.count("{", start, end) + text.count("[", start, end)
    return opened - text.count("}", start, end) - text.count("]", start, end)


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return place if found is None else found.end()
