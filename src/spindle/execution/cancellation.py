"""Telling a cancellation from outside, which passes through, from one a tool made by itself, which is an answer."""

import math
import sys
from typing import Any, NoReturn, cast

import anyio
import anyio.lowlevel


def external_cancellation(error: BaseException, scope: anyio.CancelScope | None = None) -> BaseException | None:
    """Give what must go on of what a call raised, because somebody else wants the call to end; `None` if nobody does.

    Somebody else is its deadline (of `scope`), its caller, or whoever closes a coroutine.
    """
    if isinstance(error, GeneratorExit):
        # Event loops never throw it into a task that runs; only a coroutine that is thrown away gets it.
        return None if _a_loop_runs_here() else error
    if isinstance(error, Exception):
        return None
    cancelled = _first(error, anyio.get_cancelled_exc_class())
    # A tool may raise it by itself, or await something that was cancelled; then nobody outside wants to end.
    if cancelled is None or not ((scope and scope.cancel_called) or is_scope_cancelled() or cancel_requests()):
        return None
    return cancelled


async def reraise(ending: BaseException) -> NoReturn:
    """Let a cancellation from outside go on.

    A tool may raise one of its own just when its scope is cancelled. On asyncio no scope would know that one, and it
    would end far more than the scope; so the scope's own comes first.
    """
    if not isinstance(ending, GeneratorExit):
        await anyio.lowlevel.checkpoint_if_cancelled()
    raise ending


def is_scope_cancelled() -> bool:
    """Whether one of the cancel scopes this task is in was cancelled."""
    return anyio.current_effective_deadline() == -math.inf


def cancel_requests() -> int:
    """How often this task was asked to end with asyncio's own `Task.cancel`, which cancel scopes do not know of."""
    task = asyncio_task()
    return 0 if task is None else task.cancelling()


def uncancel_task() -> None:
    """Take back what a tool asked of the task it runs in."""
    task = asyncio_task()
    while task is not None and task.cancelling():
        task.uncancel()


def _first(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """Find a cancellation, also where a group holds it beside other errors, which would outlive their scope."""
    if isinstance(error, BaseExceptionGroup):
        parts = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return next((found for part in parts if (found := _first(part, kind)) is not None), None)
    return error if isinstance(error, kind) else None


def _a_loop_runs_here() -> bool:
    try:
        anyio.get_cancelled_exc_class()
    except anyio.NoEventLoopError:
        return False
    return True


def asyncio_task() -> Any:
    """Give asyncio's own task that runs here; `None` where another event loop runs."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio.current_task() if asyncio is not None else None
    except RuntimeError:  # another event loop runs here
        return None
