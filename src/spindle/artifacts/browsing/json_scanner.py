"""A scanner that finds where JSON values end, without parsing them, within limits of bytes and time.

A container is skipped chunk by chunk: escapes are blanked, the chunk is split at quotes, and brackets are counted in
the parts outside of strings. Each step is one pass in C, so hostile content costs no more than any other.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from spindle.errors import InvalidArtifactError

ReadBytes = Callable[[int, int], bytes]

_FIRST_BYTES: Final = 4 << 10
_CHUNK_BYTES: Final = 256 << 10
_KEPT_BYTES: Final = 1 << 20
"""The ends of values longer than this are kept."""
_MAX_KEPT: Final = 10_000
_MAX_REDUCTIONS: Final = 8

_SPACE = re.compile(rb"[ \t\n\r]*")
_STRING_PART = re.compile(rb'[^"\\]*')
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]{1,2000}")
_BRACKET = re.compile(rb"[\[\]{}]")
_PAIR = re.compile(rb"\{\}|\[\]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class _Progress(NamedTuple):
    """How far a container was read: the place, the depth, and whether the place is inside of a string."""

    place: int
    depth: int
    is_in_string: bool


class JsonScanner:
    """A scanner of the bytes up to `end`; one that is limited shares what is known with its origin."""

    def __init__(self, read: ReadBytes, end: int) -> None:
        self._read, self.end = read, end
        self._ends: dict[int, int] = {}
        self._progress: dict[int, _Progress] = {}
        self._base, self._data = 0, b""
        self._left_bytes: int | None = None
        self._deadline = 0.0
        self._clock: Callable[[], float] | None = None

    def limited(self, max_bytes: int, deadline: float, clock: Callable[[], float]) -> "JsonScanner":
        """Return a scanner that stops after reading a number of bytes, or at a time."""
        other = JsonScanner(self._read, self.end)
        other._ends, other._progress = self._ends, self._progress
        other._left_bytes, other._deadline, other._clock = max_bytes, deadline, clock
        return other

    def peek(self, place: int) -> bytes:
        """Return the byte at a place, or nothing at the end."""
        return self._window(place)[1][place - self._base : place - self._base + 1]

    def skip_space(self, place: int) -> int:
        """Return the next place that is not white space."""
        while True:
            base, data = self._window(place)
            found = _SPACE.match(data, place - base)
            place = place if found is None else base + found.end()
            if place < base + len(data) or place >= self.end:
                return place

    def skip_mark(self, place: int, mark: bytes) -> int:
        """Skip white space and a mark that must follow."""
        place = self.skip_space(place)
        if self.peek(place) != mark:
            raise self._build_error(place, mark.decode())
        return place + 1

    def skip_separator(self, place: int, separator: bytes, closing: bytes) -> int:
        """Skip white space and a separator; stay before a closing bracket. Records need white space between them."""
        after = self.skip_space(place)
        found = self.peek(after)
        if found == closing:
            return after
        if not separator:
            if after == place:
                raise self._build_error(place, "a new line")
            return after
        if found != separator:
            raise self._build_error(after, f"{separator.decode()} or {closing.decode()}")
        place = self.skip_space(after + 1)
        if self.peek(place) == closing:
            raise self._build_error(place, "a value")
        return place

    def skip_value(self, place: int) -> int:
        """Return the place after a value.

        Raises:
            InvalidArtifactError: No value begins here.
            TimeoutError: The limits were reached; the progress is kept.
        """
        if place in self._ends:
            return self._ends[place]
        first = self.peek(place)
        if first in (b"{", b"["):
            end = self._skip_container(place)
        elif first == b'"':
            end = self.skip_string(place)
        else:
            base, data = self._window(place, 4096)
            found = _SCALAR.match(data, place - base)
            if found is None:
                raise self._build_error(place, "a value")
            end = base + found.end()
        if end - place >= _KEPT_BYTES and len(self._ends) < _MAX_KEPT:
            self._ends[place] = end
        return end

    def skip_string(self, place: int) -> int:
        """Return the place after a string."""
        if self.peek(place) != b'"':
            raise self._build_error(place, "a string in quotes")
        if place in self._ends:
            return self._ends[place]
        kept = self._progress.get(place)
        at = place + 1 if kept is None else kept.place
        while at < self.end:
            try:
                base, data = self._window(at, 2)  # a backslash, and what it escapes
            except TimeoutError:
                self._keep(place, _Progress(at, 0, is_in_string=True))
                raise
            chunk = data[at - base :]
            # Most strings have no escapes, and end in the window.
            found = _STRING_PART.match(chunk)
            quote = found.end() if found else 0
            if chunk[quote : quote + 1] == b"\\":
                chunk = _blank_escapes(chunk)
                quote = chunk.find(b'"', quote)
                quote = len(chunk) if quote < 0 else quote
            if quote < len(chunk):
                return at + quote + 1
            if not chunk:  # a backslash ends the content
                break
            at += len(chunk)
        raise self._build_error(self.end, "the end of a string")

    def _skip_container(self, start: int) -> int:
        kept = self._progress.get(start)
        state = kept or _Progress(start, 0, is_in_string=False)
        size = _FIRST_BYTES if kept is None else _CHUNK_BYTES
        while state.place < self.end:
            try:
                chunk = self._chunk(state.place, size)
            except TimeoutError:
                self._keep(start, state)
                raise
            if not chunk:
                break
            found = _count_brackets(chunk, state)
            if isinstance(found, int):
                self._progress.pop(start, None)
                return found
            state, size = found, min(4 * size, _CHUNK_BYTES)
        raise self._build_error(self.end, "the end of a value")

    def _keep(self, start: int, state: _Progress) -> None:
        if len(self._progress) < _MAX_KEPT or start in self._progress:
            self._progress[start] = state

    def _chunk(self, place: int, size: int) -> bytes:
        """Return the next bytes with escapes blanked; a backslash at the end is left to the next chunk."""
        base, data = self._window(place, size)
        return _blank_escapes(data[place - base : place - base + size])

    def _window(self, place: int, size: int = 1) -> tuple[int, bytes]:
        """Return bytes that include `size` bytes from a place on, unless the content ends, and their offset."""
        end = min(place + size, self.end)
        if place < self._base or end > self._base + len(self._data):
            self._check()
            stop = min(place + max(size, 16 * _FIRST_BYTES), self.end)
            self._base, self._data = place, self._read(place, stop) if place < stop else b""
            if self._left_bytes is not None:
                self._left_bytes -= len(self._data)
        return self._base, self._data

    def _check(self) -> None:
        is_late = self._clock is not None and self._clock() > self._deadline
        if is_late or (self._left_bytes is not None and self._left_bytes <= 0):
            raise TimeoutError

    def _build_error(self, place: int, expected: str) -> InvalidArtifactError:
        found = self.peek(place).decode("latin-1") if place < self.end else ""
        return InvalidArtifactError(f"byte {place}: expected {expected}, found {found or 'the end'}")


def _blank_escapes(chunk: bytes) -> bytes:
    if b"\\" not in chunk:
        return chunk
    # Pairs of backslashes first: what is left of an odd run escapes the character after it.
    blank = chunk.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    return blank[:-1] if blank.endswith(b"\\") else blank


def _count_brackets(chunk: bytes, state: _Progress) -> "int | _Progress":
    """Return the place after the bracket that closes the container, or the state after the chunk."""
    parts = chunk.split(b'"')
    outside = b"".join(parts[state.is_in_string :: 2])
    brackets = outside.translate(None, _NO_BRACKETS)
    for _ in range(_MAX_REDUCTIONS):
        shorter = _PAIR.sub(b"", brackets)
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    closed = brackets.count(b"}") + brackets.count(b"]")
    if state.depth > closed:
        depth = state.depth + len(brackets) - 2 * closed
        is_in_string = state.is_in_string ^ (len(parts) % 2 == 0)
        return _Progress(state.place + len(chunk), depth, is_in_string)
    return _find_end(chunk, parts, state)


def _find_end(chunk: bytes, parts: list[bytes], state: _Progress) -> "int | _Progress":
    place, depth = state.place, state.depth
    for number, part in enumerate(parts):
        if number % 2 == state.is_in_string:
            for found in _BRACKET.finditer(part):
                depth += 1 if found[0] in b"[{" else -1
                if depth == 0:
                    return place + found.end()
        place += len(part) + 1
    return _Progress(state.place + len(chunk), depth, state.is_in_string ^ (len(parts) % 2 == 0))
