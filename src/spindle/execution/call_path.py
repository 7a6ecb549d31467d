"""The path of one call: the layers around its handler, outermost first, in the list `LAYERS`.

A layer takes the next one and returns a function of a call and its batch. It may answer the call, or change the answer
of the next one. A layer that the executor, or a call of this kind, cannot need returns the next one.
"""

import math
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio

from spindle.calls import CallOutcome, Err, Ok
from spindle.capabilities.resolve import NO_BACKENDS
from spindle.execution import optional
from spindle.execution.admission import run_tool_checks
from spindle.execution.batch import Batch, Run
from spindle.execution.call_state import AdmittedCall, HeldSlot, held_slot
from spindle.execution.cancellation import build_timeout, external_cancellation, reraise
from spindle.execution.failures import redact_err, to_err
from spindle.execution.grants import open_capabilities, request_if_needed
from spindle.execution.interceptors import notify_observer
from spindle.execution.outcomes import run_with_events, run_with_progress
from spindle.execution.results import HandlerResult, normalize_off_loop, redact_off_loop
from spindle.execution.settings import Engine
from spindle.tools.arguments import build_redactor

if TYPE_CHECKING:
    from spindle.execution.journaling import BatchJournal

Answer: TypeAlias = Coroutine[Any, Any, HandlerResult]
Needs: TypeAlias = frozenset[str]
"""The layers that a kind of calls may need: those of `Runnable.layers`, approval, dry_run, observers."""
Layer: TypeAlias = Callable[[Engine, Run, Needs], Run]


def queue_outcome(engine: Engine, run: Run, _: Needs) -> Run:
    """Let the journal write the outcome while other calls of the batch still run."""
    if not engine.has_journal:
        return run

    async def run_and_queue(state: AdmittedCall, batch: Batch) -> HandlerResult:
        if (trace := state.trace) is not None:
            trace.began = batch.clock()
        handled = await run(state, batch)
        if trace is not None:
            trace.answered = batch.clock()
        if batch.journal is not None:
            if isinstance(handled.result, Ok) and handled.result.media:
                # The result is complete: the deadline only ends the reading.
                now = batch.clock()
                batch.set_deadline(state, now, min(state.deadline, now + optional.KEEP_SECONDS))
                await batch.journal.keep_media(state)
                if trace is not None:
                    trace.wait("media", now, batch.clock())
            batch.journal.queue_outcome(state)
        return handled

    return run_and_queue


def notify_observers(engine: Engine, run: Run, needs: Needs) -> Run:  # noqa: ARG001
    """Notify the observers of the start and the end of the call."""
    if "observers" not in needs:
        return run

    async def run_observed(state: AdmittedCall, batch: Batch) -> HandlerResult:
        events = batch.context.events
        for observer in batch.observers:
            notify_observer(events, observer.begin, state)
        try:
            return await run(state, batch)
        finally:
            for observer in reversed(batch.observers):
                notify_observer(events, observer.end, state)

    return run_observed


def store_result(engine: Engine, run: Run, _: Needs) -> Run:
    """Store the result of the call; every failure around it becomes its result. Release its locks."""

    async def run_and_store(state: AdmittedCall, batch: Batch) -> HandlerResult:
        state.started = time.perf_counter()
        now = batch.clock()
        # As `Engine.get_timeout` and `Batch.set_deadline` do it, written out because every call comes here.
        seconds = state.entry.tool.timeout_seconds or engine.timeout_seconds or math.inf
        state.deadline = deadline = min(now + seconds - state.used_seconds, batch.deadline)
        if deadline != math.inf:
            state.ctx.deadline = time.monotonic() + deadline - now
            if batch.watch is not None:
                batch.watch(deadline)
        try:
            handled = await run(state, batch) if state.deadline > now else build_timeout(state)
            if isinstance(handled.result, Ok) and handled.result.artifact is not None:
                handled = await optional.read_returned_artifact(handled, state, batch.budget, engine.redactor.redact)
        except BaseException as error:  # noqa: BLE001  see above
            ending = external_cancellation(error)
            if ending is not None:
                if state.overdue_until is not None:
                    state.finish(build_timeout(state))
                    state.is_answered = True
                await reraise(ending)
            handled = HandlerResult(to_err(error, tool=state.call.name))
        finally:
            if state.lock_request is not None:
                state.lock_request.release()
        if isinstance(handled.result, Err):  # a check, an approver or an interceptor may have written it
            handled = handled._replace(result=redact_err(handled.result, engine.redactor))
        # An error that a handler raises because of the timeout must not hide the timeout.
        if state.overdue_until is not None and isinstance(handled.result, Err):
            handled = build_timeout(state)
        if engine.flow is not None:
            handled = optional.join_input_label(state, handled)
        state.finish(handled)
        state.is_answered = True
        return handled

    return run_and_store


def intercept(engine: Engine, run: Run, _: Needs) -> Run:
    """Run the call inside the user's interceptors."""
    if not engine.interceptors:
        return run

    def run_intercepted(state: AdmittedCall, batch: Batch) -> Answer:
        async def inner() -> CallOutcome:
            state.finish(await run(state, batch))
            return state.outcome()

        return optional.run_interceptors(state, engine.interceptors, inner)

    return run_intercepted


def check(engine: Engine, run: Run, needs: Needs) -> Run:  # noqa: ARG001
    """Run the tool's own checks."""
    if "checks" not in needs:
        return run

    async def run_checked(state: AdmittedCall, batch: Batch) -> HandlerResult:
        refused = await run_tool_checks(state)
        return await run(state, batch) if refused is None else HandlerResult(refused)

    return run_checked


def approve(engine: Engine, run: Run, needs: Needs) -> Run:  # noqa: ARG001
    """Ask for approval if the tool, the flow policy, an interceptor or a check requires it; a dry run never asks."""
    if "approval" not in needs:
        return run

    async def run_approved(state: AdmittedCall, batch: Batch) -> HandlerResult:
        refused = await request_if_needed(state, batch)
        return await run(state, batch) if refused is None else refused

    return lambda state, batch: (run if state.ctx.dry_run else run_approved)(state, batch)


def use_cache(engine: Engine, run: Run, needs: Needs) -> Run:
    """Answer from the cache of the tool, and add the result of a call that ran to it."""
    if "cache" not in needs:
        return run

    async def run_cached(state: AdmittedCall, batch: Batch, ttl_seconds: float) -> HandlerResult:
        key = engine.cache.key(state, batch.filter)
        cached = None if key is None else engine.cache.get(key)
        if cached is not None:
            return cached
        handled = await run(state, batch)
        if key is not None and state.attempts:  # the journal may have answered
            kept = handled if engine.flow is None else optional.join_input_label(state, handled)
            engine.cache.put(key, kept, ttl_seconds)
        return handled

    def choose(state: AdmittedCall, batch: Batch) -> Answer:
        policy = state.entry.tool.cache
        return (
            run(state, batch) if policy is None or state.ctx.dry_run else run_cached(state, batch, policy.ttl_seconds)
        )

    return choose


def write_intent(engine: Engine, run: Run, _: Needs) -> Run:
    """Write the intent of the call to the journal, which may know its result already."""
    if not engine.has_journal:
        return run

    async def run_journaled(state: AdmittedCall, batch: Batch, journal: "BatchJournal") -> HandlerResult:
        began = batch.clock()
        answer = await journal.admit(
            state, waiting=partial(batch.stop_clock, state), timeout_seconds=engine.get_timeout(state)
        )
        if state.trace is not None:
            state.trace.wait("journal", began, batch.clock())
        return await run(state, batch) if answer is None else answer

    def choose(state: AdmittedCall, batch: Batch) -> Answer:
        known = state.journal_state
        is_written = batch.journal is None or (known is not None and known.is_begun)
        return run(state, batch) if is_written else run_journaled(state, batch, cast("BatchJournal", batch.journal))

    return choose


def redact(engine: Engine, run: Run, _: Needs) -> Run:
    """Redact the secrets that any tool has received so far."""
    redactor = engine.redactor
    if engine.backends is NO_BACKENDS:  # secrets come from nowhere else
        return run

    async def run_redacted(state: AdmittedCall, batch: Batch) -> HandlerResult:
        handled = await run(state, batch)
        if not redactor.is_active:
            return handled
        clean = await redact_off_loop(handled, redactor)
        return await optional.redact_artifact(clean, redactor, batch.spool, state.ctx.turn_id)

    return run_redacted


def preview_dry_run(engine: Engine, run: Run, needs: Needs) -> Run:  # noqa: ARG001
    """Answer a dry run with a preview."""
    if "dry_run" not in needs:
        return run

    async def preview(state: AdmittedCall) -> HandlerResult:
        return HandlerResult(await optional.dry_run_preview(state))

    return lambda state, batch: preview(state) if state.ctx.dry_run else run(state, batch)


def take_slot(engine: Engine, run: Run, _: Needs) -> Run:  # noqa: ARG001
    """Acquire the call's resource locks and a slot; waiting for them does not count towards its timeout."""

    async def run_in_slot(state: AdmittedCall, batch: Batch) -> HandlerResult:
        slots = batch.slots
        if state.lock_request is not None and not state.lock_request.is_ready:
            with batch.stop_clock(state, "locks"):
                await state.lock_request.wait_ready()
        slot = slots.hold_nowait()
        if slot is None:
            with batch.stop_clock(state, "slot"):
                await slots.acquire()
            slot = HeldSlot(slots)
            if state.deadline <= batch.clock():
                slot.close()
                return build_timeout(state)
        state.slot = slot
        token = held_slot.set(slot)
        try:
            return await run(state, batch)
        finally:
            held_slot.reset(token)
            slot.close()

    return run_in_slot


def emit_events(engine: Engine, run: Run, _: Needs) -> Run:  # noqa: ARG001
    """Emit the start and end events of the handler, and wait until its progress was delivered."""

    def choose(state: AdmittedCall, batch: Batch) -> Answer:
        has_observer = state.ctx.events.has_observer
        if has_observer("tool_execution_start") or has_observer("tool_execution_end"):
            return run_with_events(run, state, batch)
        return run_with_progress(run, state, batch) if has_observer("tool_progress") else run(state, batch)

    return choose


def retry(engine: Engine, run: Run, needs: Needs) -> Run:
    """Retry an idempotent tool; the timeout covers all attempts."""
    retries = engine.retries
    if "retries" not in needs:
        return run

    async def run_with_retries(state: AdmittedCall, batch: Batch) -> HandlerResult:
        while True:
            handled = await run(state, batch)
            if state.attempts > retries.times or not handled.is_retryable:
                return handled
            wait = retries.wait_seconds(state.attempts)
            if (now := batch.clock()) + wait >= state.deadline:
                return handled  # no time for another attempt, and this error is more useful than a timeout
            await anyio.sleep(wait)
            if state.trace is not None:
                state.trace.wait("retry", now, batch.clock())
            # The previous attempt may have changed its arguments; build them again.
            state.value = state.runnable.schema.copying_validator()(state.arguments)

    return run_with_retries


LAYERS: tuple[Layer, ...] = (
    queue_outcome,
    notify_observers,
    store_result,
    intercept,
    check,
    approve,
    use_cache,
    write_intent,
    redact,
    open_capabilities,
    preview_dry_run,
    take_slot,
    emit_events,
    retry,
)


def build_call_path(engine: Engine) -> Run:
    """Build the function that runs one admitted call and stores its result; raises only on external cancellation."""
    return choose_path(engine, LAYERS, _build_attempt(engine))


def choose_path(engine: Engine, layers: Sequence[Layer], attempt: Run) -> Run:
    """Build the function that runs a call through the layers it needs; each kind of calls has one path."""
    paths: dict[tuple[Needs, bool, bool, bool], Run] = {}
    # An interceptor, or a check, may turn the call into a dry run.
    may_change = bool(engine.interceptors)

    def build(state: AdmittedCall, batch: Batch) -> Run:
        conditions = {
            "approval": state.needs_approval or may_change or "checks" in state.runnable.layers,
            "dry_run": state.ctx.dry_run or may_change or "checks" in state.runnable.layers,
            "observers": bool(batch.observers),
        }
        needs = state.runnable.layers.union(name for name, holds in conditions.items() if holds)
        run = attempt
        for layer in reversed(layers):
            run = layer(engine, run, needs)
        return run

    def run_call(state: AdmittedCall, batch: Batch) -> Answer:
        kind = state.runnable.layers, state.needs_approval, state.ctx.dry_run, not batch.observers
        path = paths.get(kind)
        if path is None:
            path = paths[kind] = build(state, batch)
        return path(state, batch)

    return run_call


def _build_attempt(engine: Engine) -> Run:
    """Build the innermost step: the handler on the event loop, in a thread, in a process, or through a transport."""
    transport = engine.transport

    async def attempt(state: AdmittedCall, batch: Batch) -> HandlerResult:
        tool, runnable, trace = state.entry.tool, state.runnable, state.trace
        state.attempts += 1
        if trace is not None and trace.started < 0:
            trace.started = batch.clock()
        try:
            if transport is not None and optional.accepts(transport, tool):
                return await optional.execute_remotely(transport, state)
            if runnable.is_async:
                value: object = await runnable.handler(state.value, state.ctx, runnable.meta)
            else:
                value = await engine.local.run(state)
        except BaseException as error:  # noqa: BLE001  every exception of a tool becomes its result
            ending = external_cancellation(error)
            if ending is not None:
                await reraise(ending)
            secrets = build_redactor(state.arguments, tool.secret_fields)
            return HandlerResult(to_err(error, tool=tool.name, expose=tool.expose_errors, secrets=secrets))
        finally:
            if trace is not None:
                trace.ended = batch.clock()
        if type(value) is str and value.isascii():
            handled = HandlerResult(Ok(value, trusted=tool.trusted, label=tool.output))  # as `normalize` does it
        else:
            handled = await normalize_off_loop(value, tool=tool.name, output=tool.output)
        if tool.secret_fields and isinstance(handled.result, Err):
            return HandlerResult(redact_err(handled.result, build_redactor(state.arguments, tool.secret_fields)))
        return handled

    return attempt
