"""Upstream servers for the tests of the MCP client: specs of real processes, and a clock moved by hand."""

import os
import queue
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio

from spindle import Call, CallOutcome, Events, Executor, ToolContext
from spindle.mcp.client.servers import McpServers
from spindle.mcp.spec import ServerSpec
from tests.bounds import wait_until

SERVERS = Path(__file__).parent / "servers"
IN_TIME = 60
"""Seconds: far more than anything here takes, for a machine with other things to do."""


def everything(name: str = "e", **more: Any) -> ServerSpec:
    """The server written with the SDK, over stdio; without a sandbox, which takes time to start, unless it is asked."""
    more.setdefault("sandbox", "none")
    return ServerSpec(name=name, command=sys.executable, args=(str(SERVERS / "everything.py"), "stdio"), **more)


def hostile(*flags: str, name: str = "h", log: Path | None = None, **more: Any) -> ServerSpec:
    """The server that does what no server should."""
    more.setdefault("sandbox", "none")
    noted = () if log is None else ("--log", str(log))
    args = ("-I", "-S", str(SERVERS / "hostile.py"), *noted, *flags)
    return ServerSpec(name=name, command=sys.executable, args=args, **more)


@contextmanager
def serving(script: str, *args: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """A server over HTTP on a free port of this machine: its address, and its process."""
    command = [sys.executable, str(SERVERS / script), *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp", process
        finally:
            process.kill()


@contextmanager
def serving_everything(*, is_older: bool = False) -> Generator[str]:
    """The server written with the SDK, over HTTP, in a thread: a process of its own takes long to import the SDK."""
    space = runpy.run_path(str(SERVERS / "everything.py"))  # a server of its own each time
    with socket.create_server(("127.0.0.1", 0)) as listening:
        servers: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def run() -> None:  # built in the thread: parts of it would be bound to the event loop of the test
            server = space["build_http_server"](is_older=is_older)
            servers.put(server)
            server.run(sockets=[listening])

        thread = threading.Thread(target=run)
        thread.start()
        server = servers.get(timeout=IN_TIME)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(IN_TIME)


class HandClock:
    """Time passes when the test says so; it records how long each sleeper wanted to sleep."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._now = 0.0
        self._sleepers: dict[anyio.Event, float] = {}
        self._came = anyio.Event()

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken = anyio.Event()
        self._sleepers[woken] = self._now + seconds
        self.slept.append(seconds)
        self._came.set()
        try:
            await woken.wait()
        finally:
            self._sleepers.pop(woken, None)

    async def asleep(self, seconds: float) -> None:
        """Wait until a task sleeps for this time, or for a time that jitter reduced by at most a half."""
        while not any(seconds / 2 <= until - self._now <= seconds for until in self._sleepers.values()):
            self._came = anyio.Event()
            await self._came.wait()

    def advance(self, seconds: float) -> None:
        self._now += seconds
        for woken, until in list(self._sleepers.items()):
            if until <= self._now:
                woken.set()


class EventLog:
    """The events of an upstream server."""

    def __init__(self) -> None:
        self.events = Events()
        self.warnings: list[str] = []
        self.logs: list[Any] = []
        self._changed = anyio.Event()
        self.events.on("warning", lambda warned: self._hear(self.warnings, warned.message))
        self.events.on("log", lambda logged: self._hear(self.logs, logged))

    def _hear(self, kept: list[Any], said: Any) -> None:
        kept.append(said)
        self._changed.set()

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Wait until an event arrives."""
        with anyio.fail_after(IN_TIME):
            while not wanted():
                self._changed = anyio.Event()
                await self._changed.wait()

    def warned_of(self, *words: str) -> bool:
        return any(all(word in warning for word in words) for warning in self.warnings)


@asynccontextmanager
async def connected(*specs: ServerSpec, **more: Any) -> AsyncGenerator[McpServers, None]:
    """Servers that are up, or have failed to be."""
    more.setdefault("events", EventLog().events)
    with anyio.fail_after(IN_TIME):
        async with McpServers(specs, **more) as servers:
            await servers.ready()
            yield servers


async def call(servers: McpServers, name: str, args: Any = None, *, ctx: Any = None) -> CallOutcome:
    """Run one call through the public door."""
    outcomes = await calls(servers, (name, args or {}), ctx=ctx)
    return outcomes[0]


async def calls(servers: McpServers, *wanted: tuple[str, Any], ctx: Any = None) -> list[CallOutcome]:
    """Run calls side by side through the public door."""
    batch = [Call(f"c{i}", name, args) for i, (name, args) in enumerate(wanted)]
    return await Executor(servers.registry).execute_parallel(batch, ctx or ToolContext())


async def changed_to(servers: McpServers, wanted: Any) -> None:
    """Wait until something holds, looking anew after each change."""
    with anyio.fail_after(IN_TIME):
        while not wanted():
            event = anyio.Event()
            stop = servers.on_change(event.set)
            await event.wait()
            stop()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is not reaped yet does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_for_ends(pids: Iterable[int | str]) -> None:
    """Wait until processes have ended: one that was killed is there until the kernel has taken it away."""
    numbers = [int(pid) for pid in pids]
    wait_until(lambda: not any(map(is_alive, numbers)), lambda: f"of the processes {numbers}")
