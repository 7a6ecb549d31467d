"""A batch that may be given up while it runs: what has ended keeps its answer, the rest is cancelled."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import anyio

from spindle.calls import Err
from spindle.execution.batch import Batch
from spindle.execution.job import Job
from spindle.execution.settle import Settled


class Stop(Protocol):
    """The word to stop, such as the abort of a turn."""

    @property
    def aborted(self) -> bool:
        """Whether it was given."""
        ...

    def on_abort(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have a function called when it is given; gives back the function that takes it off again."""
        ...


async def run_until_stopped(run: Callable[[], Awaitable[None]], jobs: Sequence[Job], stop: Stop) -> None:
    """Run calls until they are done or `stop` is given; then each that had not ended is answered as cancelled."""
    ended: set[Job] = set()
    if not stop.aborted:
        with anyio.CancelScope() as scope:

            def end() -> None:
                for job in jobs:
                    if job.settled is None:
                        job.ctx.cancel()  # first, so that a handler that hears of it can find out why
                    else:
                        ended.add(job)
                scope.cancel()

            forget = stop.on_abort(end)
            try:
                await run()
            finally:
                forget()
        if not scope.cancel_called:
            return
    for job in jobs:
        # What fails after the word to stop fails because of it.
        if job not in ended and (job.settled is None or not job.settled.result.ok):
            job.ctx.cancel()
            job.finish(Settled(Err("cancelled", "The call was cancelled: the turn was aborted.")))


async def end_cancelled(jobs: Sequence[Job], batch: Batch) -> None:
    """Tell every call that it is over, and write that down, although the caller is leaving."""
    for job in jobs:
        job.ctx.cancel()
        if job.settled is None:
            job.finish(Settled(Err("cancelled", f"The call of {job.call.name!r} was cancelled.")))
    if batch.recording is not None:
        with anyio.move_on_after(5, shield=True):
            await batch.recording.finish(jobs, in_haste=True)
