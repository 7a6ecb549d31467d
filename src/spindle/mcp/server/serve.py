"""Runs a server over stdio or HTTP until a signal, shuts it down gracefully, and notifies clients of tool changes."""

import os
import select
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from starlette.types import ASGIApp

from spindle.errors import UsageError
from spindle.mcp.client.link import MAX_MESSAGE_BYTES, BoundedLines, OversizedLine
from spindle.mcp.server.http import HttpSettings, IdleTimeoutProtocol
from spindle.mcp.server.tool_server import ToolServer

_CHUNK_BYTES: Final = 1 << 16
_SAFE_BYTES: Final = min(getattr(select, "PIPE_BUF", 512), 4096)
"""Bytes that a writable pipe accepts without blocking."""
_CLOSED_ERRORS: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class StandardStreams:
    """Standard input and output as message streams; meanwhile tools read from /dev/null and print to stderr."""

    def __init__(self, source: int = 0, sink: int = 1) -> None:
        self._source, self._sink = source, sink
        self._unanswered: set[str | int] = set()
        self._answer_sent = anyio.Event()

    async def wait_until_answered(self) -> None:
        """Wait until every received request is answered or cancelled."""
        while self._unanswered:
            await self._answer_sent.wait()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
        """Yield the stream of incoming messages, which ends when the client closes stdin, and the outgoing stream."""
        came, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
        nowhere = os.open(os.devnull, os.O_RDONLY)
        try:
            with (
                _redirect_stream(self._source, nowhere) as source,
                _redirect_stream(self._sink, 2) as sink,
                came,
                incoming,
            ):
                async with outgoing, sent, anyio.create_task_group() as pumps:
                    pumps.start_soon(self._read, source, came)
                    pumps.start_soon(self._write, sink, sent)
                    yield incoming, outgoing
                    pumps.cancel_scope.cancel()
        finally:
            os.close(nowhere)

    async def _read(self, source: int, came: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        lines = BoundedLines(MAX_MESSAGE_BYTES)
        with came, suppress(*_CLOSED_ERRORS):
            while chunk := await _read_chunk(source):
                for line in lines.feed(chunk):
                    await came.send(self._parse_line(line))

    def _parse_line(self, line: bytes | OversizedLine) -> SessionMessage | Exception:
        if isinstance(line, OversizedLine):
            return ValueError(f"a message of {line.size} bytes is larger than the limit of {MAX_MESSAGE_BYTES}")
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
        with sent, suppress(*_CLOSED_ERRORS):
            async for each in sent:
                message = each.message
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                await _send(sink, text.encode("utf-8", "replace") + b"\n")
                if isinstance(message, (JSONRPCResponse, JSONRPCError)):
                    self._has_answer(message.id)

    def _has_answer(self, request_id: object) -> None:
        if isinstance(request_id, (str, int)) and request_id in self._unanswered:
            self._unanswered.remove(request_id)
            self._answer_sent.set()
            self._answer_sent = anyio.Event()


@contextmanager
def _redirect_stream(number: int, instead: int) -> Generator[int]:
    """Yield a private copy of a standard stream, and redirect its file descriptor to `instead` meanwhile."""
    own = os.dup(number)
    os.dup2(instead, number)
    try:
        yield own
    finally:
        os.dup2(own, number)
        os.close(own)


async def _read_chunk(source: int) -> bytes:
    with suppress(PermissionError):  # a regular file cannot be polled, and is always readable
        await anyio.wait_readable(source)
    return os.read(source, _CHUNK_BYTES)


async def _send(sink: int, data: bytes) -> None:
    left = memoryview(data)
    poll = select.poll()
    poll.register(sink, select.POLLOUT)
    while left:
        if not poll.poll(0):  # polling first usually saves two iterations of the event loop
            await anyio.wait_writable(sink)
        left = left[os.write(sink, left[:_SAFE_BYTES]) :]


_LAST_ANSWERS_SECONDS: Final = 1.0
"""Time to write finished answers to the pipe."""

_KEEP_ALIVE_SECONDS: Final = 20
"""Longer than clients keep an idle connection (mostly 5 s), so that none is closed just as a request is sent on it."""


class _Uvicorn(uvicorn.Server):
    """Uvicorn without its own signal handlers, since a signal must first drain the running calls."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve_stdio(server: ToolServer, *, stop_seconds: float = 10) -> None:
    """Serve one client over stdio until it closes the pipe or a signal arrives."""
    streams = StandardStreams()
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await _stop_on_signal(server, stop_seconds)
            with anyio.move_on_after(_LAST_ANSWERS_SECONDS):
                await streams.wait_until_answered()
            tasks.cancel_scope.cancel()

        tasks.start_soon(stop)
        async with streams.open() as (incoming, outgoing):
            await server.sdk.run(incoming, outgoing, server.options)
        tasks.cancel_scope.cancel()


async def serve_http(
    server: ToolServer,
    app: ASGIApp,
    door: HttpSettings,
    *,
    listening: socket.socket | None = None,
    stop_seconds: float = 10,
    on_ready: Callable[[str], None] = lambda _address: None,
    on_stopping: Callable[[], None] = lambda: None,
) -> None:
    """Serve over HTTP until a signal; `on_ready` is called with the URL, `on_stopping` when the signal arrives.

    `listening` is a socket from `bind_socket`, for callers that bind the address before they open anything else.

    Raises:
        UsageError: The address cannot be bound.
    """
    listening = bind_socket(door) if listening is None else listening
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        app,
        http=IdleTimeoutProtocol,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        lifespan="on",
    )
    uv = _Uvicorn(config, lambda: on_ready(f"http://{shown}:{port}{door.path}"))

    def end() -> None:
        uv.should_exit = True

    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            # A cancelled uvicorn would leak its sockets and the application's tasks.
            with anyio.CancelScope(shield=True), listening:
                await uv.serve(sockets=[listening])
            tasks.cancel_scope.cancel()

        tasks.start_soon(run)
        try:
            await _stop_on_signal(server, stop_seconds, on_stopping)
            end()
            await anyio.sleep_forever()
        finally:
            end()


def bind_socket(settings: HttpSettings) -> socket.socket:
    """Bind the address without listening yet, so that no client can connect before the server runs.

    Raises:
        UsageError: The address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on a socket with an explicit TCP protocol; without it each answer takes 40 ms more.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        listening.close()
        why = error.strerror if isinstance(error, OSError) else "ports are 0 to 65535"
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port} ({why}); choose another port with --port", field="port"
        ) from error
    return listening


async def _stop_on_signal(server: ToolServer, seconds: float, on_signal: Callable[[], None] = lambda: None) -> None:
    """Wait for a signal, then drain the running calls; a second signal cancels them at once."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        await anext(aiter(signals))
        on_signal()
        async with anyio.create_task_group() as tasks:

            async def second() -> None:
                await anext(aiter(signals))
                tasks.cancel_scope.cancel()

            tasks.start_soon(second)
            await server.drain(seconds)
            tasks.cancel_scope.cancel()


class Gateway:
    """Notifies a server's clients of tool changes, and coalesces changes that arrive together."""

    def __init__(self, server: ToolServer) -> None:
        self.server = server
        self._change_event = anyio.Event()

    def changed(self) -> None:
        """Report that the tools have changed."""
        self._change_event.set()

    async def notify_changes(self) -> None:
        """Send notifications until cancelled."""
        while True:
            await self._change_event.wait()
            self._change_event = anyio.Event()
            await self.server.tools_changed()


@asynccontextmanager
async def propagate_changes(
    server: ToolServer, on_change: Callable[[Callable[[], Any]], Callable[[], None]]
) -> AsyncGenerator[Gateway]:
    """Notify a server's clients of changes inside the block; `on_change` subscribes a callback and returns its end."""
    gateway = Gateway(server)
    stop = on_change(gateway.changed)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.notify_changes)
            try:
                yield gateway
            finally:
                tasks.cancel_scope.cancel()
    finally:
        stop()
