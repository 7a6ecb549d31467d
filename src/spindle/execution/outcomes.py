"""Outcomes of calls, which taint the turn and are written to the journal in time, and the events around a call."""

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio

from spindle.calls import CallOutcome, Err, Ok
from spindle.concurrency import spawn_background
from spindle.execution.batch import Batch, Run
from spindle.execution.call_state import AdmittedCall, CallState
from spindle.execution.call_trace import BatchTrace, CallTrace
from spindle.execution.cancellation import GRACE_SECONDS
from spindle.execution.results import HandlerResult
from spindle.execution.settings import Engine
from spindle.tools.context import ToolContext
from spindle.tools.invocation import ObservedCall
from spindle.trust.labels import is_tainting

if TYPE_CHECKING:
    from spindle.execution.journaling import BatchJournal


def follow_calls(states: Sequence[CallState], trace: BatchTrace | None) -> None:
    """Record what happens to calls, which were just admitted or refused, if there is a journal."""
    if trace is None:
        return
    trace.end_admission()
    for position, state in enumerate(states):
        own = state.trace = CallTrace(trace, position)
        if isinstance(state, AdmittedCall):
            state.ctx.record_with(own)


async def record_cancelled(states: Sequence[AdmittedCall], batch: Batch) -> None:
    """Cancel every call and write the outcomes, although the caller itself is being cancelled."""
    for state in states:
        state.ctx.cancel()
        if state.handled is None:
            state.close(
                HandlerResult(Err("cancelled", f"The call of {state.call.name!r} was cancelled.", by="spindle"))
            )
    if batch.journal is not None:
        with anyio.CancelScope(shield=True):
            deadline = anyio.current_time() + GRACE_SECONDS
            await write_outcomes(batch.journal, states, batch, deadline=deadline)
    keep_flow(batch.engine, states, batch.context)


async def write_outcomes(
    journal: "BatchJournal", states: Sequence[CallState], batch: Batch, *, deadline: float
) -> None:
    """Write the outcomes; what is not written at the deadline is written in the background, with a warning."""
    writing = spawn_background(partial(journal.finish, states), name="spindle-outcomes")
    with anyio.CancelScope(deadline=deadline):
        await writing.wait()
    if not writing.is_done:
        batch.context.events.warn("outcomes are still being written to the journal", source="journal")


def get_finish_time(states: Sequence[CallState], batch: Batch) -> float:
    """Return until when results may be written down before they are given: the last deadline, or a moment.

    Calls that were all refused have the time of the executor, from the first one's start.
    """
    now = anyio.current_time()
    last = max((state.deadline for state in states if isinstance(state, AdmittedCall)), default=None)
    if last is None:
        started = time.perf_counter()
        used_seconds = started - min((state.started for state in states), default=started)
        last = min(now + (batch.engine.timeout_seconds or math.inf) - used_seconds, batch.deadline)
    return max(last, now + GRACE_SECONDS)


async def collect_outcomes(states: Sequence[CallState], batch: Batch) -> list[CallOutcome]:
    """Return the outcomes of a batch; its context and its session keep what came in."""
    if batch.engine.flow is not None:
        await batch.engine.flow.absorb(states, batch.context)
    outcomes = [state.outcome() for state in states]
    keep_taint(batch.context, outcomes)
    return outcomes


def keep_flow(engine: Engine, states: Sequence[CallState], context: ToolContext) -> None:
    """Let the context and the session of calls keep at once what came in, although the caller may be leaving."""
    keep_taint(context, [state.outcome() for state in states])
    if engine.flow is not None:
        engine.flow.absorb_now(states, context)


def keep_taint(context: ToolContext, outcomes: Sequence[CallOutcome]) -> None:
    """Mark the context if a call has brought in untrusted content, so that its next batch knows."""
    for each in () if context.tainted else outcomes:
        if is_tainting(each):
            context.tainted = True
            return


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
