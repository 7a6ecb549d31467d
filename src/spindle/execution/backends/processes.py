"""Runs sync handlers in forked processes, which are killed when the caller is cancelled.

Forking allows any function, also closures. A worker is not a sandbox: it runs with the permissions of the program. What
it sends is data, see `serialization.py`.
"""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from anyio import get_cancelled_exc_class, move_on_after

from spindle.concurrency import ThreadsafeEvent
from spindle.errors import UsageError, WorkerDiedError
from spindle.execution.backends.child import (
    MESSAGE,
    RESULT,
    UNSENDABLE,
    ChildLink,
    FrameDecoder,
    Kind,
    fork,
    run_worker,
)
from spindle.execution.backends.serialization import build_not_sendable, load, load_failure
from spindle.execution.backends.threads import Post, ThreadRunner


class ChildExit:
    """The exit of a child process: a descriptor that becomes readable, and the exit status."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None
        self._thread: Thread | None = None
        try:
            self.descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            # Not Linux, or forbidden by a sandbox: a thread waits and closes a pipe instead.
            self.descriptor = self._start_thread()

    def _start_thread(self) -> int:
        reading, writing = os.pipe()
        self._thread = Thread(target=self._wait_and_close, args=(writing,), name="spindle-child", daemon=True)
        self._thread.start()
        return reading

    def _wait_and_close(self, writing: int) -> None:
        self._status = reap(self._pid)
        os.close(writing)

    def reap(self) -> int | None:
        """Wait for the exit; return the exit code or the negative signal number, or `None` if it is unknown."""
        if self._thread is None:
            self._status = reap(self._pid)
        else:
            self._thread.join()
        os.close(self.descriptor)
        return self._status


def reap(pid: int) -> int | None:
    """Wait for a child; return the exit code or the negative signal number, or `None` if it is unknown."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        # If the program ignores SIGCHLD, the kernel reaps children and the status is lost.
        return None


def kill_group(pid: int) -> None:
    """Kill a child and its process group."""
    # A child without its own group has started nothing yet. macOS raises PermissionError for a zombie.
    with suppress(ProcessLookupError, PermissionError):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)


T = TypeVar("T")

MAX_EXIT_WAIT_SECONDS = 5.0
"""How long a cancelled caller waits for a killed process; only a blocked device takes longer."""
_CHUNK_BYTES = 1 << 16


class ProcessRunner:
    """Runs blocking functions in at most `max_processes` processes, one per call."""

    def __init__(self, max_processes: int) -> None:
        if not hasattr(os, "fork"):
            raise UsageError(
                'isolation="process" requires os.fork (Linux, macOS); use isolation="thread" on this platform.',
                field="isolation",
            )
        if max_processes < 1:
            raise UsageError(f"max_processes must be at least 1, got {max_processes}", field="max_processes")
        self._threads = ThreadRunner(max_processes)

    async def run(
        self,
        call: Callable[[ChildLink], T],
        *,
        on_message: Callable[[Any], object] | None = None,
        max_memory_bytes: int | None = None,
    ) -> T:
        """Run `call(link)` in a forked process; return its value or raise its exception.

        Messages sent with `link.send(message)` are passed to `on_message` in order, before this returns. When the call
        ends or is cancelled, its process group is killed, and the process is reaped before this returns.
        `max_memory_bytes` is address space on top of the current usage of the program.

        Raises:
            WorkerDiedError: The process ended without a result.
            NotSendableError: The result is nothing that crosses between processes.
            HandlerFailedError: The exception is of a class that only the worker knows, or has a special meaning for
                coroutines, such as `StopIteration`.
        """
        worker = _Worker(call, on_message, max_memory_bytes)
        try:
            return await self._threads.run(worker.supervise, on_abandon=worker.kill)
        except get_cancelled_exc_class():
            if worker.is_kill_requested:
                with move_on_after(MAX_EXIT_WAIT_SECONDS, shield=True):
                    await worker.exited.wait()
            raise


class _Worker(Generic[T]):
    """One call and its process, controlled by the thread that forks it and waits for it.

    One thread must do both: with PR_SET_PDEATHSIG the kernel kills the child when the forking thread ends.
    """

    def __init__(
        self, call: Callable[[ChildLink], T], on_message: Callable[[Any], object] | None, max_memory_bytes: int | None
    ) -> None:
        self._call = call
        self._on_message = on_message
        self._max_memory_bytes = max_memory_bytes
        self._lock = Lock()
        self._pid: int | None = None
        self.is_kill_requested = False
        self.exited = ThreadsafeEvent()

    def kill(self) -> None:
        """Kill the process and its group, now or as soon as it is started."""
        with self._lock:
            self.is_kill_requested = True
            if self._pid is not None:
                kill_group(self._pid)

    def supervise(self, post: Post) -> T:
        """Start the process and wait for its exit; return its value or raise its exception."""
        try:
            answer, status = self._run_process(post)
        finally:
            self.exited.set()
        if answer is None:
            raise _build_died_error(status)
        return _decode_result(*answer)

    def _run_process(self, post: Post) -> tuple[tuple[Kind, bytes] | None, int | None]:
        pid, reading = self._start()
        end = None
        try:
            end = ChildExit(pid)
            answer = self._read_until_result(reading, end.descriptor, post)
        finally:
            os.close(reading)
            self._kill_remaining(pid)
            status = reap(pid) if end is None else end.reap()
        return answer, status

    def _start(self) -> tuple[int, int]:
        """Fork; return the child's process id and the descriptor to read its frames from."""
        reading, writing = os.pipe()
        try:
            pid = fork(partial(run_worker, writing, os.getpid(), self._call, self._max_memory_bytes))
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        with self._lock:
            self._pid = pid
            if self.is_kill_requested:
                kill_group(pid)
        return pid, reading

    def _kill_remaining(self, pid: int) -> None:
        """Kill the process group before the child is reaped: until then its id cannot be reused."""
        with self._lock:
            self._pid = None
            kill_group(pid)

    def _read_until_result(self, reading: int, end: int, post: Post) -> tuple[Kind, bytes] | None:
        """Forward messages until the result arrives or the process exits; return the result, or `None`.

        The end of the pipe is not used: a grandchild may keep it open, or the handler may have closed it.
        """
        frames = FrameDecoder()
        poll = select.poll()
        for descriptor in (reading, end):
            poll.register(descriptor, select.POLLIN)
        while True:
            # Checked before reading, so that data written before the exit is not missed.
            has_ended = any(descriptor == end for descriptor, _ in poll.poll())
            data = _read_some(reading)
            try:
                for kind, payload in frames.feed(data or b""):
                    if kind != MESSAGE:
                        return kind, payload
                    self._forward_message(payload, post)
            except ValueError:
                # The handler wrote to the pipe itself, so no valid result can follow.
                return None
            if has_ended and not data:
                return None
            if data == b"":
                poll.unregister(reading)

    def _forward_message(self, payload: bytes, post: Post) -> None:
        if self._on_message is None:
            return
        post(partial(self._on_message, load(payload)))


def _read_some(reading: int) -> bytes | None:
    """Read the available bytes: empty at the end of the pipe, `None` if there are none yet."""
    try:
        return os.read(reading, _CHUNK_BYTES)
    except BlockingIOError:
        return None


def _decode_result(kind: Kind, payload: bytes) -> Any:
    """Return the value or raise the exception that the child sent."""
    if kind == UNSENDABLE:
        raise build_not_sendable(payload.decode(errors="replace"))
    if kind == RESULT:
        return load(payload)
    raise load_failure(payload)


def _build_died_error(status: int | None) -> WorkerDiedError:
    exit_code = status if status is not None and status >= 0 else None
    number = -status if status is not None and status < 0 else None
    if number is not None:
        how = f"was killed by {_signal_name(number)}"
    else:
        how = "ended" if exit_code is None else f"ended with exit code {exit_code}"
    return WorkerDiedError(
        f"The worker process of the call {how} before it returned a result; "
        "it may have crashed or run out of memory: try a smaller task.",
        exit_code=exit_code,
        signal=number,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
