"""The process of a stdio server, started directly or through the launcher of a sandbox."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol, cast

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.lowlevel import checkpoint
from typing_extensions import override

from spindle.capabilities.process.backend_launch import LauncherProcess
from spindle.capabilities.process.backend_program import ProgramStart, RunningProgram
from spindle.errors import SandboxUnavailableError

CLOSED_ERRORS = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
_SLOW_POLL_SECONDS = 0.5
_CHUNK_BYTES = 65_536
_LAST_REPORT_SECONDS = 6.0
"""How long the launcher may take to end killed processes."""
_POLL_SECONDS = 0.01


class ServerProcess(Protocol):
    """A started server."""

    @property
    def stdin(self) -> ByteSendStream:
        """Its input."""
        ...

    @property
    def stdout(self) -> ByteReceiveStream:
        """Its output."""
        ...

    @property
    def stderr(self) -> ByteReceiveStream:
        """Its error output."""
        ...

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal, or `None` while it runs."""
        ...

    @property
    def start_error(self) -> str | None:
        """Why the program could not be executed, as far as it is known."""
        ...

    async def wait_for_exit(self) -> None:
        """Wait until the server itself has ended, not its descendants."""
        ...

    def terminate(self) -> None:
        """Ask it and its descendants to end."""
        ...

    async def aclose(self) -> None:
        """Kill what is left of its processes and close the pipes."""
        ...


class DirectProcess:
    """A server without a sandbox, in its own process group."""

    start_error: str | None = None

    def __init__(self, process: Process) -> None:
        self._process = process
        self.stdin = cast("ByteSendStream", process.stdin)
        self.stdout = cast("ByteReceiveStream", process.stdout)
        self.stderr = cast("ByteReceiveStream", process.stderr)

    @classmethod
    async def start(cls, command: Sequence[str], *, env: Mapping[str, str], cwd: str | None) -> "DirectProcess":
        """Start a server.

        Raises:
            OSError: It cannot be started.
        """
        return cls(await anyio.open_process(command, env=env, cwd=cwd, start_new_session=True))

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal, or `None` while it runs."""
        return self._process.returncode

    async def wait_for_exit(self) -> None:
        """Wait until the server itself has ended."""
        # Not `wait()`: it also waits for the pipes, which a child of the server may hold open.
        try:
            watched = os.pidfd_open(self._process.pid)
        except ProcessLookupError:
            return
        except (AttributeError, OSError):  # not on this system
            while self._process.returncode is None:  # noqa: ASYNC110  there is no event to wait for
                await anyio.sleep(_SLOW_POLL_SECONDS)
            return
        try:
            await anyio.wait_readable(watched)
        finally:
            os.close(watched)

    def terminate(self) -> None:
        """Ask its process group to end."""
        self._signal_group(signal.SIGTERM)

    async def aclose(self) -> None:
        """Kill its process group, also after a clean exit, and close the pipes, also those whose other end is open."""
        self._signal_group(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
        with anyio.move_on_after(_LAST_REPORT_SECONDS):
            while self.returncode is None:  # noqa: ASYNC110  there is no event to wait for
                await anyio.sleep(_POLL_SECONDS)
        transport = getattr(getattr(self._process, "_process", None), "_transport", None)
        for stream in (self.stdout, self.stderr):
            with suppress(*CLOSED_ERRORS):
                await stream.aclose()
        if transport is not None:
            transport.close()  # asyncio offers no public access to it

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform != "win32":
                os.killpg(self._process.pid, number)  # it leads its own group, so this process is not in it


class LaunchedProcess:
    """A server started through the launcher, which ends all of its descendants, whatever group they are in."""

    def __init__(self, program: RunningProgram) -> None:
        self._program = program
        launched = program.launched
        self.stdin = _SendPipe(launched)
        self.stdout = _ReceivePipe(launched.stdout)
        self.stderr = _ReceivePipe(launched.stderr)

    @classmethod
    async def start(cls, start: ProgramStart) -> "LaunchedProcess":
        """Start a server and wait until it is confined.

        Raises:
            OSError: It cannot be started.
            SandboxUnavailableError: The sandbox does not enforce what is required.
        """
        started = cls(await anyio.to_thread.run_sync(RunningProgram.start, start))
        try:
            await started._wait_for_start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await started.aclose()
            raise
        return started

    @property
    def enforced(self) -> frozenset[str]:
        """What the sandbox enforces for this process."""
        return self._program.enforced

    @property
    def missing(self) -> dict[str, str]:
        """What the launcher could not set up, and why."""
        return dict(self._program.report.missing)

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal, or `None` while it runs."""
        if not self._program.launched.is_closed:
            self._program.read_report()
        return self._program.returncode

    @property
    def start_error(self) -> str | None:
        """Why the program could not be executed."""
        failure = self._program.report.failure
        return None if failure is None else f"it was not started: {failure[2]}"

    async def wait_for_exit(self) -> None:
        """Wait until the server itself has ended."""
        while self.returncode is None:
            await anyio.wait_readable(self._program.launched.report)

    def terminate(self) -> None:
        """Ask all of its processes to end."""
        self._program.terminate()

    async def aclose(self) -> None:
        """Kill all of its processes and close the pipes."""
        program, launched = self._program, self._program.launched
        if launched.is_closed:
            return
        program.kill()
        with anyio.move_on_after(_LAST_REPORT_SECONDS):
            while not program.is_report_closed:
                program.read_report()
                await anyio.sleep(_POLL_SECONDS)
        await self.stdin.aclose()
        self.stdout.is_closed = self.stderr.is_closed = True
        for descriptor in (launched.report, launched.stdout, launched.stderr):
            anyio.notify_closing(descriptor)
        launched.close()
        await anyio.to_thread.run_sync(program.reap)

    async def _wait_for_start(self) -> None:
        program = self._program
        program.read_report()
        while not program.has_started:
            await anyio.wait_readable(program.launched.report)
            program.read_report()
        failure = program.report.failure
        if failure is None and program.report.enforced:
            return
        stage, number, words = failure or ("launcher", 0, self._read_complaint())
        if stage == "sandbox":
            raise SandboxUnavailableError(
                f"a sandbox is required, but {words} cannot be enforced for this server", missing=words.split()
            )
        if stage == "cwd":
            raise NotADirectoryError(f"its working directory cannot be entered: {words}")
        raise OSError(number, f"it was not started ({stage}): {words}")

    def _read_complaint(self) -> str:
        with suppress(OSError):
            return os.read(self._program.launched.stderr, 2_000).decode("utf-8", "replace").strip()
        return "it ended without a report"


class _SendPipe(ByteSendStream):
    """The server's stdin."""

    def __init__(self, launched: LauncherProcess) -> None:
        self._launched = launched

    @override
    async def send(self, item: bytes) -> None:
        await checkpoint()
        left = memoryview(item)
        while left:
            if self._launched.stdin is None:
                raise anyio.ClosedResourceError
            try:
                left = left[os.write(self._launched.stdin, left[:_CHUNK_BYTES]) :]
            except BlockingIOError:
                await anyio.wait_writable(self._launched.stdin)
            except OSError as error:
                raise anyio.BrokenResourceError from error

    @override
    async def aclose(self) -> None:
        if self._launched.stdin is not None:
            anyio.notify_closing(self._launched.stdin)
            self._launched.close_stdin()


class _ReceivePipe(ByteReceiveStream):
    """The reading end of a pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.is_closed = False

    @override
    async def receive(self, max_bytes: int = _CHUNK_BYTES) -> bytes:
        while True:
            if self.is_closed:
                raise anyio.ClosedResourceError
            await anyio.wait_readable(self._descriptor)
            if self.is_closed:
                raise anyio.ClosedResourceError
            try:
                data = os.read(self._descriptor, max_bytes)
            except BlockingIOError:
                continue
            if not data:
                raise anyio.EndOfStream
            return data

    @override
    async def aclose(self) -> None:
        """Mark it as closed; the process closes the descriptor."""
        self.is_closed = True
