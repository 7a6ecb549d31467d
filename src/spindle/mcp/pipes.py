"""The client at the other end of our standard streams: its messages, ours, and nothing that a tool prints in between.

The SDK has this too, but there a thread sits in a read that nothing ends: a signal would have to wait for the client.
"""

import os
import select
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from spindle.mcp.upstream_lines import BoundedLines, TooLong
from spindle.mcp.upstream_link import MAX_MESSAGE_BYTES

_CHUNK_BYTES: Final = 1 << 16
_SAFE_BYTES: Final = min(getattr(select, "PIPE_BUF", 512), 4096)
"""What a pipe that can be written to takes without making us wait."""
_GONE: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class StandardStreams:
    """Our standard input and output as streams of messages; while they are, tools read nothing and print to stderr."""

    def __init__(self, source: int = 0, sink: int = 1) -> None:
        self._source, self._sink = source, sink
        self._unanswered: set[str | int] = set()
        self._news = anyio.Event()

    async def answered(self) -> None:
        """Wait until every request that came is answered, or was taken back."""
        while self._unanswered:
            await self._news.wait()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
        """Give what comes, until the client closes its side, and what takes our messages."""
        came, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
        nowhere = os.open(os.devnull, os.O_RDONLY)
        try:
            with _claimed(self._source, nowhere) as source, _claimed(self._sink, 2) as sink, came, incoming:
                async with outgoing, sent, anyio.create_task_group() as pumps:
                    pumps.start_soon(self._read, source, came)
                    pumps.start_soon(self._write, sink, sent)
                    yield incoming, outgoing
                    pumps.cancel_scope.cancel()
        finally:
            os.close(nowhere)

    async def _read(self, source: int, came: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        lines = BoundedLines(MAX_MESSAGE_BYTES)
        with came, suppress(*_GONE):
            while chunk := await _received(source):
                for line in lines.feed(chunk):
                    await came.send(self._parsed(line))

    def _parsed(self, line: bytes | TooLong) -> SessionMessage | Exception:
        if isinstance(line, TooLong):
            return ValueError(f"a message of {line.size} bytes is larger than the {MAX_MESSAGE_BYTES} that are taken")
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as error:
            return error
        if isinstance(message, JSONRPCRequest):
            self._unanswered.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._has_answer((message.params or {}).get("requestId"))
        return SessionMessage(message)

    async def _write(self, sink: int, sent: MemoryObjectReceiveStream[SessionMessage]) -> None:
        with sent, suppress(*_GONE):
            async for each in sent:
                message = each.message
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                await _send(sink, text.encode("utf-8", "replace") + b"\n")
                if isinstance(message, (JSONRPCResponse, JSONRPCError)):
                    self._has_answer(message.id)

    def _has_answer(self, request_id: object) -> None:
        if isinstance(request_id, (str, int)) and request_id in self._unanswered:
            self._unanswered.remove(request_id)
            self._news.set()
            self._news = anyio.Event()


@contextmanager
def _claimed(number: int, instead: int) -> Generator[int]:
    """Have a standard stream for ourselves: whoever else uses its number meanwhile gets `instead`."""
    own = os.dup(number)
    os.dup2(instead, number)
    try:
        yield own
    finally:
        os.dup2(own, number)
        os.close(own)


async def _received(source: int) -> bytes:
    with suppress(PermissionError):  # a file is always readable, and cannot be waited for
        await anyio.wait_readable(source)
    return os.read(source, _CHUNK_BYTES)


async def _send(sink: int, data: bytes) -> None:
    left = memoryview(data)
    poll = select.poll()
    poll.register(sink, select.POLLOUT)
    while left:
        if not poll.poll(0):  # asking first saves two rounds of the event loop, nearly always
            await anyio.wait_writable(sink)
        left = left[os.write(sink, left[:_SAFE_BYTES]) :]
