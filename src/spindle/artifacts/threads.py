"""Where the spool's blocking work runs: worker threads of its own, so that it cannot starve other work."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

T = TypeVar("T")
Args = TypeVarTuple("Args")

MAX_THREADS = 8

# One limiter for each event loop: a limiter belongs to the loop that made it.
_limiter: RunVar[CapacityLimiter] = RunVar("spindle_spool_threads")


async def in_thread(func: Callable[[*Args], T], *args: *Args) -> T:
    """Run a short blocking function in a thread; a cancelled caller waits for it to end."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(MAX_THREADS)
        _limiter.set(limiter)
    return await run_sync(func, *args, limiter=limiter)
