"""The events around a handler, for batches that have observers of them."""

import anyio

from spindle.calls import Err, Ok
from spindle.execution.batch import Batch, Run
from spindle.execution.call_state import AdmittedCall
from spindle.execution.cancellation import GRACE_SECONDS
from spindle.execution.results import HandlerResult
from spindle.tools.invocation import ObservedCall


async def run_with_progress(run: Run, state: AdmittedCall, batch: Batch) -> HandlerResult:
    """Run a call, and wait until its progress was delivered."""
    handled = await run(state, batch)
    await _flush_in_time(state, batch)
    return handled


async def run_with_events(run: Run, state: AdmittedCall, batch: Batch) -> HandlerResult:
    """Emit the start and end events of a call around it, and wait until they were delivered."""
    events = state.ctx.events
    results: list[HandlerResult] = []

    async def emit_end(name: str, payload: object) -> None:
        if results:
            events.notify(name, payload)
            await _flush_in_time(state, batch)
        else:
            await events.emit_last(name, payload)

    observed = ObservedCall(tool=state.runnable, context=state.ctx, checksum=state.checksum, emit_end=emit_end)

    async def body() -> Ok | Err:
        results.append(await run(state, batch))
        return results[0].result

    await observed.run(state.value, body)
    return results[0]


async def _flush_in_time(state: AdmittedCall, batch: Batch) -> None:
    """Wait for async observers of a call whose result is there, at most until its deadline; the result stays."""
    if not state.ctx.events.is_delivering:
        return
    now, deadline = batch.clock(), state.deadline
    batch.set_deadline(state, now, deadline + GRACE_SECONDS)  # for what is left to do with the result
    with anyio.CancelScope(deadline=deadline):
        await state.ctx.events.flush()
