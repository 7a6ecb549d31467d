"""The members of a JSON value at any place of a document of any size, without parsing the rest.

A node is addressed by the byte offset of its value. To list members, values are skipped by counting brackets outside
of strings, at hundreds of megabytes per second; the ends of values that took long are kept, and so is the progress in a
value that was not skipped within the limits. The content need not be valid: members are listed up to the first error.

Everything here blocks, so it is for worker threads.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.browsing.json_scanner import JsonScanner
from spindle.artifacts.readers import BOM, decode_text
from spindle.errors import InvalidArtifactError
from spindle.text import to_encodable

JsonKind: TypeAlias = Literal["object", "array", "string", "number", "boolean", "null", "records"]
"""The type of a value; `records` are the lines of JSON Lines, as if they were an array."""

MAX_MEMBERS: Final = 500
MAX_NAME_CHARS: Final = 1_000
PREVIEW_CHARS: Final = 200
ROOT: Final = -1
"""The offset that stands for the whole content."""

_KINDS: Final[dict[bytes, JsonKind]] = {
    b"{": "object",
    b"[": "array",
    b'"': "string",
    b"t": "boolean",
    b"f": "boolean",
    b"n": "null",
}
_SPACES = re.compile(r"\s+")
_COUNTED_BYTES = 1 << 14


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonTreeNode:
    """One value of a document."""

    name: str | None
    """Its name in an object."""
    index: int
    """Its position among the members."""
    kind: JsonKind
    byte: int
    """The offset of its first byte, by which its members are listed."""
    byte_length: int | None
    """`None` if its end was not reached within the limits."""
    preview: str
    """The beginning of the value: of a string its characters, otherwise JSON on one line."""
    is_cut: bool = False
    """Whether `preview` is not the whole value."""
    count: int | None = None
    """The number of members, if it is a small container."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonPlace:
    """A place among the members of a container, from which to list more of them."""

    byte: int
    index: int
    is_after_value: bool = False
    """Whether the value at `byte` was listed already, and has yet to be skipped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonMembers:
    """Some members of a container, in order."""

    kind: JsonKind
    nodes: tuple[JsonTreeNode, ...]
    next: JsonPlace | None
    """Where to go on; `None` after the last member."""
    is_out_of_time: bool = False
    """Whether the limits ended the list inside of the last value: ask again to go on."""
    error: str | None = None
    """Why the content is not JSON after the last member; `None` if it is as far as was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanLimits:
    """How much one list of members may cost."""

    max_bytes: int = 64 << 20
    max_seconds: float = 1.0


@dataclass(slots=True)
class JsonTree:
    """The values of one content; keeps what is known of large ones between requests."""

    content: BlockReader
    clock: Callable[[], float] = time.monotonic
    _scanner: JsonScanner = field(init=False)

    def __post_init__(self) -> None:
        self._scanner = JsonScanner(self.content.read_range, self.content.index.byte_length)

    def list_members(
        self, byte: int = ROOT, *, place: JsonPlace | None = None, count: int = 200, limits: ScanLimits | None = None
    ) -> JsonMembers:
        """Return up to `count` members of the value at an offset; of `ROOT`, the document, or the records."""
        limits = limits or ScanLimits()
        scanner = self._scanner.limited(limits.max_bytes, self.clock() + limits.max_seconds, self.clock)
        walk = _MemberWalk(self, scanner, max(min(count, MAX_MEMBERS), 1))
        if byte == ROOT:
            return walk.list_records(place)
        return walk.list_container(byte, place)


class _MemberWalk:
    """One walk over the members of a container."""

    def __init__(self, tree: JsonTree, scanner: JsonScanner, count: int) -> None:
        self._read, self._scanner, self._count = tree.content.read_range, scanner, count
        self._nodes: list[JsonTreeNode] = []

    def list_records(self, place: JsonPlace | None) -> JsonMembers:
        """List the values of the content, of which a document has one."""
        start = len(BOM) if self._read(0, min(len(BOM), self._scanner.end)) == BOM else 0
        return self._list("records", place or JsonPlace(byte=start, index=0), closing=b"", separator=b"")

    def list_container(self, byte: int, place: JsonPlace | None) -> JsonMembers:
        first = self._scanner.peek(byte)
        if first not in (b"{", b"["):
            return JsonMembers(kind=_kind(first), nodes=(), next=None)
        kind, closing = ("object", b"}") if first == b"{" else ("array", b"]")
        return self._list(kind, place or JsonPlace(byte=byte + 1, index=0), closing=closing, separator=b",")

    def _list(
        self, kind: Literal["object", "array", "records"], place: JsonPlace, *, closing: bytes, separator: bytes
    ) -> JsonMembers:
        at = value = place.byte
        index, is_after_value = place.index, place.is_after_value
        try:
            while True:
                if is_after_value:
                    at = self._scanner.skip_separator(self._scanner.skip_value(value), separator, closing)
                    index, is_after_value = index + 1, False
                at = self._scanner.skip_space(at)
                if self._scanner.peek(at) == closing:
                    return JsonMembers(kind=kind, nodes=tuple(self._nodes), next=None)
                if len(self._nodes) >= self._count:
                    return self._stop(kind, JsonPlace(byte=at, index=index))
                name, value = self._read_name(at) if kind == "object" else (None, at)
                self._add(name, index, value)
                is_after_value = True
        except TimeoutError:
            is_listed = is_after_value or (bool(self._nodes) and self._nodes[-1].byte == value)
            place = JsonPlace(byte=value if is_listed else at, index=index, is_after_value=is_listed)
            return self._stop(kind, place, is_out_of_time=True)
        except InvalidArtifactError as error:
            return JsonMembers(kind=kind, nodes=tuple(self._nodes), next=None, error=str(error))

    def _stop(self, kind: JsonKind, place: JsonPlace, *, is_out_of_time: bool = False) -> JsonMembers:
        return JsonMembers(kind=kind, nodes=tuple(self._nodes), next=place, is_out_of_time=is_out_of_time)

    def _read_name(self, at: int) -> tuple[str, int]:
        end = self._scanner.skip_string(at)
        name, _ = _decode_string(self._read(at, min(end, at + 6 * MAX_NAME_CHARS + 8)), MAX_NAME_CHARS)
        return name, self._scanner.skip_space(self._scanner.skip_mark(end, b":"))

    def _add(self, name: str | None, index: int, at: int) -> None:
        kind = _kind(self._scanner.peek(at))
        end: int | None = None
        try:
            end = self._scanner.skip_value(at)
        finally:
            # A value whose end is too far away is listed too: its members can be.
            if end is not None or kind in ("object", "array", "string"):
                self._nodes.append(self._describe(name, index, at, end, kind))

    def _describe(self, name: str | None, index: int, at: int, end: int | None, kind: JsonKind) -> JsonTreeNode:
        stop = self._scanner.end if end is None else end
        head = self._read(at, min(stop, at + 6 * PREVIEW_CHARS + 8))
        if kind == "string":
            preview, is_cut = _decode_string(head, PREVIEW_CHARS)
        else:
            text = _SPACES.sub(" ", decode_text(head))
            preview, is_cut = text[:PREVIEW_CHARS], len(text) > PREVIEW_CHARS
        return JsonTreeNode(
            name=name,
            index=index,
            kind=kind,
            byte=at,
            byte_length=None if end is None else end - at,
            preview=preview,
            is_cut=is_cut or at + len(head) < stop,
            count=None if end is None or kind not in ("object", "array") else self._count_members(at, end),
        )

    def _count_members(self, at: int, end: int) -> int | None:
        if end - at > _COUNTED_BYTES:
            return None
        try:
            return len(json.loads(self._read(at, end)))
        except (ValueError, RecursionError):
            return None


def _kind(first: bytes) -> JsonKind:
    return _KINDS.get(first, "number")


def _decode_string(data: bytes, max_chars: int) -> tuple[str, bool]:
    """Return the characters of a string of JSON, of which the end may be missing, and whether there are more."""
    if len(data) > 1 and data.endswith(b'"'):
        try:
            text: str = json.loads(data)
        except ValueError:
            pass
        else:
            return to_encodable(text[:max_chars]), len(text) > max_chars
    # A cut string ends inside of an escape or a character at worst.
    text = decode_text(data[1:])
    for dropped in range(min(len(text), 7)):
        kept = text[: len(text) - dropped]
        try:
            return to_encodable(json.loads(f'"{kept}"', strict=False)[:max_chars]), True
        except ValueError:
            continue
    return text[:max_chars], True
