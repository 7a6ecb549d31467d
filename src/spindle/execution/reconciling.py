"""Asking a tool what became of a call that a crash interrupted."""

from typing import cast

import anyio

from spindle.calls import Err, Ok
from spindle.execution.cancelling import from_outside, pass_on
from spindle.execution.job import Job, Record
from spindle.execution.settle import Settled, settle
from spindle.tools.running import is_awaitable


async def reconciled(job: Job, timeout_seconds: float) -> Settled | None:
    """Ask the tool what became of an interrupted call; whatever is no answer means that nobody knows."""
    tool = job.entry.tool
    if tool.reconcile is None:
        return None
    problem: BaseException | None = None
    with anyio.move_on_after(timeout_seconds) as scope:
        try:
            found = tool.reconcile(cast("Record", job.record).key, job.ctx)
            found = await found if is_awaitable(found) else found
            if found is None:
                return None
            if isinstance(found, (Ok, Err)):
                return settle(found, tool=tool.name, trusted=tool.trusted)
            problem = TypeError(f"reconcile gave a {type(found).__name__} instead of an Ok, an Err or None")
        except BaseException as error:  # noqa: BLE001  it is a user's function, and nobody is to fall over it
            ending = from_outside(error, scope)
            if ending is not None:
                await pass_on(ending)
            problem = error
    job.ctx.events.warn(f"reconciling a call of {tool.name!r} failed", source="reconcile", error=problem)
    return None
