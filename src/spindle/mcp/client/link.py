"""What a way to a server has in common: the streams, whether it still holds, and errors that only we can make."""

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError

MAX_MESSAGE_BYTES = 16 << 20
"""One message of a server, its whole result included."""

Trouble: TypeAlias = Literal["undelivered", "lost", "gone", "refused", "too_large"]
"""What became of a request: never sent; sent, and the way is lost; the session is gone, so it did not run; turned down
before it ran; answered, with more than is taken."""


class Seal:
    """Marks the errors that a link puts into the stream itself, so that no server can pass its own off as ours."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(16)

    def error(self, trouble: Trouble, message: str) -> ErrorData:
        """Make an error of our own."""
        return ErrorData(code=INTERNAL_ERROR, message=message, data={"spindle": self._nonce, "trouble": trouble})

    def answer(self, request_id: str | int, trouble: Trouble, message: str) -> JSONRPCError:
        """Answer a request with an error of our own."""
        return JSONRPCError(jsonrpc="2.0", id=request_id, error=self.error(trouble, message))

    def body(self, trouble: Trouble, message: str) -> bytes:
        """Write an error as the body of an HTTP response."""
        error = self.error(trouble, message).model_dump(mode="json", exclude_none=True)
        return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()

    def trouble(self, error: MCPError) -> Trouble | None:
        """Say what we meant by an error; `None` when it is the server's own."""
        data: Any = error.error.data
        if not isinstance(data, dict):
            return None
        known = cast("dict[str, Any]", data)
        return known.get("trouble") if known.get("spindle") == self._nonce else None


class Link(Protocol):
    """A way to one server, opened once."""

    seal: Seal
    broken: anyio.Event
    """Set when nothing more can come."""

    def open(self) -> AbstractAsyncContextManager[Any]:
        """Connect; gives the streams the SDK's session takes, and closes everything in the end."""
        ...

    def last_words(self) -> str:
        """What the server wrote to stderr last, if that can be known."""
        ...


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
