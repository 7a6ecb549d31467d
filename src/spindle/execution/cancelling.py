"""Telling a cancellation from outside, which passes through, from one a tool made by itself, which is an answer."""

import math
import sys
from typing import cast

import anyio


def is_from_outside(error: BaseException, scope: anyio.CancelScope) -> bool:
    """Whether somebody else wants this call to end: its deadline, its caller, or a closing coroutine."""
    if isinstance(error, GeneratorExit) or scope.cancel_called:
        return True
    if not _holds(error, anyio.get_cancelled_exc_class()):
        return False
    # A tool may raise it by itself, or await something that was cancelled; then nobody outside wants to end.
    return anyio.current_effective_deadline() == -math.inf or _task_is_cancelling()


def _holds(error: BaseException, kind: type[BaseException]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_holds(part, kind) for part in cast("BaseExceptionGroup[BaseException]", error).exceptions)
    return isinstance(error, kind)


def _task_is_cancelling() -> bool:
    """Whether an asyncio task was cancelled by hand, which anyio's scopes do not know of."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = asyncio.current_task() if asyncio is not None else None
    except RuntimeError:  # another event loop runs here
        return False
    return task is not None and task.cancelling() > 0
