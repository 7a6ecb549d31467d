"""Running a server until it is told to stop, and stopping it gracefully."""

import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import anyio
import uvicorn
from starlette.types import ASGIApp

from spindle.errors import UsageError
from spindle.mcp.http import Door
from spindle.mcp.impatient import ImpatientProtocol
from spindle.mcp.pipes import StandardStreams
from spindle.mcp.server import ToolServer

_LAST_ANSWERS_SECONDS: Final = 1.0
"""For answers that are made to get through a pipe."""

_KEEP_ALIVE_SECONDS: Final = 20
"""Longer than clients keep an idle connection (5 s, most of them): or one is closed just as a request is sent on it."""


class _Uvicorn(uvicorn.Server):
    """Uvicorn without its own signal handlers: a signal first lets running calls end."""

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
    """Serve the one client at the other end of the pipe until it closes it, or a signal comes."""
    streams = StandardStreams()
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await _stop_on_signal(server, stop_seconds)
            with anyio.move_on_after(_LAST_ANSWERS_SECONDS):
                await streams.answered()
            tasks.cancel_scope.cancel()

        tasks.start_soon(stop)
        async with streams.open() as (incoming, outgoing):
            await server.sdk.run(incoming, outgoing, server.options)
        tasks.cancel_scope.cancel()


async def serve_http(
    server: ToolServer,
    app: ASGIApp,
    door: Door,
    *,
    listening: socket.socket | None = None,
    stop_seconds: float = 10,
    on_ready: Callable[[str], None] = lambda _address: None,
    on_stopping: Callable[[], None] = lambda: None,
) -> None:
    """Serve over HTTP until a signal comes; `on_ready` is told the address, `on_stopping` when the signal has come.

    `listening` is what `bound` gave, for who wants to know that the address can be had before all else is opened.

    Raises:
        UsageError: The address cannot be listened on.
    """
    listening = bound(door) if listening is None else listening
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
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
            # Uvicorn must end by itself, or it leaves its sockets and the application's tasks behind.
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


def bound(door: Door) -> socket.socket:
    """Take the address; nobody can connect before the server runs.

    Raises:
        UsageError: It cannot be had.
    """
    family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
    # Only on a socket that is said to be TCP does asyncio send at once; otherwise each answer waits 40 ms for company.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((door.host, door.port))
    except (OSError, OverflowError) as error:
        listening.close()
        why = error.strerror if isinstance(error, OSError) else "ports are 0 to 65535"
        raise UsageError(
            f"cannot listen on {door.host}:{door.port} ({why}); choose another port with --port", field="port"
        ) from error
    return listening


async def _stop_on_signal(server: ToolServer, seconds: float, on_signal: Callable[[], None] = lambda: None) -> None:
    """Wait for a signal, then until the calls that ran have their answers; a second signal cancels them at once."""
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
