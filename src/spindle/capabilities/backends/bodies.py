"""The body of an answer, read within its limits."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import anyio
import httpcore2

from spindle.capabilities.backends.failing import told
from spindle.capabilities.decoding import Decoder
from spindle.errors import NetworkError


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What one body may take."""

    host: str
    max_bytes: int
    deadline: float
    """On the event loop's clock."""


class HttpBody:
    """Decoded bytes of one answer; its connection is let go at the end, on any failure, and on `aclose`."""

    def __init__(
        self,
        answer: httpcore2.Response,
        decoder: Decoder | None,
        limits: BodyLimits,
        on_closed: Callable[["HttpBody"], None],
    ) -> None:
        self._answer = answer
        self._chunks = answer.aiter_stream()
        self._decoder = decoder
        self._limits = limits
        self._on_closed = on_closed
        self._pieces: Iterator[bytes] = iter(())
        self._received = 0
        self._given = 0
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._closed:
            raise StopAsyncIteration
        try:
            piece = await self._next_piece()
        except BaseException:
            await self.aclose()
            raise
        if piece is None:
            await self.aclose()
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Close the answer, also when the caller is being cancelled."""
        if self._closed:
            return
        self._closed = True
        self._pieces = iter(())
        with anyio.CancelScope(shield=True):
            with suppress(RuntimeError):  # another task is reading; closing the answer ends that
                await self._chunks.aclose()
            await self._answer.aclose()
            self._on_closed(self)

    async def _next_piece(self) -> bytes | None:
        while True:
            piece = self._decoded()
            if piece is not None:
                self._given = self._within(self._given + len(piece))
                return piece
            raw = await self._read()
            if raw is None:
                return self._finish()
            self._received = self._within(self._received + len(raw))
            self._pieces = iter((raw,)) if self._decoder is None else self._decoder.feed(raw)

    def _decoded(self) -> bytes | None:
        try:
            return next(self._pieces, None)
        except ValueError as error:
            raise self._damaged(error) from error

    def _finish(self) -> None:
        try:
            if self._decoder is not None:
                self._decoder.finish()
        except ValueError as error:
            raise self._damaged(error) from error

    async def _read(self) -> bytes | None:
        with told(self._limits.host):
            with anyio.fail_after(self._limits.deadline - anyio.current_time()):
                return await anext(self._chunks, None)

    def _within(self, count: int) -> int:
        if count > self._limits.max_bytes:
            raise too_large(self._limits)
        return count

    def _damaged(self, error: ValueError) -> NetworkError:
        host = self._limits.host
        return NetworkError(f"the answer of {host} cannot be decoded: {error}", host=host, reason="decoding")


def too_large(limits: BodyLimits) -> NetworkError:
    """Say that a body is over its limit."""
    return NetworkError(
        f"the answer of {limits.host} is larger than {limits.max_bytes} bytes; "
        "ask for less, or raise max_response_bytes",
        host=limits.host,
        reason="too_large",
    )
