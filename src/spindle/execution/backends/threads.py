"""Runs sync handlers in daemon threads; a handler that hangs is abandoned and does not block the exit.

The interpreter's thread pools join their threads at exit, so a handler that never returns would keep the program alive.
"""

import os
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from anyio import Event, get_cancelled_exc_class
from anyio.lowlevel import checkpoint_if_cancelled, current_token

from spindle.concurrency import owner_loop, schedule_here
from spindle.errors import UsageError
from spindle.execution.backends.child import wrap_control_exception

T = TypeVar("T")
Post: TypeAlias = Callable[[Callable[[], object]], None]
"""Schedules a function on the event loop of the call; from any thread, in order, without waiting for it."""


class ThreadRunner:
    """Runs blocking functions in at most `max_threads` threads; abandoned threads do not count.

    Serves calls in FIFO order, on asyncio and trio, from any number of event loops. An idle thread ends after
    `idle_seconds`.
    """

    def __init__(self, max_threads: int, *, idle_seconds: float = 10.0) -> None:
        if max_threads < 1:
            raise UsageError(f"max_threads must be at least 1, got {max_threads}", field="max_threads")
        self._max_threads = max_threads
        self._idle_seconds = idle_seconds
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._busy = 0
        self._abandoned = 0
        self._waiting: OrderedDict[_AnyJob, None] = OrderedDict()
        self._idle: deque[_Mailbox] = deque()

    @property
    def abandoned(self) -> int:
        """The number of threads still running a call whose caller is gone."""
        return self._abandoned

    async def run(self, call: Callable[[Post], T], *, on_abandon: Callable[[], None] | None = None) -> T:
        """Run `call(post)` in a thread; return its value or raise its exception.

        `post` schedules a function on the event loop; posted functions have run before this returns, and their
        exceptions are raised here. A cancelled caller does not wait: the slot is released, `on_abandon` is called if
        the call had started, and everything the thread still returns, raises or posts is dropped.

        Raises:
            HandlerFailedError: `call` raised an exception with a special meaning for coroutines, such as
                `StopIteration` or a cancellation; it is the `__cause__`. All others are raised unchanged.
        """
        # A call that is cancelled before it starts must not start.
        await checkpoint_if_cancelled()
        job = _Job(call)
        self._submit(job)
        try:
            await job.done.wait()
        except BaseException:
            if self._abandon(job) and on_abandon is not None:
                on_abandon()
            raise
        return job.get_result()

    def _submit(self, job: "_AnyJob") -> None:
        if self._pid != os.getpid():
            # A forked child has a copy of this state, but not the threads.
            self._reset()
        with self._lock:
            if self._busy >= self._max_threads:
                self._waiting[job] = None
                return
            self._busy += 1
            job.state = "given"
        self._start(job)

    def _start(self, job: "_AnyJob | None") -> None:
        """Pass a job that holds a slot to a thread."""
        while job is not None:
            try:
                self._send_to_thread(job)
            except RuntimeError as error:
                # No more threads can be started: this call fails, and the slot goes to the next one.
                job.error = error
                follower = self._mark_ended(job)
                job.wake()
                job = follower
            else:
                return

    def _send_to_thread(self, job: "_AnyJob") -> None:
        try:
            # LIFO: the other idle threads can reach their timeout and end.
            mailbox = self._idle.pop()
        except IndexError:
            mailbox: _Mailbox = SimpleQueue()
            Thread(target=self._work, args=(mailbox,), name="spindle-call", daemon=True).start()
        mailbox.put(job)

    def _abandon(self, job: "_AnyJob") -> bool:
        """Abandon a job whose caller was cancelled; return whether it was running."""
        with self._lock:
            was, job.state = job.state, "abandoned" if job.state == "running" else "dropped"
            if was == "queued":
                del self._waiting[job]
            if was not in {"given", "running"}:
                return False
            self._abandoned += was == "running"
            follower = self._pass_slot()
        self._start(follower)
        return was == "running"

    def _pass_slot(self) -> "_AnyJob | None":
        """Pass the free slot to the next waiting job and return it, or release the slot; requires the lock."""
        if not self._waiting:
            self._busy -= 1
            return None
        job, _ = self._waiting.popitem(last=False)
        job.state = "given"
        return job

    def _mark_running(self, job: "_AnyJob") -> bool:
        """Mark a job as running; return `False` if it was dropped meanwhile."""
        with self._lock:
            if job.state == "given":
                job.state = "running"
            return job.state == "running"

    def _mark_ended(self, job: "_AnyJob") -> "_AnyJob | None":
        """Mark a job as ended; return the job that got its slot, if there is one."""
        with self._lock:
            if job.state in {"abandoned", "dropped"}:
                self._abandoned -= job.state == "abandoned"
                return None
            job.state = "done"
            return self._pass_slot()

    def _work(self, mailbox: "_Mailbox") -> None:
        while (job := self._receive(mailbox)) is not None:
            if self._mark_running(job):
                job.run()
            follower = self._mark_ended(job)
            if follower is None:
                # Before the caller is woken, so that its next call reuses this thread.
                self._idle.append(mailbox)
            job.wake()
            if follower is not None:
                mailbox.put(follower)
            del job, follower

    def _receive(self, mailbox: "_Mailbox") -> "_AnyJob | None":
        try:
            return mailbox.get(timeout=self._idle_seconds)
        except Empty:
            try:
                self._idle.remove(mailbox)
            except ValueError:
                # This thread was just taken for a job, which is about to arrive.
                return mailbox.get()
            return None


_State: TypeAlias = Literal["queued", "given", "running", "done", "abandoned", "dropped"]
"""queued → given (to a thread) → running → done; on cancellation `abandoned` if it was running, else `dropped`."""


class _Job(Generic[T]):
    """One call that runs in a thread, and its result."""

    __slots__ = ("_call", "_context", "_schedule", "done", "error", "post_error", "state", "value")

    def __init__(self, call: Callable[[Post], T]) -> None:
        self._call: Callable[[Post], T] | None = call
        self._context = _copy_context()
        self._schedule = schedule_here()
        self.state: _State = "queued"
        self.value: T | None = None
        self.error: BaseException | None = None
        self.post_error: BaseException | None = None
        self.done = Event()

    def run(self) -> None:
        """Run the call in this thread and store its value or exception."""
        call, self._call = self._call, None
        try:
            self.value = self._context.run(cast("Callable[[Post], T]", call), self.post)
        except BaseException as error:  # noqa: BLE001 - raised in the caller, also SystemExit
            self.error = error
            # No attribute of the exception is used: its class may override it, and raising would end this thread.
            traceback = sys.exc_info()[2]
            BaseException.with_traceback(error, None if traceback is None else traceback.tb_next)
            del traceback

    def post(self, function: Callable[[], object]) -> None:
        """Schedule a function on the event loop, unless the caller is gone."""
        if self.state == "running":
            self._schedule_on_loop(lambda: self._run_posted(function))

    def _run_posted(self, function: Callable[[], object]) -> None:
        if self.state not in {"running", "done"}:
            return
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - would stop a trio event loop; raised in the caller instead
            self.post_error = error if self.post_error is None else self.post_error

    def wake(self) -> None:
        """Wake the caller, if it still waits; else drop the result."""
        if self.state == "done":
            self._schedule_on_loop(self.done.set)
        else:
            self.value = self.error = None

    def _schedule_on_loop(self, function: Callable[[], object]) -> None:
        try:
            self._schedule(function)
        except RuntimeError:
            # The event loop is closed, so no caller is waiting.
            return

    def get_result(self) -> T:
        """Return the value of the call or raise its exception."""
        error = self.post_error if self.error is None else self.error  # an exception may be false
        if error is None:
            return cast("T", self.value)
        self.error = self.post_error = None
        try:
            if isinstance(error, (StopIteration, StopAsyncIteration, GeneratorExit, get_cancelled_exc_class())):
                raise wrap_control_exception(error) from error
            raise error
        finally:
            # Breaks the reference cycle between the exception, its traceback and this frame.
            del error


_AnyJob: TypeAlias = _Job[Any]
_Mailbox: TypeAlias = "SimpleQueue[_AnyJob]"


def _copy_context() -> Context:
    """Copy the caller's context variables; set the owner loop and clear the current async library."""
    context = copy_context()
    context.run(owner_loop.set, current_token())
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, None)
    return context
