"""The stdio transport: a server in its own process group, which is killed when the link closes."""

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

from spindle.mcp.client.link import MAX_MESSAGE_BYTES, BoundedLines, ErrorMarker, OversizedLine, TailBuffer
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


class ScratchDirectory:
    """A private temporary directory of one server, kept across restarts and removed at the end."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def create(self) -> dict[str, str]:
        """Create the directories and return the environment variables that point to them."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="spindle-mcp-"))
        made: dict[str, str] = {}
        for name, place in _FOLDERS.items():
            folder = self._path / place
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            made[name] = str(folder)
        return made

    def remove(self) -> None:
        """Remove the directory; errors are ignored."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def build_environment(
    spec: ServerSpec, own: Mapping[str, str], scratch: Mapping[str, str], secrets: Mapping[str, str]
) -> dict[str, str]:
    """Build a server's environment; of `own`, the environment of this process, only listed variables are passed on.

    A name that looks secret is passed only when `env_passthrough`, `env` or `env_secrets` names it exactly.
    """
    passed = {name: own[name] for name in INHERITED if name in own}
    for wanted in spec.env_passthrough:
        passed |= {name: own[name] for name in own if name == wanted or _is_covered(name, wanted)}
    # Some shells execute a function definition in a variable (Shellshock).
    passed = {name: value for name, value in passed.items() if not value.startswith("()")}
    given = {**passed, **spec.env, **secrets}
    if "HOME" in given:  # then programs must find the files they keep below it, such as a cache
        scratch = {name: place for name, place in scratch.items() if not name.endswith("_HOME")}
    return {**scratch, **given}


def _is_covered(name: str, pattern: str) -> bool:
    is_sensitive = any(word in name.upper() for word in _SENSITIVE)
    return not is_sensitive and fnmatchcase(name, pattern)


def find_program(command: str, env: Mapping[str, str], cwd: str | None) -> str | None:
    """Resolve a command to a program on the server's own PATH, or return `None`."""
    if os.path.dirname(command):  # noqa: PTH120  only a bare name is looked up, and a Path drops the ./ of ./name
        base = Path(cwd) if cwd else Path()
        return command if (base / command).exists() else None
    return shutil.which(command, path=env.get("PATH", os.defpath))


_STDERR_BYTES = 8 << 10
_STDERR_LINES = 8
_EXIT_SECONDS = 2.0
"""Time for a server to exit after its stdin closes, and again after SIGTERM."""
_POLL_SECONDS = 0.01
_SLOW_POLL_SECONDS = 0.5
_LAST_OUTPUT_SECONDS = 0.25
_CLOSED_ERRORS = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class StdioLink:
    """The stdio link: starts the process, exchanges messages, and keeps the end of its stderr."""

    is_older = False

    def __init__(self, spec: ServerSpec, env: Mapping[str, str]) -> None:
        self.error_marker = ErrorMarker()
        self.broken = anyio.Event()
        self._spec = spec
        self._env = dict(env)
        self._stderr = TailBuffer(_STDERR_BYTES)
        self._exit: int | None = None

    def describe_exit(self) -> str:
        """Return the exit status and the last lines of stderr."""
        ended = "" if self._exit is None else _describe_exit_code(self._exit)
        words = self._stderr.lines(_STDERR_LINES)
        return "; its stderr ended with: ".join(part for part in (ended, words) if part)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any, None]:
        """Start the server, yield its message streams, and kill its process group on exit.

        Raises:
            OSError: The server cannot be started.
        """
        process = await self._get_process()
        incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as pumps:
                pumps.start_soon(self._read, cast("ByteReceiveStream", process.stdout), incoming.clone())
                pumps.start_soon(self._write, cast("ByteSendStream", process.stdin), outgoing, incoming)
                pumps.start_soon(self._listen, cast("ByteReceiveStream", process.stderr))
                pumps.start_soon(self._release_senders, outgoing)
                pumps.start_soon(self._watch_exit, process)
                try:
                    yield read_stream, write_stream
                finally:
                    read_stream.close()
                    write_stream.close()
                    # The process must not outlive a cancelled caller; every wait in `_end` is bounded.
                    with anyio.CancelScope(shield=True):
                        await self._end(process)
                    pumps.cancel_scope.cancel()
        finally:
            for stream in (incoming, read_stream, write_stream, outgoing):
                stream.close()

    async def _get_process(self) -> Process:
        spec = self._spec
        command = find_program(spec.command or "", self._env, spec.cwd)
        if command is None:
            raise FileNotFoundError(f"program {spec.command!r} was not found; check command and the server's PATH")
        if spec.cwd is not None and not await anyio.Path(spec.cwd).is_dir():
            raise NotADirectoryError(f"cwd {spec.cwd!r} is not a directory")
        scope = anyio.CancelScope(shield=True)
        with scope:  # a start cancelled half-way would leak a process
            return await anyio.open_process([command, *spec.args], env=self._env, cwd=spec.cwd, start_new_session=True)
        raise OSError("it was not started")  # unreachable: the scope is never cancelled

    async def _read(self, stdout: ByteReceiveStream, out: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        lines = BoundedLines(MAX_MESSAGE_BYTES)
        with out, suppress(*_CLOSED_ERRORS):
            async for chunk in stdout:
                for line in lines.feed(chunk):
                    await out.send(self._parse_line(line))
        self.broken.set()
        await _drain(stdout)

    def _parse_line(self, line: bytes | OversizedLine) -> SessionMessage | Exception:
        if isinstance(line, OversizedLine):
            message = f"its answer of {line.size} bytes is larger than the limit of {MAX_MESSAGE_BYTES}"
            request_id = line.request_id()
            if request_id is None:
                return ValueError(message)
            return SessionMessage(self.error_marker.build_response(request_id, "too_large", message))
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return ValueError(f"a line of {len(line)} bytes on its stdout is not a protocol message")

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
                except _CLOSED_ERRORS:
                    self.broken.set()
                    if isinstance(message.message, JSONRPCRequest):
                        lost = self.error_marker.build_response(message.message.id, "undelivered", "the server is gone")
                        with suppress(*_CLOSED_ERRORS):
                            await back.send(SessionMessage(lost))
                    return

    async def _watch_exit(self, process: Process) -> None:
        """Detect its exit even when a child process holds its stdout open."""
        await _exit_of(process)
        await anyio.sleep(_LAST_OUTPUT_SECONDS)  # the last output may still be in the pipe
        self.broken.set()

    async def _release_senders(self, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Release senders that wait for a server that no longer reads."""
        await self.broken.wait()
        messages.close()

    async def _listen(self, stderr: ByteReceiveStream) -> None:
        with suppress(*_CLOSED_ERRORS):
            async for chunk in stderr:
                self._stderr.feed(chunk)

    async def _end(self, process: Process) -> None:
        with suppress(*_CLOSED_ERRORS):
            await cast("ByteSendStream", process.stdin).aclose()
        if not await _exits_in_time(process):
            _signal_group(process.pid, signal.SIGTERM)
            await _exits_in_time(process)
        # Also after a clean exit: processes it started are still in its group.
        _signal_group(process.pid, signal.SIGKILL)
        await _exits_in_time(process)
        self._exit = process.returncode
        await _close_pipes(process)


async def _drain(stream: ByteReceiveStream) -> None:
    """Discard further output: a server blocked on a full pipe would not exit."""
    with suppress(*_CLOSED_ERRORS):
        while True:
            await stream.receive()


async def _exit_of(process: Process) -> None:
    try:
        watched = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not on this system
        while process.returncode is None:  # noqa: ASYNC110  there is no event to wait for
            await anyio.sleep(_SLOW_POLL_SECONDS)
        return
    try:
        await anyio.wait_readable(watched)
    finally:
        os.close(watched)


async def _exits_in_time(process: Process) -> bool:
    # Not `wait()`: it also waits for the pipes, which a child of the server may hold open.
    with anyio.move_on_after(_EXIT_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110  there is no event to wait for
            await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform != "win32":
            os.killpg(pid, number)  # it leads its own group, so this process is not in it


async def _close_pipes(process: Process) -> None:
    """Close the pipes, including those whose other end is still open."""
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            with suppress(*_CLOSED_ERRORS):
                await stream.aclose()
    if transport is not None:
        transport.close()  # asyncio offers no public access to it


def _describe_exit_code(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    with suppress(ValueError):
        return f"it was killed by {signal.Signals(-code).name}"
    return f"it was killed by signal {-code}"
