"""What a command writes: the beginning in memory, all of it in the spool, never more than both allow."""

import codecs
import os
from collections.abc import AsyncIterator
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

_CHUNK_BYTES = 1 << 16


class Captured:
    """One output stream of a command."""

    def __init__(
        self, name: str, *, keep_bytes: int, spool_bytes: int, spool: Any, id: str, turn_id: str | None
    ) -> None:
        self.name = name
        self.total_bytes = 0
        self.artifact: str | None = None
        self.notes: list[str] = []
        self._keep_bytes = keep_bytes
        self._spool_bytes = spool_bytes if spool is not None else 0
        self._spool: Any = spool
        self._id, self._turn_id = id, turn_id
        self._head = bytearray()
        self._sending: MemoryObjectSendStream[bytes] | None = None
        self._spooled = 0

    @property
    def is_truncated(self) -> bool:
        """Whether there was more than is kept in memory."""
        return self.total_bytes > self._keep_bytes

    @property
    def raw(self) -> bytes:
        """The beginning, as it was written."""
        return bytes(self._head)

    @property
    def text(self) -> str:
        """The beginning as text; a character that the cut went through is left out."""
        return codecs.getincrementaldecoder("utf-8")("replace").decode(self.raw, final=not self.is_truncated)

    async def pump(self, descriptor: int) -> None:
        """Read until the end, keeping what there is room for."""
        async with anyio.create_task_group() as tasks:
            try:
                async for chunk in _chunks(descriptor):
                    await self._take(chunk, tasks)
            finally:
                if self._sending is not None:
                    self._sending.close()
        self._say_what_is_lost()

    async def _take(self, chunk: bytes, tasks: Any) -> None:
        room = self._keep_bytes - len(self._head)
        self._head += chunk[: max(0, room)]
        self.total_bytes += len(chunk)
        if not self.is_truncated or not self._spool_bytes:
            return
        if self._sending is None:
            if self._spooled:
                return  # the spool failed, or is full
            self._sending, receiving = anyio.create_memory_object_stream[bytes](0)
            tasks.start_soon(self._write, receiving)
            await self._send(self.raw)
            chunk = chunk[max(0, room) :]
        await self._send(chunk)

    async def _send(self, piece: bytes) -> None:
        if self._sending is None:
            return
        piece = piece[: self._spool_bytes - self._spooled]
        self._spooled += len(piece)
        try:
            if piece:
                await self._sending.send(piece)
        except anyio.BrokenResourceError:
            self._stop_sending()
        else:
            if self._spooled >= self._spool_bytes:
                self._stop_sending()

    def _stop_sending(self) -> None:
        if self._sending is not None:
            self._sending.close()
            self._sending = None

    async def _write(self, receiving: MemoryObjectReceiveStream[bytes]) -> None:
        async with receiving:
            try:
                await self._spool.write(self._id, _pieces(receiving), turn_id=self._turn_id)
            except Exception as error:  # noqa: BLE001 - the command's answer is worth more than what found no place
                self.notes.append(f"{self.name}: the spool failed ({type(error).__name__})")
            else:
                self.artifact = self._id

    def _say_what_is_lost(self) -> None:
        kept = self._spooled if self.artifact else len(self._head)
        if kept < self.total_bytes:
            self.notes.append(f"{self.name}: {self.total_bytes} bytes in all, those after {kept} were dropped")


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    while True:
        await anyio.wait_readable(descriptor)
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            continue
        if not chunk:
            return
        yield chunk


async def _pieces(receiving: MemoryObjectReceiveStream[bytes]) -> AsyncIterator[bytes]:
    async for piece in receiving:
        yield piece
