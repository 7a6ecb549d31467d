"""The port of a transport to a server, the errors a transport reports, and line buffers with a size limit."""

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
"""The size limit of one message from a server."""

Trouble: TypeAlias = Literal["undelivered", "lost", "gone", "refused", "too_large"]
"""Why a request failed: never sent; sent, then the connection was lost; not run, as the session is unknown; rejected
before it ran; answered with a message over the size limit."""


class Seal:
    """A random mark on the errors that a link itself puts into the stream, so that a server cannot forge them."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(16)

    def error(self, trouble: Trouble, message: str) -> ErrorData:
        """Build a marked error."""
        return ErrorData(code=INTERNAL_ERROR, message=message, data={"spindle": self._nonce, "trouble": trouble})

    def answer(self, request_id: str | int, trouble: Trouble, message: str) -> JSONRPCError:
        """Build the JSON-RPC response that fails a request with a marked error."""
        return JSONRPCError(jsonrpc="2.0", id=request_id, error=self.error(trouble, message))

    def body(self, trouble: Trouble, message: str) -> bytes:
        """Serialize a marked error as the body of an HTTP response."""
        error = self.error(trouble, message).model_dump(mode="json", exclude_none=True)
        return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()

    def trouble(self, error: MCPError) -> Trouble | None:
        """Return why a request failed, or `None` when the error came from the server."""
        data: Any = error.error.data
        if not isinstance(data, dict):
            return None
        known = cast("dict[str, Any]", data)
        return known.get("trouble") if known.get("spindle") == self._nonce else None


class Link(Protocol):
    """A transport to one server, opened once."""

    seal: Seal
    broken: anyio.Event
    """Set when no more messages can arrive."""

    def open(self) -> AbstractAsyncContextManager[Any]:
        """Connect, yield the streams for the SDK's session, and close everything on exit."""
        ...

    def last_words(self) -> str:
        """Return the last lines of the server's stderr, or an empty string when unknown."""
        ...


_ENDS = 256
_ID_BEFORE = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?\d{1,15}|"[^"\\]{1,64}")\s*,')
_ID_AFTER = re.compile(rb',\s*"id"\s*:\s*(-?\d{1,15}|"[^"\\]{1,64}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was dropped for its length: its size, its start and its end."""

    size: int
    head: bytes
    tail: bytes

    def request_id(self) -> int | str | None:
        """Return the id of the request it answered, if its start or end contains one."""
        found = _ID_BEFORE.search(self.head) or _ID_AFTER.search(self.tail)
        if found is None:
            return None
        text = found[1].decode("utf-8", "replace")
        return text[1:-1] if text.startswith('"') else int(text)


class BoundedLines:
    """A line splitter that keeps only the start and end of a line over the limit."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._dropped = 0
        self._head = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """Append a chunk and yield the lines that are now complete."""
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
    """A buffer that keeps the last bytes fed to it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Append a chunk and drop the oldest bytes over the limit."""
        self._held += chunk[-self._max_bytes :]
        del self._held[: -self._max_bytes]

    def lines(self, most: int) -> str:
        """Return the last lines as text."""
        return "\n".join(self._held.decode("utf-8", "replace").strip().splitlines()[-most:])
