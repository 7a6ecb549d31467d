"""One run of a command: starting it, capturing its output, and ending every process it started."""

import codecs
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from spindle.capabilities.declare import FileReach, OutputSpool, SecretCollector, mask_pieces
from spindle.capabilities.process.backend_launch import LauncherProcess, LauncherReport, launch
from spindle.capabilities.process.backend_sandbox import PidsCgroup, Sandbox, get_required_enforcement
from spindle.capabilities.process.backend_view import VisiblePaths, add_configuration, skip_configuration
from spindle.capabilities.process.policy import ProcessLimits, SandboxMode
from spindle.errors import SandboxUnavailableError
from spindle.json_types import JsonObject

_CHUNK_BYTES = 1 << 16


class OutputCapture:
    """The captured output of one stream of a command; output beyond the kept bytes goes to the spool."""

    def __init__(
        self,
        name: str,
        *,
        keep_bytes: int,
        spool_bytes: int,
        spool: OutputSpool | None,
        redactor: SecretCollector | None = None,
        id: str,
        turn_id: str | None,
    ) -> None:
        self.name = name
        self.total_bytes = 0
        self.artifact: str | None = None
        self.notes: list[str] = []
        self._keep_bytes = keep_bytes
        self._spool_bytes = spool_bytes
        self._spool = spool
        self._redactor = redactor
        self._id, self._turn_id = id, turn_id
        self._head = bytearray()
        self._spool_stream: MemoryObjectSendStream[bytes] | None = None
        self._spooled_bytes = 0

    @property
    def is_truncated(self) -> bool:
        """Whether the stream was longer than the part kept in memory."""
        return self.total_bytes > self._keep_bytes

    @property
    def raw(self) -> bytes:
        """The kept beginning of the output, as bytes."""
        return bytes(self._head)

    @property
    def text(self) -> str:
        """The kept beginning as text; a character split by the truncation is left out."""
        return codecs.getincrementaldecoder("utf-8")("replace").decode(self.raw, final=not self.is_truncated)

    async def pump(self, descriptor: int) -> None:
        """Read the stream to its end, keeping the first bytes and spooling the rest."""
        async with anyio.create_task_group() as tasks:
            try:
                async for chunk in _chunks(descriptor):
                    await self._add_chunk(chunk, tasks)
            finally:
                if self._spool_stream is not None:
                    self._spool_stream.close()
        self._note_dropped_output()

    async def _add_chunk(self, chunk: bytes, tasks: TaskGroup) -> None:
        room = self._keep_bytes - len(self._head)
        self._head += chunk[: max(0, room)]
        self.total_bytes += len(chunk)
        if self._spool is None or not self._spool_bytes or not self.is_truncated:
            return
        if self._spool_stream is None:
            if self._spooled_bytes:
                return  # the spool failed, or is full
            self._spool_stream, receiving = anyio.create_memory_object_stream[bytes](0)
            tasks.start_soon(self._write, self._spool, receiving)
            await self._send(self.raw)
            chunk = chunk[max(0, room) :]
        await self._send(chunk)

    async def _send(self, piece: bytes) -> None:
        if self._spool_stream is None:
            return
        piece = piece[: self._spool_bytes - self._spooled_bytes]
        self._spooled_bytes += len(piece)
        try:
            if piece:
                await self._spool_stream.send(piece)
        except anyio.BrokenResourceError:
            self._close_spool_stream()
        else:
            if self._spooled_bytes >= self._spool_bytes:
                self._close_spool_stream()

    def _close_spool_stream(self) -> None:
        if self._spool_stream is not None:
            self._spool_stream.close()
            self._spool_stream = None

    async def _write(self, spool: OutputSpool, receiving: MemoryObjectReceiveStream[bytes]) -> None:
        async with receiving:
            try:
                pieces = mask_pieces(_pieces(receiving), self._redactor)
                await spool.write(self._id, pieces, turn_id=self._turn_id)
            except Exception as error:  # noqa: BLE001 - a failing spool must not lose the command's result
                self.notes.append(f"{self.name}: the spool failed ({type(error).__name__})")
            else:
                self.artifact = self._id

    def _note_dropped_output(self) -> None:
        kept = self._spooled_bytes if self.artifact else len(self._head)
        if kept < self.total_bytes:
            self.notes.append(
                f"{self.name}: {self.total_bytes} bytes in total, those after the first {kept} were dropped"
            )


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


_WATCHDOG_SECONDS = 8.0
"""How long after the grace period the launcher may take to end its processes before it is killed."""
_DRAIN_SECONDS = 1.0
"""How long to keep reading a pipe after the last known process has ended."""


class CommandRun:
    """A command in progress."""

    def __init__(self, launched: LauncherProcess, *, grace_seconds: float) -> None:
        self.report = LauncherReport()
        self.timed_out = False
        self._launched = launched
        self._grace = grace_seconds
        self._report_closed = False
        self.release_error: OSError | None = None
        """Why the launcher was not released to start the command."""

    async def run_to_end(
        self,
        stdin: bytes | None,
        outputs: tuple[OutputCapture, OutputCapture],
        *,
        timeout_seconds: float | None,
        on_ready: Callable[[], None],
    ) -> None:
        """Feed stdin, read the outputs and wait until every process of the command has ended, even if cancelled."""
        launched = self._launched
        try:
            async with anyio.create_task_group() as tasks:
                pumps = [
                    _OutputPump(output, descriptor)
                    for output, descriptor in zip(outputs, (launched.stdout, launched.stderr), strict=True)
                ]
                for pump in pumps:
                    tasks.start_soon(pump.run)
                if stdin is not None and launched.stdin is not None:
                    tasks.start_soon(self._feed, stdin, launched.stdin)
                await self._wait(timeout_seconds, on_ready)
                with anyio.move_on_after(_DRAIN_SECONDS):
                    for pump in pumps:
                        await pump.done.wait()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop_launcher()

    async def _wait(self, timeout_seconds: float | None, on_ready: Callable[[], None]) -> None:
        with anyio.move_on_after(timeout_seconds) as patience:
            await self._read_report(on_ready)
        if not patience.cancelled_caught:
            return
        self.timed_out = not self.report.has_ended
        if self.timed_out:
            self._launched.send_command(b"t")
        with anyio.move_on_after(self._grace + _WATCHDOG_SECONDS):
            await self._read_report(on_ready)

    async def _read_report(self, on_ready: Callable[[], None]) -> None:
        """Read the launcher's report until it closes the pipe, which it does when all is done."""
        while not self._report_closed:
            await anyio.wait_readable(self._launched.report)
            try:
                data = os.read(self._launched.report, 65536)
            except BlockingIOError:
                continue
            self._report_closed = not data
            was_ready = self.report.is_ready
            self.report.feed(data)
            if self.report.is_ready and not was_ready:
                await self._release_launcher(on_ready)

    async def _release_launcher(self, on_ready: Callable[[], None]) -> None:
        try:
            await anyio.to_thread.run_sync(on_ready)
        except OSError as error:
            self.release_error = error
        self._launched.send_command(b"k" if self.release_error else b"g")

    async def _feed(self, data: bytes, descriptor: int) -> None:
        view = memoryview(data)
        # A command may end, or close its input, without having read it all.
        with suppress(BrokenPipeError):
            while view:
                await anyio.wait_writable(descriptor)
                with suppress(BlockingIOError):
                    view = view[os.write(descriptor, view[:65536]) :]
        self._launched.close_stdin()

    async def _stop_launcher(self) -> None:
        """End the launcher: terminate it unless it has finished, and kill it if it does not exit in time."""
        if not self._report_closed:
            self._launched.send_command(b"t")
            with anyio.move_on_after(self._grace + _WATCHDOG_SECONDS):
                await self._read_report(lambda: None)
        self._launched.close()
        await anyio.to_thread.run_sync(self._reap)

    def _reap(self) -> None:
        process = self._launched.process
        try:
            process.wait(_WATCHDOG_SECONDS)
        except subprocess.TimeoutExpired:
            _kill_group(process.pid)
            process.wait()
        # A launcher that did not report the end of the command was killed, perhaps by the command itself.
        if not self.report.has_ended and self.report.started_pid and "pids" not in self.report.enforced:
            _kill_group(self.report.started_pid)


class _OutputPump:
    """A pump with an event that is set when it is done."""

    def __init__(self, output: OutputCapture, descriptor: int) -> None:
        self.done = anyio.Event()
        self._output, self._descriptor = output, descriptor

    async def run(self) -> None:
        await self._output.pump(self._descriptor)
        self.done.set()


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


LOOSEN_HINT = (
    "install bubblewrap, allow user namespaces or Landlock, grant all of the root, or pass sandbox='none' to run "
    "commands without a sandbox"
)


class LaunchSettings(Protocol):
    """The part of a backend that `CommandStart` reads."""

    limits: ProcessLimits
    mode: SandboxMode
    grace_seconds: float

    def sandbox(self) -> Sandbox:
        """Return the sandbox that commands run in."""
        ...

    def find_view(self, declared: FileReach | None) -> VisiblePaths:
        """Return the paths that a command of a tool sees."""
        ...


class CommandStart:
    """The start of one command; `launch` and `clear` block and are run in threads."""

    def __init__(
        self,
        settings: LaunchSettings,
        path: str,
        argv: list[str],
        env: dict[str, str],
        folder: str,
        *,
        declared: FileReach | None = None,
    ) -> None:
        self._settings = settings
        self._declared = declared
        self._path, self._argv, self._env, self._folder = path, argv, env, folder
        self._scratch: str | None = None
        self._group: PidsCgroup | None = None
        self._launched: LauncherProcess | None = None
        self._is_closed = False
        self._lock = Lock()

    def launch(self, feed: bool) -> LauncherProcess:  # noqa: FBT001 - called through a thread, by position
        """Start the launcher.

        Raises:
            OSError: The launcher cannot be started.
            SandboxUnavailableError: A sandbox is required, or the command may reach less than the root, and no sandbox
                can enforce that.
        """
        sandbox = self._settings.sandbox()
        # Found for every command: a file without secrets now may contain one later.
        view = self._settings.find_view(self._declared)
        if sandbox.kind == "none" and view.list_requirements():
            raise SandboxUnavailableError(
                f"{self._argv[0]} may reach less than the root, and this machine has no sandbox that enforces it; "
                f"{LOOSEN_HINT}",
                missing=view.list_requirements(),
            )
        view = add_configuration(view.with_program(self._path))
        with self._lock:
            if self._is_closed:
                raise ProcessLookupError("the command was cancelled before it started")
            # Directly below the root, under an unpredictable name, so that no symbolic link can be planted there; or in
            # the system's folder for temporary files, if the command may not write to the root.
            is_root_writable = view.root in view.write or not sandbox.is_confining
            place = view.root if is_root_writable else os.path.realpath(tempfile.gettempdir())
            self._scratch = tempfile.mkdtemp(prefix=".spindle-", dir=place)
            view = view.with_scratch(self._scratch)
            if os.getuid() == 0 and self._settings.limits.processes is not None:
                self._group = PidsCgroup.create()
            self._launched = launch(sandbox.build_prefix(view), self._plan(sandbox, view, self._scratch), feed=feed)
            return self._launched

    def _plan(self, sandbox: Sandbox, view: VisiblePaths, scratch: str) -> JsonObject:
        settings = self._settings
        required = get_required_enforcement(view) if settings.mode == "required" else ()
        required += view.list_requirements() if sandbox.is_confining else ()
        skipping = skip_configuration(view, self._env, scratch) if sandbox.is_confining else {}
        return sandbox.build_plan(view, cwd=self._folder, required=required) | {
            "path": self._path,
            "argv": self._argv,
            "env": {"HOME": scratch, "TMPDIR": scratch, **skipping, **self._env},
            "limits": asdict(settings.limits),
            "grace_seconds": float(settings.grace_seconds),
            "wait": self._group is not None,
        }

    def limit_processes(self) -> None:
        """Put the waiting launcher and everything it will start into a pids cgroup, which binds root too.

        Raises:
            OSError: The system refuses the cgroup.
        """
        if self._group is not None and self._launched is not None and self._settings.limits.processes is not None:
            self._group.add_processes(self._launched.process.pid, self._settings.limits.processes)

    def clean_up(self) -> None:
        """Remove the scratch folder and the cgroup; end a launcher whose caller was cancelled before taking it over."""
        with self._lock:
            self._is_closed = True
            if self._launched is not None and not self._launched.is_closed:
                self._launched.close()
                with suppress(subprocess.TimeoutExpired):
                    self._launched.process.wait(10)
            if self._scratch is not None:
                _remove(self._scratch)
            if self._group is not None:
                self._group.remove()


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        # The command may have replaced the folder by a file or a link.
        Path(folder).unlink(missing_ok=True)
