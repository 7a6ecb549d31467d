"""Where the blocking work of storage runs: a few threads of its own, so that it cannot starve other work."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

T = TypeVar("T")

MAX_THREADS = 8

# One limiter for each event loop: a limiter belongs to the loop that made it.
_limiter: RunVar[CapacityLimiter] = RunVar("spindle_storage_threads")


async def in_thread(work: Callable[[], T], *, abandon_on_cancel: bool = False) -> T:
    """Run a short blocking function in a thread; a cancelled caller waits for it, unless it may be abandoned."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(MAX_THREADS)
        _limiter.set(limiter)
    return await run_sync(work, limiter=limiter, abandon_on_cancel=abandon_on_cancel)
