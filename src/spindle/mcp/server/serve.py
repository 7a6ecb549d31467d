"""Runs a server over stdio or HTTP until a signal, shuts it down gracefully, and notifies clients of tool changes."""

import asyncio
import os
import select
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import Any, Final

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from spindle.artifacts.spool import Spool
from spindle.errors import UsageError
from spindle.events import Events
from spindle.mcp.client.link import MAX_MESSAGE_BYTES, BoundedLines, OversizedLine
from spindle.mcp.server.http import HttpSettings
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


REQUEST_TIMEOUT_SECONDS: Final = 30.0
"""A request must be complete within one to two times this; the response has no such limit."""

_NOT_CHECKED: Final = object()


class IdleTimeoutProtocol(AutoHTTPProtocol):
    """A uvicorn protocol that closes idle connections and slow requests (slowloris), which uvicorn does not."""

    cycle: Any  # set by uvicorn, with either of its parsers
    loop: Any
    transport: Any
    _timer: asyncio.TimerHandle | None = None
    _seen: object = _NOT_CHECKED

    @override
    def connection_made(self, transport: Any) -> None:
        """Start the idle check."""
        super().connection_made(transport)
        self._check_idle()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the idle check."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _check_idle(self) -> None:
        cycle = self.cycle
        is_idle = cycle is None or cycle.response_complete or cycle.more_body
        # The same cycle as at the last check: no request has completed in between.
        if is_idle and self._seen is cycle:
            self.transport.close()
            return
        self._seen = cycle if is_idle else _NOT_CHECKED
        self._timer = self.loop.call_later(REQUEST_TIMEOUT_SECONDS, self._check_idle)


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
    settings: HttpSettings,
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
    listening = bind_socket(settings) if listening is None else listening
    bound, port = listening.getsockname()[:2]
    # No client can connect to 0.0.0.0.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(bound), str(bound))  # noqa: S104  compared with, not bound
    shown = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        app,
        http=IdleTimeoutProtocol,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        lifespan="on",
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    uv = _Uvicorn(config, lambda: on_ready(f"{settings.scheme}://{shown}:{port}{settings.path}"))

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


NOTIFY_SECONDS: Final = 1.0
"""Least time between two notifications of clients that the tools have changed."""


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
            # Every client lists the tools again: a server that reports changes all the time must not make them busy.
            await anyio.sleep(NOTIFY_SECONDS)


@asynccontextmanager
async def propagate_changes(
    server: ToolServer, on_change: Callable[[Callable[[], object]], Callable[[], None]]
) -> AsyncGenerator[Gateway]:
    """Notify a server's clients of changes inside the block; `on_change` subscribes a callback and returns its end."""
    gateway = Gateway(server)
    stop = on_change(gateway.changed)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.notify_changes)
            tasks.start_soon(server.features.changes.propagate)
            try:
                yield gateway
            finally:
                tasks.cancel_scope.cancel()
    finally:
        stop()


SPOOL_SECONDS: Final = 5.0
"""Least time between two looks at the size of the spool."""
_PAUSES: Final = 20
"""The pause after a look, in times of what it took."""


async def limit_spool(
    server: ToolServer, spool: Spool, *, max_bytes: int, events: Events, pause_seconds: float = SPOOL_SECONDS
) -> None:
    """Keep a spool within its size until cancelled: oldest first, and never what a client may still read.

    Each time artifacts are removed, and when those that clients may read exceed the size, a warning is emitted.
    """
    has_warned = has_failed = False
    while True:
        begun = anyio.current_time()
        try:
            has_warned = await _prune(server, spool, max_bytes, events, has_warned=has_warned)
            has_failed = False
        except Exception as error:  # noqa: BLE001  a spool that fails must not stop the server
            if not has_failed:
                events.warn("the size of the spool could not be limited", source="spool", error=error)
            has_failed = True
        await anyio.sleep(max(pause_seconds, _PAUSES * (anyio.current_time() - begun)))


async def _prune(server: ToolServer, spool: Spool, max_bytes: int, events: Events, *, has_warned: bool) -> bool:
    before = await spool.stats()
    if before.bytes <= max_bytes:
        return False
    # Asked after the entries were listed: a call that ends later has an entry that is not among them.
    readable = cache(server.find_readable_calls)
    elsewhere = await server.find_calls_readable_elsewhere()
    # The server passes the id of a call as that of its turn.
    removed = await spool.prune(
        max_bytes=max_bytes, is_needed=lambda entry: entry.turn_id in elsewhere or entry.turn_id in readable()
    )
    after = await spool.stats()
    if removed:
        freed = before.bytes - after.bytes
        events.warn(
            f"the spool exceeded max_bytes ({max_bytes}): {removed} artifacts removed, {freed} bytes", source="spool"
        )
    if after.bytes > max_bytes and not has_warned:
        text = f"the spool has {after.bytes} bytes, more than max_bytes ({max_bytes}), which clients may still read"
        events.warn(text, source="spool")
    return after.bytes > max_bytes
