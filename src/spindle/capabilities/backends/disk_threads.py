"""Where the files capability waits for the disk: worker threads of its own, so that it cannot starve other work."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

T = TypeVar("T")
Args = TypeVarTuple("Args")

MAX_THREADS = 8

# One limiter for each event loop: a limiter belongs to the loop that made it.
_limiter: RunVar[CapacityLimiter] = RunVar("spindle_file_threads")


async def looking(func: Callable[[*Args], T], *args: *Args) -> T:
    """Run a function that changes nothing in a thread; a cancelled caller does not wait for it."""
    return await run_sync(func, *args, abandon_on_cancel=True, limiter=_of_this_loop())


async def changing(func: Callable[[*Args], T], *args: *Args) -> T:
    """Run a function that changes the disk in a thread; a cancelled caller waits, so that it knows it has ended."""
    return await run_sync(func, *args, limiter=_of_this_loop())


def _of_this_loop() -> CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(MAX_THREADS)
        _limiter.set(limiter)
        return limiter
