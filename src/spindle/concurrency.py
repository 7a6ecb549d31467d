"""Worker threads, events, per-loop values and tasks that outlive their caller; safe across event loops and threads."""

import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack, suppress
from contextvars import Context, ContextVar, copy_context
from math import inf
from threading import get_ident, local
from typing import Any, Generic, TypeAlias, TypeVar, TypeVarTuple

from anyio import CancelScope, CapacityLimiter, Event, current_effective_deadline, get_cancelled_exc_class
from anyio.lowlevel import EventLoopToken, RunVar, current_token
from anyio.to_thread import run_sync

T = TypeVar("T")
Args = TypeVarTuple("Args")

Schedule: TypeAlias = Callable[[Callable[[], object]], object]

MAX_THREADS = 8
"""Maximum number of threads per pool and event loop."""

owner_loop: ContextVar[EventLoopToken | None] = ContextVar("owner_loop", default=None)
"""In the thread of a sync handler: the event loop that its call belongs to."""


class PerLoop(Generic[T]):
    """One value for each event loop, created on first use there."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: RunVar[T | None] = RunVar("made", None)

    def get(self) -> T:
        """Return the value of the running event loop."""
        made = self._made.get()
        if made is None:
            made = self._make()
            self._made.set(made)
        return made

    def take(self) -> T | None:
        """Remove and return the value of the running event loop, or None if it was never created."""
        made = self._made.get()
        self._made.set(None)
        return made


class WorkerThreads:
    """A pool of threads for the blocking work of one subsystem, so that it cannot starve the others."""

    def __init__(self) -> None:
        self._limiter = PerLoop(lambda: CapacityLimiter(MAX_THREADS))  # a limiter is bound to the loop that created it

    async def run(self, func: Callable[[*Args], T], *args: *Args) -> T:
        """Run a blocking function in a thread; a cancelled caller waits until it has ended."""
        return await run_sync(func, *args, limiter=self._limiter.get())

    async def run_abandonable(self, func: Callable[[*Args], T], *args: *Args) -> T:
        """Run a blocking function without side effects in a thread; a cancelled caller does not wait for it."""
        return await run_sync(func, *args, abandon_on_cancel=True, limiter=self._limiter.get())


spool_threads = WorkerThreads()
storage_threads = WorkerThreads()
file_threads = WorkerThreads()


def schedule_here() -> Schedule:
    """Return a function that runs a callback soon on this event loop: from any thread, in order, without waiting.

    Calling it after the loop was closed raises `RuntimeError`.
    """
    loop: Any = current_token().native_token
    return loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon


class ThreadsafeEvent:
    """An event that tasks of one event loop wait for and that any thread may set."""

    __slots__ = ("_event", "_owner", "_schedule")

    def __init__(self) -> None:
        self._event = Event()
        self._owner = get_ident()
        self._schedule = schedule_here()

    def set(self) -> None:
        """Wake the waiting tasks; do nothing if their loop is closed."""
        with suppress(RuntimeError):
            if get_ident() == self._owner:
                self._event.set()
            else:
                self._schedule(self._event.set)

    def is_set(self) -> bool:
        """Return whether the event was set."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the event is set."""
        await self._event.wait()


class BackgroundTask:
    """A task that outlives its caller; whatever it raises is kept in `error` and never reaches the event loop."""

    __slots__ = ("_scope", "_shield", "_waiters", "error", "is_done")

    def __init__(self, scope: CancelScope, shield: CancelScope) -> None:
        """`scope` cancels the task; `shield`, which is inside of it, pauses the cancellation."""
        self._waiters: list[ThreadsafeEvent] = []
        self._scope, self._shield = scope, shield
        self.is_done = False
        """Whether the task has ended."""
        self.error: BaseException | None = None
        """What the task raised, once it has ended; `None` if it returned or was cancelled."""

    def cancel(self) -> None:
        """Cancel the task; it ends when it lets the cancellation through."""
        if not self.is_done:  # its scopes may serve another task by now
            self._scope.cancel()

    def pause_cancellation(self, *, is_paused: bool) -> None:
        """Stop cancelling the task, or go on: event loops repeat a cancellation for as long as a task ignores it."""
        if not self.is_done:
            self._shield.shield = is_paused

    async def wait(self) -> None:
        """Wait until the task has ended; cancelling the waiter does not cancel the task."""
        if not self.is_done:
            ended = ThreadsafeEvent()
            self._waiters.append(ended)
            if not self.is_done:  # asked again: the task may run in another thread
                await ended.wait()

    def finish(self, error: BaseException | None = None) -> None:
        """Note that the task has ended, and wake those who wait for it."""
        self.error, self.is_done = error, True
        for ended in self._waiters:
            ended.set()

    async def run(self, func: Callable[[], Awaitable[object]]) -> None:
        """Run the task's function in its scopes; called once, by `spawn_background`."""
        raised: BaseException | None = None
        try:
            with self._scope, self._shield:
                await func()
        except get_cancelled_exc_class():  # the event loop is closing
            raise
        except BaseException as error:  # noqa: BLE001  it would stop the event loop
            raised = error
        finally:
            self.finish(raised)


_background: set[object] = set()
"""Strong references to asyncio tasks: the event loop keeps only weak ones."""


def spawn_background(func: Callable[[], Awaitable[object]], *, name: str) -> BackgroundTask:
    """Start a task that belongs to the event loop instead of the caller; the loop cancels it when it closes.

    Raises:
        RuntimeError: No event loop is running in this thread.
    """
    task = BackgroundTask(CancelScope(), CancelScope())
    loop: Any = current_token().native_token
    if not hasattr(loop, "create_task"):
        sys.modules["trio"].lowlevel.spawn_system_task(task.run, func, name=name, context=copy_context())
    else:
        # A task that is cancelled before its first step does not run at all.
        _keep(loop.create_task(task.run(func), name=name), lambda _: task.is_done or task.finish())
    return task


def start_background(
    func: Callable[[], Coroutine[Any, Any, object]], *, caller: Any, name: str
) -> BackgroundTask | None:
    """Start a task like `spawn_background` does, its first step now; return `None` if that was its only one.

    `caller` is the result of `get_asyncio_task`. Without it, as on trio, the first step is not run before this returns.
    Python 3.11 has no eager tasks of its own. A task that its coroutine leaves in the first step is used again, with
    its cancel scopes, so that a call without a wait needs no new ones.
    """
    if caller is None:
        return spawn_background(func, name=name)
    loop, tasks = caller.get_loop(), sys.modules["asyncio.tasks"]
    if _spares.loop is not loop:
        _spares.loop, _spares.idle = loop, []
    spare = _spares.idle.pop() if _spares.idle else _SpareTask(loop)
    tasks._leave_task(loop, caller)
    tasks._enter_task(loop, spare.task)
    try:
        started = spare.start(func())
    finally:
        tasks._leave_task(loop, spare.task)
        tasks._enter_task(loop, caller)
    if spare.is_idle:
        _spares.idle.append(spare)
    elif started is not None and not started.is_done:
        tasks._register_task(spare.task)
        _keep(spare.task)
    return started


class _Spares(local):
    """The idle tasks of the event loop that runs in this thread."""

    loop: Any = None
    idle: "list[_SpareTask]"


_spares = _Spares()


def _keep(running: Any, *callbacks: Callable[[object], object]) -> None:
    _background.add(running)
    for each in (_background.discard, *callbacks):
        running.add_done_callback(each)


def get_asyncio_task() -> Any:
    """Return the current asyncio task, or `None` on another event loop."""
    asyncio = sys.modules.get("asyncio")
    try:
        return None if asyncio is None else asyncio.current_task()
    except RuntimeError:  # another event loop runs here
        return None


def is_cancelled() -> bool:
    """Return whether a cancel scope cancels this task, or `Task.cancel` of asyncio, which scopes do not track."""
    task = get_asyncio_task()
    return current_effective_deadline() == -inf or (task is not None and task.cancelling() > 0)


async def absorb_cancel_requests() -> None:
    """Undo the `Task.cancel` requests that code made on its own task, and receive the cancellation that is due."""
    task = get_asyncio_task()
    if task is None or not task.cancelling():
        return
    with suppress(get_cancelled_exc_class()):
        await sys.modules["asyncio"].sleep(0)
    while task.cancelling():
        task.uncancel()


_TAKEN = object()


class _SpareTask(Coroutine[Any, Any, None]):
    """An asyncio task and the coroutine it runs: nothing until `start`, and then what was started, to its end.

    Its cancel scopes are entered once. While it is idle they are taken out of anyio's state of the task, which would
    keep the task, and its closed event loop, for ever.
    """

    __slots__ = (
        "_body",
        "_context",
        "_first",
        "_loop",
        "_parked",
        "_running",
        "_scope",
        "_scopes",
        "_shield",
        "_state",
        "is_idle",
        "task",
    )

    def __init__(self, loop: Any) -> None:
        tasks = sys.modules["asyncio.tasks"]
        self._loop = loop
        self._body: Coroutine[Any, Any, object] | None = None
        self._context: Context | None = None
        self._running: BackgroundTask | None = None
        self._first: Any = _TAKEN
        """What the first step waits for."""
        self._parked: Any = None
        self._scope, self._shield = CancelScope(), CancelScope()
        self._scopes: ExitStack | None = None
        self._state: Any = None
        """Where anyio keeps the innermost scope of the task."""
        self.is_idle = False
        """Whether it may be started again."""
        self.task = tasks.Task(self, loop=loop, name="spindle-calls")
        # An idle task is not registered: a check for leaks would report it, and a closing loop would cancel it.
        self.task._log_destroy_pending = False
        tasks._unregister_task(self.task)

    def start(self, body: Coroutine[Any, Any, object]) -> BackgroundTask | None:
        """Run the first step as this task, which is the current one; return `None` if it was the only one."""
        if self._scopes is None:
            self._enter_scopes()
        elif self._state is not None:
            self._state.cancel_scope = self._shield
        self.is_idle = False
        context = copy_context()
        references = sys.getrefcount(self.task)
        try:
            self._first = context.run(body.send, None)
        except StopIteration:
            self._leave_or_rest(is_shared=sys.getrefcount(self.task) > references)
            return None
        except BaseException as error:  # noqa: BLE001  it is the error of the task
            ended = BackgroundTask(self._scope, self._shield)
            ended.finish(error)
            self._leave_or_rest(is_shared=True)
            return ended
        self._body, self._context = body, context
        self._running = BackgroundTask(self._scope, self._shield)
        if self._parked is not None and not self._parked.done():
            self._parked.set_result(None)
        return self._running

    def _enter_scopes(self) -> None:
        self._scopes = ExitStack()
        self._scopes.enter_context(self._scope)
        self._scopes.enter_context(self._shield)
        self._state = _find_task_state(self.task)

    def _leave_or_rest(self, *, is_shared: bool) -> None:
        """Become idle, unless the coroutine left a cancellation, an open scope or a reference, such as in a timer."""
        state = self._state
        is_cancelled = self._scope.cancel_called or self.task.cancelling()
        if state is not None and state.cancel_scope is self._shield and not is_cancelled and not is_shared:
            state.cancel_scope = None
            self.is_idle = True
        else:
            self._leave_scopes(None)

    def _leave_scopes(self, error: BaseException | None) -> bool:
        """Return whether the scopes swallow the error, which is then their own cancellation."""
        scopes, self._scopes = self._scopes, None
        try:
            return scopes is not None and bool(scopes.__exit__(type(error) if error is not None else None, error, None))
        except BaseException:  # noqa: BLE001  the coroutine has left a scope open
            if self._state is not None:
                self._state.cancel_scope = None
            return False

    def send(self, value: Any) -> Any:
        if self._body is None:
            self._parked = self._loop.create_future()
            return _mark_awaited(self._parked)
        if self._first is not _TAKEN:
            first, self._first = self._first, _TAKEN
            return first if first is None else _mark_awaited(first)
        return self._step(self._body.send, value)

    def throw(self, *error: Any) -> Any:
        if self._body is None:
            raise error[0]
        self._first = _TAKEN
        return self._step(self._body.throw, *error)

    def _step(self, step: Callable[..., Any], *given: Any) -> Any:
        if self._context is None or self._running is None:  # pragma: no cover - it was started
            raise RuntimeError("the task was not started")
        try:
            return self._context.run(step, *given)
        except StopIteration:
            self._leave_scopes(None)
            self._running.finish()
            raise
        except BaseException as error:
            is_cancelled = isinstance(error, get_cancelled_exc_class())
            is_swallowed = self._leave_scopes(error)
            self._running.finish(None if is_cancelled or is_swallowed else error)
            if is_cancelled and not is_swallowed:  # the event loop is closing
                raise
        raise StopIteration

    def close(self) -> None:
        if self._body is not None:
            self._body.close()
            if self._running is not None:
                self._running.finish()

    def __await__(self) -> Any:
        raise TypeError("run by a task, which sends and throws; it is never awaited")


def _find_task_state(task: Any) -> Any:
    """Return anyio's state of an asyncio task, or `None` if this anyio keeps it elsewhere: no task is then reused."""
    states: Any = getattr(sys.modules.get("anyio._backends._asyncio"), "_task_states", {})
    state = states.get(task)
    return state if hasattr(state, "cancel_scope") else None


def _mark_awaited(future: Any) -> Any:
    """Mark a future as the one its task waits for; another task may have waited for it and removed the mark."""
    future._asyncio_future_blocking = True
    return future
