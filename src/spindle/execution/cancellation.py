"""Distinguish external cancellation (propagated) from a cancellation the tool raised itself (reported as an error)."""

import math
import sys
from typing import Any, NoReturn, cast

import anyio
import anyio.lowlevel


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
    if cancelled is None or not ((scope and scope.cancel_called) or is_scope_cancelled() or count_cancel_requests()):
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


def is_scope_cancelled() -> bool:
    """Return whether an enclosing cancel scope of this task was cancelled."""
    return anyio.current_effective_deadline() == -math.inf


def count_cancel_requests() -> int:
    """Return the pending `Task.cancel` requests of this asyncio task, which cancel scopes do not track."""
    task = get_asyncio_task()
    return 0 if task is None else task.cancelling()


def uncancel_task() -> None:
    """Undo the `Task.cancel` requests that a tool made on its own task."""
    task = get_asyncio_task()
    while task is not None and task.cancelling():
        task.uncancel()


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


def get_asyncio_task() -> Any:
    """Return the current asyncio task, or `None` on another event loop."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio.current_task() if asyncio is not None else None
    except RuntimeError:  # another event loop runs here
        return None
