"""Sync handlers on daemon threads of our own: one that hangs is left behind, and keeps nobody from leaving.

The interpreter's pools wait for their threads at exit, so a handler that never returns would keep the program alive.
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
from spindle.execution.backends.child import steering_failure

T = TypeVar("T")
Post: TypeAlias = Callable[[Callable[[], object]], None]
"""Runs a function soon on the event loop of the call; from any thread, in order, without waiting for it."""


class ThreadLane:
    """Runs blocking functions in at most `max_threads` threads that count; abandoned ones do not.

    Served in the order they came, on asyncio and trio, from any number of event loops. A thread without work ends
    after `idle_seconds`.
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
        """How many threads still run a call that nobody waits for."""
        return self._abandoned

    async def run(self, call: Callable[[Post], T], *, on_abandon: Callable[[], None] | None = None) -> T:
        """Give what `call(post)` returns in a thread, or raise what it raises.

        `post` hands a function to the event loop; what was posted has run before this returns, and what it raised is
        raised here. A cancelled caller leaves at once: the slot is free again, `on_abandon` is told if the call had
        begun, and whatever the thread still returns, raises or posts is dropped.

        Raises:
            HandlerFailedError: `call` raised `StopIteration` or another exception that steers coroutines, such as a
                cancellation; `__cause__` is it. Everything else arrives as it is, `SystemExit` too.
        """
        # A call that is cancelled before it begins must not begin.
        await checkpoint_if_cancelled()
        job = _Job(call)
        self._submit(job)
        try:
            await job.done.wait()
        except BaseException:
            if self._give_up(job) and on_abandon is not None:
                on_abandon()
            raise
        return job.answer()

    def _submit(self, job: "_AnyJob") -> None:
        if self._pid != os.getpid():
            # A forked child has the memory of these threads, but not the threads.
            self._reset()
        with self._lock:
            if self._busy >= self._max_threads:
                self._waiting[job] = None
                return
            self._busy += 1
            job.state = "given"
        self._start(job)

    def _start(self, job: "_AnyJob | None") -> None:
        """Hand a job that has a slot to a thread."""
        while job is not None:
            try:
                self._hand_over(job)
            except RuntimeError as error:
                # The system gives no more threads: that is this call's failure, and the slot goes to the next.
                job.error = error
                follower = self._settle(job)
                job.wake()
                job = follower
            else:
                return

    def _hand_over(self, job: "_AnyJob") -> None:
        try:
            # The one that rests shortest is the warmest, and the others may end.
            mailbox = self._idle.pop()
        except IndexError:
            mailbox: _Mailbox = SimpleQueue()
            Thread(target=self._work, args=(mailbox,), name="spindle-call", daemon=True).start()
        mailbox.put(job)

    def _give_up(self, job: "_AnyJob") -> bool:
        """Let go of a job whose caller leaves; says whether it was running."""
        with self._lock:
            was, job.state = job.state, "abandoned" if job.state == "running" else "dropped"
            if was == "queued":
                del self._waiting[job]
            if was not in {"given", "running"}:
                return False
            self._abandoned += was == "running"
            follower = self._free_slot()
        self._start(follower)
        return was == "running"

    def _free_slot(self) -> "_AnyJob | None":
        """Give the next one in the row the slot that became free, if there is one; the lock is held."""
        if not self._waiting:
            self._busy -= 1
            return None
        job, _ = self._waiting.popitem(last=False)
        job.state = "given"
        return job

    def _begin(self, job: "_AnyJob") -> bool:
        """Take down that a job runs from now on; says whether it still should."""
        with self._lock:
            if job.state == "given":
                job.state = "running"
            return job.state == "running"

    def _settle(self, job: "_AnyJob") -> "_AnyJob | None":
        """Take down that a job has ended; gives the one that has its slot now."""
        with self._lock:
            if job.state in {"abandoned", "dropped"}:
                self._abandoned -= job.state == "abandoned"
                return None
            job.state = "done"
            return self._free_slot()

    def _work(self, mailbox: "_Mailbox") -> None:
        while (job := self._receive(mailbox)) is not None:
            if self._begin(job):
                job.perform()
            follower = self._settle(job)
            if follower is None:
                # Before anyone is woken, so that the next call finds this thread and not a new one.
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
                # Somebody has just taken this thread for a job, which is on its way.
                return mailbox.get()
            return None


_State: TypeAlias = Literal["queued", "given", "running", "done", "abandoned", "dropped"]
"""A job waits for a slot, is given to a thread, runs, ends; its caller may leave while it runs, or at another time."""


class _Job(Generic[T]):
    """One call on its way through a thread and back."""

    __slots__ = ("_call", "_context", "_schedule", "done", "error", "post_error", "state", "value")

    def __init__(self, call: Callable[[Post], T]) -> None:
        self._call: Callable[[Post], T] | None = call
        self._context = _context_of_a_thread()
        self._schedule = schedule_here()
        self.state: _State = "queued"
        self.value: T | None = None
        self.error: BaseException | None = None
        self.post_error: BaseException | None = None
        self.done = Event()

    def perform(self) -> None:
        """Run the call here, and keep what became of it."""
        call, self._call = self._call, None
        try:
            self.value = self._context.run(cast("Callable[[Post], T]", call), self.post)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its answer, also SystemExit
            self.error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)

    def post(self, function: Callable[[], object]) -> None:
        """Have the event loop run a function, as long as somebody waits for this call."""
        if self.state == "running":
            self._tell_loop(lambda: self._run_posted(function))

    def _run_posted(self, function: Callable[[], object]) -> None:
        if self.state not in {"running", "done"}:
            return
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - trio would stop its whole loop; the caller gets it instead
            self.post_error = self.post_error or error

    def wake(self) -> None:
        """Tell the caller that the call has ended, if it is still there."""
        if self.state == "done":
            self._tell_loop(self.done.set)
        else:
            self.value = self.error = None

    def _tell_loop(self, function: Callable[[], object]) -> None:
        try:
            self._schedule(function)
        except RuntimeError:
            # The loop is closed: nobody is left who could want to know.
            return

    def answer(self) -> T:
        """Give or raise what the call gave or raised."""
        error = self.error or self.post_error
        if error is None:
            return cast("T", self.value)
        self.error = self.post_error = None
        try:
            if isinstance(error, (StopIteration, StopAsyncIteration, GeneratorExit, get_cancelled_exc_class())):
                raise steering_failure(error) from error
            raise error
        finally:
            # The traceback of an exception holds this frame; without this the two would keep each other alive.
            del error


_AnyJob: TypeAlias = _Job[Any]
_Mailbox: TypeAlias = "SimpleQueue[_AnyJob]"


def _context_of_a_thread() -> Context:
    """Copy the caller's context variables; no event loop is running here, but the way home to the caller's is known."""
    context = copy_context()
    context.run(owner_loop.set, current_token())
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, None)
    return context
