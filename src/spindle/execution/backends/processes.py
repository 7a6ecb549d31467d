"""Sync handlers in processes of their own: when the caller leaves, the process is gone.

A worker is forked, so that any function will do, closures too. It is a process that can be killed, not a prison: it
runs with the rights of the program, and what it answers is unpickled.
"""

import os
import pickle
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from anyio import get_cancelled_exc_class, move_on_after

from spindle.concurrency import ThreadsafeEvent
from spindle.errors import HandlerFailedError, UsageError, WorkerDiedError
from spindle.execution.backends.child import (
    MESSAGE,
    RESULT,
    UNSENDABLE,
    ChildLink,
    Failure,
    FrameReader,
    Kind,
    fork,
    live,
    not_sendable,
)
from spindle.execution.backends.threads import Post, ThreadLane


class ChildExit:
    """The end of a child: a descriptor that becomes readable when it comes, and the status it leaves."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None
        self._thread: Thread | None = None
        try:
            self.descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            # Not Linux, or a sandbox that forbids it: a thread waits instead, and closes a pipe.
            self.descriptor = self._watch()

    def _watch(self) -> int:
        reading, writing = os.pipe()
        self._thread = Thread(target=self._wait_and_close, args=(writing,), name="spindle-child", daemon=True)
        self._thread.start()
        return reading

    def _wait_and_close(self, writing: int) -> None:
        self._status = reap(self._pid)
        os.close(writing)

    def reap(self) -> int | None:
        """Wait for the end; give the exit code, or the negative number of the signal, if it can be known."""
        if self._thread is None:
            self._status = reap(self._pid)
        else:
            self._thread.join()
        os.close(self.descriptor)
        return self._status


def reap(pid: int) -> int | None:
    """Wait for a child's end; give the exit code, or the negative number of the signal, if it can be known."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        # Where somebody ignores SIGCHLD the system reaps by itself, and nobody learns the status.
        return None


def kill_group(pid: int) -> None:
    """Kill a child that leads its own group, and everything in that group."""
    # A child that is not a leader yet has started nothing yet. Without permission, it is a zombie (macOS says so).
    with suppress(ProcessLookupError, PermissionError):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)


T = TypeVar("T")

MAX_SECONDS_TO_DIE = 5.0
"""So long a cancelled caller waits for a killed process to be gone; only a broken device makes it take longer."""
_CHUNK_BYTES = 1 << 16


class ProcessLane:
    """Runs blocking functions in at most `max_processes` processes at once, one for each call."""

    def __init__(self, max_processes: int) -> None:
        if not hasattr(os, "fork"):
            raise UsageError(
                'isolation="process" needs a system that can fork (Linux, macOS); use isolation="thread" here',
                field="isolation",
            )
        if max_processes < 1:
            raise UsageError(f"max_processes must be at least 1, got {max_processes}", field="max_processes")
        self._threads = ThreadLane(max_processes)

    async def run(
        self,
        call: Callable[[ChildLink], T],
        *,
        on_message: Callable[[Any], object] | None = None,
        max_memory_bytes: int | None = None,
    ) -> T:
        """Give what `call(link)` returns in a process of its own, or raise what it raises.

        What it sends by `link.send(message)` is given to `on_message` here, in order, before this returns. When the
        call ends or is cancelled, everything in the process group is killed, and the process is reaped before this
        ends. `max_memory_bytes` is address space on top of what the program has already.

        Raises:
            WorkerDiedError: The process ended without an answer.
            NotSendableError: The answer does not pickle.
            HandlerFailedError: It raised what does not pickle, or what steers coroutines, such as `StopIteration`.
        """
        worker = _Worker(call, on_message, max_memory_bytes)
        try:
            return await self._threads.run(worker.supervise, on_abandon=worker.kill)
        except get_cancelled_exc_class():
            if worker.is_doomed:
                with move_on_after(MAX_SECONDS_TO_DIE, shield=True):
                    await worker.gone.wait()
            raise


class _Worker(Generic[T]):
    """One call and its process, seen from the thread that forks it and waits for it.

    It has to be one thread from birth to death: the system kills the child when the thread that forked it ends.
    """

    def __init__(
        self, call: Callable[[ChildLink], T], on_message: Callable[[Any], object] | None, max_memory_bytes: int | None
    ) -> None:
        self._call = call
        self._on_message = on_message
        self._max_memory_bytes = max_memory_bytes
        self._lock = Lock()
        self._pid: int | None = None
        self.is_doomed = False
        self.gone = ThreadsafeEvent()

    def kill(self) -> None:
        """Kill the process with its group: now, or as soon as there is one."""
        with self._lock:
            self.is_doomed = True
            if self._pid is not None:
                kill_group(self._pid)

    def supervise(self, post: Post) -> T:
        """Start the process and wait for its end; gives or raises what it answered."""
        try:
            answer, status = self._live_through(post)
        finally:
            self.gone.set()
        if answer is None:
            raise _died(status)
        return _open(*answer)

    def _live_through(self, post: Post) -> tuple[tuple[Kind, bytes] | None, int | None]:
        pid, reading = self._start()
        end = None
        try:
            end = ChildExit(pid)
            answer = self._listen(reading, end.descriptor, post)
        finally:
            os.close(reading)
            self._forget_and_kill(pid)
            status = reap(pid) if end is None else end.reap()
        return answer, status

    def _start(self) -> tuple[int, int]:
        """Fork; give the child's process id and the descriptor its frames come from."""
        reading, writing = os.pipe()
        try:
            pid = fork(partial(live, writing, os.getpid(), self._call, self._max_memory_bytes))
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        with self._lock:
            self._pid = pid
            if self.is_doomed:
                kill_group(pid)
        return pid, reading

    def _forget_and_kill(self, pid: int) -> None:
        """Kill what is left of the group, before the child is reaped: until then nobody else can get its number."""
        with self._lock:
            self._pid = None
            kill_group(pid)

    def _listen(self, reading: int, end: int, post: Post) -> tuple[Kind, bytes] | None:
        """Pass messages on until the answer, or the end without one.

        The end of the pipe is no sign: a process that the child forked may hold it open, or the handler closed it.
        """
        frames = FrameReader()
        poll = select.poll()
        for descriptor in (reading, end):
            poll.register(descriptor, select.POLLIN)
        while True:
            # Looked at before reading, so that what was written before the end is not missed.
            has_ended = any(descriptor == end for descriptor, _ in poll.poll())
            data = _read_some(reading)
            try:
                for kind, payload in frames.feed(data or b""):
                    if kind != MESSAGE:
                        return kind, payload
                    self._pass_on(payload, post)
            except ValueError:
                # Somebody wrote into a pipe that is not theirs: there will be no answer.
                return None
            if has_ended and not data:
                return None
            if data == b"":
                poll.unregister(reading)

    def _pass_on(self, payload: bytes, post: Post) -> None:
        if self._on_message is None:
            return
        try:
            message = pickle.loads(payload)  # noqa: S301 - pickled by our own fork
        except Exception as error:
            raise not_sendable("a message", "it breaks when unpickled") from error
        post(partial(self._on_message, message))


def _read_some(reading: int) -> bytes | None:
    """Read what is there: nothing at the end, `None` when there is nothing yet."""
    try:
        return os.read(reading, _CHUNK_BYTES)
    except BlockingIOError:
        return None


def _open(kind: Kind, payload: bytes) -> Any:
    """Give or raise what the child answered."""
    if kind == UNSENDABLE:
        raise not_sendable("the result", payload.decode(errors="replace"))
    if kind == RESULT:
        try:
            return pickle.loads(payload)  # noqa: S301 - pickled by our own fork
        except Exception as error:
            raise not_sendable("the result", "it breaks when unpickled") from error
    raise _raised(pickle.loads(payload))  # noqa: S301 - as above


def _raised(failure: Failure) -> BaseException:
    """Rebuild what was raised, or describe it."""
    error: Any = None
    if failure.pickled is not None:
        try:
            error = pickle.loads(failure.pickled)  # noqa: S301 - as above
        except Exception:  # noqa: BLE001 - an exception's own code rebuilds it, and may raise anything
            error = None
    if not isinstance(error, BaseException):
        error = HandlerFailedError(
            f"{failure.class_name}: {failure.text}", class_name=failure.class_name, text=failure.text
        )
    error.add_note(f"In the worker process:\n{failure.traceback}")
    return error


def _died(status: int | None) -> WorkerDiedError:
    exit_code = status if status is not None and status >= 0 else None
    number = -status if status is not None and status < 0 else None
    if number is not None:
        how = f"was killed by {_signal_name(number)}"
    else:
        how = "ended" if exit_code is None else f"ended with exit code {exit_code}"
    return WorkerDiedError(
        f"the worker process of the call {how} before it gave an answer; "
        "it may have crashed or run out of memory: try a smaller task",
        exit_code=exit_code,
        signal=number,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
