"""What a way to a server has in common: the streams, whether it still holds, and errors that only we can make."""

import json
import secrets
from contextlib import AbstractAsyncContextManager
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
