"""A server in a process of its own, spoken to over its standard streams; its whole group ends with the link."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from spindle.mcp.client.link import MAX_MESSAGE_BYTES, BoundedLines, Seal, Tail, TooLong
from spindle.mcp.spec import ServerSpec

INHERITED = ("PATH", "USER", "LANG", "LC_ALL", "TERM", "SHELL")
_SENSITIVE = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_FOLDERS = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "XDG_CACHE_HOME": "home/.cache",
    "XDG_CONFIG_HOME": "home/.config",
    "XDG_DATA_HOME": "home/.local/share",
    "XDG_STATE_HOME": "home/.local/state",
    "XDG_RUNTIME_DIR": "run",
}


class Scratch:
    """A folder of one server's own, kept while it is restarted and removed in the end."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def variables(self) -> dict[str, str]:
        """Make the folders, and give the variables that point there."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="spindle-mcp-"))
        made: dict[str, str] = {}
        for name, place in _FOLDERS.items():
            folder = self._path / place
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            made[name] = str(folder)
        return made

    def remove(self) -> None:
        """Remove the folder; what cannot be removed is left to the system."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def environment(
    spec: ServerSpec, own: Mapping[str, str], scratch: Mapping[str, str], secrets: Mapping[str, str]
) -> dict[str, str]:
    """Put a server's environment together; `own` is that of this process, and nothing else of it gets through.

    A name that looks secret passes only when it is written out in `env_passthrough`, `env` or `env_secrets`.
    """
    passed = {name: own[name] for name in INHERITED if name in own}
    for wanted in spec.env_passthrough:
        passed |= {name: own[name] for name in own if name == wanted or _is_covered(name, wanted)}
    # A shell function smuggled in as a variable is run by some shells.
    passed = {name: value for name, value in passed.items() if not value.startswith("()")}
    given = {**passed, **spec.env, **secrets}
    if "HOME" in given:  # then what programs keep below it is found there too, such as a cache
        scratch = {name: place for name, place in scratch.items() if not name.endswith("_HOME")}
    return {**scratch, **given}


def _is_covered(name: str, pattern: str) -> bool:
    is_sensitive = any(word in name.upper() for word in _SENSITIVE)
    return not is_sensitive and fnmatchcase(name, pattern)


def program(command: str, env: Mapping[str, str], cwd: str | None) -> str | None:
    """Find the program a command means, as the server's own PATH has it."""
    if os.path.dirname(command):  # noqa: PTH120  a bare name is to be looked up, and a Path does not tell it from ./name
        base = Path(cwd) if cwd else Path()
        return command if (base / command).exists() else None
    return shutil.which(command, path=env.get("PATH", os.defpath))


_STDERR_BYTES = 8 << 10
_STDERR_LINES = 8
_EXIT_SECONDS = 2.0
"""For a server to end by itself when its stdin closes, and again after SIGTERM."""
_POLL_SECONDS = 0.01
_SLOW_POLL_SECONDS = 0.5
_LAST_OUTPUT_SECONDS = 0.25
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class StdioLink:
    """Starts the process, carries messages, keeps the last of its stderr."""

    def __init__(self, spec: ServerSpec, env: Mapping[str, str]) -> None:
        self.seal = Seal()
        self.broken = anyio.Event()
        self._spec = spec
        self._env = dict(env)
        self._stderr = Tail(_STDERR_BYTES)
        self._exit: int | None = None

    def last_words(self) -> str:
        """The last lines of its stderr, and how it ended."""
        ended = "" if self._exit is None else _how_it_ended(self._exit)
        words = self._stderr.lines(_STDERR_LINES)
        return "; it last wrote to stderr: ".join(part for part in (ended, words) if part)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any, None]:
        """Start the server, give the streams of its messages, and end it with its whole group.

        Raises:
            OSError: It cannot be started.
        """
        process = await self._started()
        incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as pumps:
                pumps.start_soon(self._read, cast("ByteReceiveStream", process.stdout), incoming.clone())
                pumps.start_soon(self._write, cast("ByteSendStream", process.stdin), outgoing, incoming)
                pumps.start_soon(self._listen, cast("ByteReceiveStream", process.stderr))
                pumps.start_soon(self._let_go, outgoing)
                pumps.start_soon(self._watch_exit, process)
                try:
                    yield read_stream, write_stream
                finally:
                    read_stream.close()
                    write_stream.close()
                    # Whatever happens to the caller, the process must not be left behind; every wait in it is bounded.
                    with anyio.CancelScope(shield=True):
                        await self._end(process)
                    pumps.cancel_scope.cancel()
        finally:
            for stream in (incoming, read_stream, write_stream, outgoing):
                stream.close()

    async def _started(self) -> Process:
        spec = self._spec
        command = program(spec.command or "", self._env, spec.cwd)
        if command is None:
            raise FileNotFoundError(f"no program is called {spec.command!r}; look at command and at its PATH")
        if spec.cwd is not None and not await anyio.Path(spec.cwd).is_dir():
            raise NotADirectoryError(f"cwd {spec.cwd!r} is no folder")
        scope = anyio.CancelScope(shield=True)
        with scope:  # or a start that is cancelled half-way would leave a process that nobody knows of
            return await anyio.open_process([command, *spec.args], env=self._env, cwd=spec.cwd, start_new_session=True)
        raise OSError("it was not started")  # never reached: nobody cancels the scope

    async def _read(self, stdout: ByteReceiveStream, out: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        lines = BoundedLines(MAX_MESSAGE_BYTES)
        with out, suppress(*_GONE):
            async for chunk in stdout:
                for line in lines.feed(chunk):
                    await out.send(self._parsed(line))
        self.broken.set()
        await _drained(stdout)

    def _parsed(self, line: bytes | TooLong) -> SessionMessage | Exception:
        if isinstance(line, TooLong):
            message = f"its answer of {line.size} bytes is larger than the {MAX_MESSAGE_BYTES} that are taken"
            request_id = line.request_id()
            if request_id is None:
                return ValueError(message)
            return SessionMessage(self.seal.answer(request_id, "too_large", message))
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return ValueError(f"a line of {len(line)} bytes on its stdout is no message of the protocol")

    async def _write(
        self,
        stdin: ByteSendStream,
        messages: MemoryObjectReceiveStream[SessionMessage],
        back: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        with messages, back, suppress(anyio.ClosedResourceError):
            async for message in messages:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await stdin.send(text.encode("utf-8", "replace") + b"\n")
                except _GONE:
                    self.broken.set()
                    if isinstance(message.message, JSONRPCRequest):
                        lost = self.seal.answer(message.message.id, "undelivered", "the server is gone")
                        with suppress(*_GONE):
                            await back.send(SessionMessage(lost))
                    return

    async def _watch_exit(self, process: Process) -> None:
        """Notice its end also where something it started holds its stdout open."""
        await _exit_of(process)
        await anyio.sleep(_LAST_OUTPUT_SECONDS)  # what it said last may still be in the pipe
        self.broken.set()

    async def _let_go(self, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Release those who wait for a server to read what it never will."""
        await self.broken.wait()
        messages.close()

    async def _listen(self, stderr: ByteReceiveStream) -> None:
        with suppress(*_GONE):
            async for chunk in stderr:
                self._stderr.feed(chunk)

    async def _end(self, process: Process) -> None:
        with suppress(*_GONE):
            await cast("ByteSendStream", process.stdin).aclose()
        if not await _exited(process):
            _signal_group(process.pid, signal.SIGTERM)
            await _exited(process)
        # Also when it ended by itself: what it started is in its group, and nobody else would end that.
        _signal_group(process.pid, signal.SIGKILL)
        await _exited(process)
        self._exit = process.returncode
        await _released(process)


async def _drained(stream: ByteReceiveStream) -> None:
    """Read on after nobody listens: a server that cannot write would not come to its end."""
    with suppress(*_GONE):
        while True:
            await stream.receive()


async def _exit_of(process: Process) -> None:
    try:
        watched = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not on this system
        while process.returncode is None:  # noqa: ASYNC110  nobody tells us
            await anyio.sleep(_SLOW_POLL_SECONDS)
        return
    try:
        await anyio.wait_readable(watched)
    finally:
        os.close(watched)


async def _exited(process: Process) -> bool:
    # Not `wait()`: it also waits for the pipes, which a child of the server may hold open.
    with anyio.move_on_after(_EXIT_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110  nobody tells us
            await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform != "win32":
            os.killpg(pid, number)  # it leads its own group, so nothing of ours is in it


async def _released(process: Process) -> None:
    """Close the pipes, also those whose other end somebody still holds."""
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            with suppress(*_GONE):
                await stream.aclose()
    if transport is not None:
        transport.close()  # asyncio's own, which nothing public gives


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    with suppress(ValueError):
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"
