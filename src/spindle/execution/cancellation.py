"""Cancellation: external (propagated), raised by a tool itself (reported as an error), the abort of a turn.

Also the tasks that ignored theirs, and pauses in which a cancellation can arrive.
"""

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import local
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

import anyio
import anyio.lowlevel

from spindle.calls import Err
from spindle.concurrency import BackgroundTask, get_asyncio_task, is_cancelled, spawn_background
from spindle.execution.results import HandlerResult

if TYPE_CHECKING:
    from spindle.execution.call_state import AdmittedCall

GRACE_SECONDS = 0.25
"""How long a cancelled call, or a write that is late, may take before the caller goes on without it."""

PAUSE_AFTER_SECONDS = 0.01
"""How long calls that never wait may keep an event loop from everything else, cancellations included."""


class Pace(local):
    """When the event loop of this thread is due for a pause, and how often it had one."""

    due = 0.0
    count = 0


pace = Pace()


def is_pause_due() -> bool:
    """Return whether the last pause was a while ago."""
    return time.monotonic() >= pace.due


async def pause() -> None:
    """Let the other tasks of the event loop run; raises if the caller is cancelled."""
    count = pace.count
    await anyio.lowlevel.checkpoint()
    # Tasks that paused in the same step of the loop go on in the same step too: only the first has time again.
    if pace.count == count:
        pace.count, pace.due = count + 1, time.monotonic() + PAUSE_AFTER_SECONDS


def external_cancellation(error: BaseException, scope: anyio.CancelScope | None = None) -> BaseException | None:
    """Return the exception to propagate if `error` is an external cancellation, else `None`.

    External means: the deadline of `scope`, a cancelled caller, or a closed coroutine.
    """
    if isinstance(error, GeneratorExit):
        # Event loops never throw it into a running task; only a coroutine that is closed receives it.
        return None if _is_in_event_loop() else error
    if isinstance(error, Exception):
        return None
    cancelled = _find_exception(error, anyio.get_cancelled_exc_class())
    # A tool may raise it itself, or await something that was cancelled; neither is an external cancellation.
    if cancelled is None or not ((scope and scope.cancel_called) or is_cancelled()):
        return None
    return cancelled


async def reraise(cancellation: BaseException) -> NoReturn:
    """Propagate an external cancellation.

    A tool may raise its own cancellation while its scope is cancelled. On asyncio no scope recognises that exception,
    and it would cancel more than the scope, so the exception of the scope is raised first.
    """
    if not isinstance(cancellation, GeneratorExit):
        await anyio.lowlevel.checkpoint_if_cancelled()
    raise cancellation


def _find_exception(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """Return the first exception of that class, also inside an exception group, or `None`."""
    if isinstance(error, BaseExceptionGroup):
        parts = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return next((found for part in parts if (found := _find_exception(part, kind)) is not None), None)
    return error if isinstance(error, kind) else None


def _is_in_event_loop() -> bool:
    try:
        anyio.get_cancelled_exc_class()
    except anyio.NoEventLoopError:
        return False
    return True


class StopSignal(Protocol):
    """A signal that aborts a batch, such as the abort of a turn."""

    @property
    def aborted(self) -> bool:
        """Whether it was set."""
        ...

    def on_abort(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Register a callback and return a function that removes it."""
        ...


async def run_until_aborted(
    run: Callable[[], Awaitable[None]], states: Sequence["AdmittedCall"], stop: StopSignal
) -> None:
    """Run calls until they end or `stop` is set; unfinished calls then get a `cancelled` result."""
    ended: set[AdmittedCall] = set()
    if not stop.aborted:
        with anyio.CancelScope() as scope:

            def end() -> None:
                for state in states:
                    if state.handled is None:
                        state.ctx.cancel()  # before the scope, so that a handler can see why it is cancelled
                    else:
                        ended.add(state)
                scope.cancel()

            forget = stop.on_abort(end)
            try:
                await run()
            finally:
                forget()
        if not scope.cancel_called:
            return
    for state in states:
        # A call that fails after the abort is reported as cancelled.
        if state not in ended and (state.handled is None or not state.handled.result.ok):
            state.ctx.cancel()
            state.close(HandlerResult(Err("cancelled", "The call was cancelled: the turn was aborted.", by="spindle")))


def get_task() -> Any:
    """Return the current task of the event loop."""
    return get_asyncio_task() or sys.modules["trio"].lowlevel.current_task()


def find_traces(task: Any) -> int:
    """Return what changes when a tool leaves a timer or an open cancel scope behind on the task that runs it.

    Either could cancel the next call of that task. A timer needs a reference to a task of asyncio, and so does a scope;
    a task of trio cannot be cancelled but by its scopes.
    """
    scopes = getattr(task, "_cancel_status", None)
    return sys.getrefcount(task) if scopes is None else id(scopes)


class AbandonedTasks:
    """Counts the tasks that still run a call whose caller went on without it."""

    def __init__(self) -> None:
        self._tasks: set[BackgroundTask] = set()

    def add(self, task: BackgroundTask) -> None:
        """Count a task until it has ended, and cancel it less and less often."""
        self._tasks.add(task)
        with suppress(RuntimeError):  # no event loop runs that could repeat the cancellation
            spawn_background(partial(_cancel_rarely, task), name="spindle-abandoned")

    @property
    def count(self) -> int:
        """The number of tasks that have not ended."""
        self._tasks = {task for task in self._tasks.copy() if not task.is_done}
        return len(self._tasks)


_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 60.0


async def _cancel_rarely(task: BackgroundTask) -> None:
    """Repeat the cancellation of a task with growing pauses: a handler that loops on it would keep a core busy."""
    pause = _FIRST_PAUSE_SECONDS
    try:
        while not task.is_done:
            await anyio.lowlevel.checkpoint()
            task.pause_cancellation(is_paused=True)
            with anyio.move_on_after(pause):
                await task.wait()
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
            task.pause_cancellation(is_paused=False)
    finally:
        task.pause_cancellation(is_paused=False)


def build_timeout(state: "AdmittedCall") -> HandlerResult:
    """Cancel the context of a call whose time is over, and build its `timed_out` result."""
    state.ctx.cancel()
    text = f"The tool {state.call.name!r} took too long and was cancelled. Ask for less, or try something else."
    return HandlerResult(Err("timed_out", text, retryable=True, by="spindle"))
