"""The port of a transport to a server, the errors a transport reports, and line buffers with a size limit."""

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError

from spindle.json_types import JsonValue, is_object

MAX_MESSAGE_BYTES = 16 << 20
"""The size limit of one message from a server."""

LinkFailure: TypeAlias = Literal["undelivered", "lost", "gone", "refused", "too_large"]
"""Why a request failed: never sent; sent, then the connection was lost; not run, as the session is unknown; rejected
before it ran; answered with a message over the size limit."""


class ErrorMarker:
    """A random mark on the errors that a link itself puts into the stream, so that a server cannot forge them."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(16)

    def build_error(self, trouble: LinkFailure, message: str) -> ErrorData:
        """Build a marked error."""
        return ErrorData(code=INTERNAL_ERROR, message=message, data={"spindle": self._nonce, "trouble": trouble})

    def build_response(self, request_id: str | int, trouble: LinkFailure, message: str) -> JSONRPCError:
        """Build the JSON-RPC response that fails a request with a marked error."""
        return JSONRPCError(jsonrpc="2.0", id=request_id, error=self.build_error(trouble, message))

    def build_body(self, trouble: LinkFailure, message: str) -> bytes:
        """Serialize a marked error as the body of an HTTP response."""
        error = self.build_error(trouble, message).model_dump(mode="json", exclude_none=True)
        return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()

    def get_failure(self, error: MCPError) -> LinkFailure | None:
        """Return why a request failed, or `None` when the error came from the server."""
        data: JsonValue = error.error.data
        return data.get("trouble") if is_object(data) and data.get("spindle") == self._nonce else None


class TransportLink(Protocol):
    """A transport to one server, opened once."""

    error_marker: ErrorMarker
    broken: anyio.Event
    """Set when no more messages can arrive."""
    is_older: bool
    """Whether only servers of the older protocol have this transport."""

    def open(self) -> AbstractAsyncContextManager[Any]:
        """Connect, yield the streams for the SDK's session, and close everything on exit."""
        ...

    def describe_exit(self) -> str:
        """Return the last lines of the server's stderr, or an empty string when unknown."""
        ...


_ENDS = 256
_ID_BEFORE = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?\d{1,15}|"[^"\\]{1,64}")\s*,')
_ID_AFTER = re.compile(rb',\s*"id"\s*:\s*(-?\d{1,15}|"[^"\\]{1,64}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class OversizedLine:
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

    def __init__(self, max_bytes: int, *, keeps_blank: bool = False) -> None:
        self._max_bytes = max_bytes
        self._keeps_blank = keeps_blank
        self._buffer = bytearray()
        self._dropped = 0
        self._head = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | OversizedLine]:
        """Append a chunk and yield the lines that are now complete."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._hold(chunk[start:end])
            start = end + 1
            line = self._take_line()
            if self._keeps_blank or isinstance(line, OversizedLine) or line.strip():
                yield line
        self._hold(chunk[start:])

    def _hold(self, piece: bytes) -> None:
        self._buffer += piece
        if len(self._buffer) > self._max_bytes:
            self._head = self._head or bytes(self._buffer[:_ENDS])
            self._dropped += len(self._buffer) - _ENDS
            del self._buffer[:-_ENDS]

    def _take_line(self) -> bytes | OversizedLine:
        line: bytes | OversizedLine = bytes(self._buffer)
        if self._head:
            line = OversizedLine(self._dropped + len(self._buffer), self._head, bytes(self._buffer))
        self._buffer, self._dropped, self._head = bytearray(), 0, b""
        return line


class TailBuffer:
    """A buffer that keeps the last bytes fed to it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Append a chunk and drop the oldest bytes over the limit."""
        self._buffer += chunk[-self._max_bytes :]
        del self._buffer[: -self._max_bytes]

    def lines(self, max_lines: int) -> str:
        """Return the last lines as text."""
        return "\n".join(self._buffer.decode("utf-8", "replace").strip().splitlines()[-max_lines:])
