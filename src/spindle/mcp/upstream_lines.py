"""Lines out of a stream of bytes, none of them longer than allowed, and the end of a text. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ENDS = 256
_ID_BEFORE = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?\d{1,15}|"[^"\\]{1,64}")\s*,')
_ID_AFTER = re.compile(rb',\s*"id"\s*:\s*(-?\d{1,15}|"[^"\\]{1,64}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was dropped: how long it was, and its two ends."""

    size: int
    head: bytes
    tail: bytes

    def request_id(self) -> int | str | None:
        """Give the id of the request it answered, as far as its ends tell."""
        found = _ID_BEFORE.search(self.head) or _ID_AFTER.search(self.tail)
        if found is None:
            return None
        text = found[1].decode("utf-8", "replace")
        return text[1:-1] if text.startswith('"') else int(text)


class BoundedLines:
    """Cuts what is fed into lines; of one that is too long only the ends are kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._dropped = 0
        self._head = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """Take more, and give the lines that are complete now."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._hold(chunk[start:end])
            start = end + 1
            line = self._taken()
            if isinstance(line, TooLong) or line.strip():
                yield line
        self._hold(chunk[start:])

    def _hold(self, piece: bytes) -> None:
        self._held += piece
        if len(self._held) > self._max_bytes:
            self._head = self._head or bytes(self._held[:_ENDS])
            self._dropped += len(self._held) - _ENDS
            del self._held[:-_ENDS]

    def _taken(self) -> bytes | TooLong:
        line: bytes | TooLong = bytes(self._held)
        if self._head:
            line = TooLong(self._dropped + len(self._held), self._head, bytes(self._held))
        self._held, self._dropped, self._head = bytearray(), 0, b""
        return line


class Tail:
    """Remembers the end of what is fed."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take more, and forget the oldest."""
        self._held += chunk[-self._max_bytes :]
        del self._held[: -self._max_bytes]

    def lines(self, most: int) -> str:
        """Give the last lines as text."""
        return "\n".join(self._held.decode("utf-8", "replace").strip().splitlines()[-most:])
