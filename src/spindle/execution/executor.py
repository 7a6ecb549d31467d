"""The executor: runs a batch of calls and returns exactly one outcome for each.

Read `execute_parallel` first, then `_perform`, which runs one call from checks to result.
"""

import math
import time
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, cast

import anyio

from spindle.artifacts.forge import ReaderTool
from spindle.artifacts.spool import Spool
from spindle.calls import Call, CallOutcome, Err
from spindle.capabilities.declare import NO_CAPABILITIES
from spindle.capabilities.resolve import NO_BACKENDS, Backends
from spindle.capabilities.secrets.secret import Redactor
from spindle.execution.admission import AdmissionContext, admit, run_tool_checks
from spindle.execution.approval import Approve, dry_run_preview, request_approval, require_sink_approval
from spindle.execution.batch import Batch, Slots, record_cancelled, run_all, run_until_aborted
from spindle.execution.budget import Budget, fair_share
from spindle.execution.cache import ResultCache
from spindle.execution.call_state import CallState, compute_identity
from spindle.execution.cancellation import external_cancellation, reraise
from spindle.execution.fit_results import all_fit, fit_to_budget, fits_untruncated
from spindle.execution.interceptors import (
    BatchObserver,
    CallObserver,
    Interceptor,
    finish_observers,
    run_interceptors,
    split_observers,
    start_observers,
    with_observers,
)
from spindle.execution.invoke import HandlerRunner, Retries, Run, with_capabilities
from spindle.execution.journaling import BatchJournal, notify_on_end
from spindle.execution.reducers import ReduceInfo, ReducerRegistry, safe_reduce
from spindle.execution.resource_locks import ResourceLocks
from spindle.execution.results import HandlerResult, redact_artifact, redact_result, to_err
from spindle.execution.settings import check_executor_parts, check_executor_settings
from spindle.execution.transport import SyncHandlerRunner, Transport
from spindle.journal.journal import Journal
from spindle.tools.context import ToolContext, to_tool_context
from spindle.tools.filters import ToolFilter, validate_filter
from spindle.tools.registry import ToolRegistry
from spindle.trust.labels import SinkPolicy

_DEFAULT_SPOOL: Any = object()
_SAME: Any = object()


class Executor:
    """Runs batches of calls concurrently and returns exactly one outcome for each, whatever a tool does.

    Raises:
        UsageError: A setting is invalid.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        backends: Backends | None = None,
        reducers: ReducerRegistry | None = None,
        budget: Budget | None = None,
        spool: Spool | None = _DEFAULT_SPOOL,
        journal: Journal | None = None,
        transport: Transport | None = None,
        concurrency: int = 64,
        timeout_seconds: float | None = 120,
        batch_timeout_seconds: float | None = None,
        interceptors: Sequence[Interceptor | CallObserver] = (),
        approve: Approve | None = None,
        sinks: SinkPolicy | None = None,
        retries: Retries | None = None,
        repair: Literal["explain"] | None = None,
    ) -> None:
        check_executor_settings(registry, concurrency, timeout_seconds, batch_timeout_seconds, repair)
        check_executor_parts(
            backends=backends, reducers=reducers, budget=budget, spool=None if spool is _DEFAULT_SPOOL else spool
        )
        check_executor_parts(journal=journal, transport=transport, approve=approve, sinks=sinks, retries=retries)
        self._registry = registry
        self._backends = backends or NO_BACKENDS
        self._reducers = reducers
        self._budget = budget or Budget()
        self._spool = Spool.memory() if spool is _DEFAULT_SPOOL else spool
        self._journal = journal
        self._timeout_seconds = timeout_seconds
        self._batch_timeout_seconds = batch_timeout_seconds
        self._interceptors, self._observers = split_observers(interceptors)
        self._approve = approve
        self._sinks = sinks
        self._local = SyncHandlerRunner(concurrency)
        self._attempts = HandlerRunner(retries or Retries(), self._local, transport)
        self._explain_repairs = repair == "explain"
        self._cache = ResultCache(time.monotonic)
        self._redactor = Redactor()
        self._locks = ResourceLocks()
        self._concurrency, self._slots = concurrency, Slots(concurrency)

    @property
    def abandoned_threads(self) -> int:
        """The number of threads still running a sync handler that timed out or was cancelled."""
        return self._local.abandoned

    @property
    def budget(self) -> Budget:
        """The budget shared by all results of one batch."""
        return self._budget

    @property
    def has_approver(self) -> bool:
        """Whether an approval callback is configured."""
        return self._approve is not None

    def with_registry(
        self, registry: ToolRegistry, *, spool: Spool | None = None, approve: Approve | None = None
    ) -> "Executor":
        """Return an executor for another registry, such as a turn's own, that shares everything else with this one.

        `approve` is used only if this executor has no approval callback.
        """
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._registry, other._approve = registry, self._approve or approve
        if spool is not None:
            other._spool = spool
        return other

    async def execute_parallel(
        self,
        calls: Iterable[Call],
        ctx: Any,
        filter: ToolFilter | None = None,
        attachments: Sequence[Any] = (),
    ) -> list[CallOutcome]:
        """Run calls concurrently and return one outcome each, in input order; failed calls do not raise.

        Only invalid arguments and the cancellation of the caller raise.

        Raises:
            InvalidContextError: `ctx` is not a context.
            InvalidToolFilterError: `filter` is not a filter.
            InvalidBudgetError: `ctx.result_budget_chars` is not a positive integer.
        """
        context = to_tool_context(ctx)
        begun = time.perf_counter()
        jobs = [CallState(call, begun) for call in calls]
        batch = self._build_batch(len(jobs), context, validate_filter(filter), attachments)
        watches = start_observers(self._observers, context) if self._observers else ()
        waiting = [job for job in jobs if self._admit(job, batch)]
        if self._sinks is not None:
            require_sink_approval(self._sinks, waiting, tainted=context.tainted)
        try:
            stop = None if context is ctx else getattr(ctx, "abort_signal", None)
            run = partial(self._run_all, waiting, batch, watches)
            await (run() if stop is None else run_until_aborted(run, waiting, stop))
            batch.share_results()
            if self._reducers is not None:
                for job in jobs:
                    self._reduce(job, self._reducers)
            new = jobs if batch.journal is None else [job for job in jobs if not job.is_from_record]
            if not all_fit(new, batch.budget):
                await fit_to_budget(new, batch.budget, self._spool, self._redactor.redact)
            if batch.journal is not None:
                await batch.journal.finish(jobs)
        except anyio.get_cancelled_exc_class():
            await record_cancelled(waiting, batch)
            raise
        finally:
            batch.release_locks()
            if watches:
                finish_observers(watches, jobs, context.events)
        await context.events.flush()
        return [job.outcome(from_artifact_tool=_is_reader(job)) for job in jobs]

    async def _run_all(self, jobs: Sequence[CallState], batch: Batch, observers: Sequence[BatchObserver]) -> None:
        """Run the calls; with a journal, write the intent of each before it runs and its outcome afterwards."""
        run = self._run if batch.deadline is None else self._run_with_deadline
        if observers:
            run = with_observers(run, observers)
        recording = batch.journal
        if recording is None:
            await run_all(batch, jobs, run, workers=self._concurrency)
            return
        await recording.begin([job for job in jobs if not self._is_intent_deferred(job)])
        batch.release_locks(job for job in jobs if job.settled is not None)
        left = [job for job in jobs if job.settled is None]
        if len(left) <= 1:  # no other outcome would have to wait for this call
            await run_all(batch, left, run, workers=self._concurrency)
            return
        run = notify_on_end(run, recording)
        async with recording.flush_in_background():
            await run_all(batch, left, run, workers=self._concurrency)

    def _is_intent_deferred(self, job: CallState) -> bool:
        """Return whether a check, approval, cache or interceptor may still answer; the intent is then written later."""
        tool = job.entry.tool
        return bool(self._interceptors or tool.checks or job.needs_approval or tool.cache is not None)

    def _build_batch(
        self, calls: int, context: ToolContext, filter: ToolFilter | None, attachments: Sequence[Any]
    ) -> Batch:
        total = context.result_budget_chars
        budget = self._budget if total is None else Budget(total or 1)
        journal = None if context.dry_run else self._journal
        return Batch(
            calls,
            AdmissionContext(self._registry, filter, self._backends, context.events, self._explain_repairs),
            context,
            budget=budget,
            timeout_seconds=self._batch_timeout_seconds,
            attachments=attachments,
            journal=None if journal is None else self._build_journal(journal, context, budget, calls),
        )

    def _build_journal(self, journal: Journal, context: ToolContext, budget: Budget, calls: int) -> BatchJournal:
        reducers, share = self._reducers, fair_share(budget.total, calls)

        def is_final(job: CallState) -> bool:
            is_reduced = reducers is not None and reducers.get(job.call.name) is not None
            return not is_reduced and fits_untruncated(job, budget, share)

        return BatchJournal(journal, context, self._spool, is_final)

    def _admit(self, job: CallState, batch: Batch) -> bool:
        """Run the admission checks; if they pass, create the call's context and add it to the batch."""
        job.started = time.perf_counter()
        refused = admit(job, batch.admission)
        if refused is not None:
            job.finish(HandlerResult(refused))
            return False
        tool, context = job.entry.tool, batch.context
        cap = tool.max_result_chars
        job.ctx = context.for_call(
            tool_name=tool.name,
            tool_call_id=job.call.tool_call_id,
            identify=partial(compute_identity, job.call, job.arguments, context),
            redact=self._redactor.redact,
            result_budget_chars=batch.share if cap is None else min(batch.share, cap),
            deadline=None,
        )
        job.needs_approval = tool.requires_approval
        return batch.add(job, self._locks)

    async def _run(self, job: CallState, batch: Batch) -> None:
        """Run one admitted call inside the user's interceptors and store its result in `job`."""
        job.started = time.perf_counter()
        try:
            if self._interceptors:
                job.finish(await self._run_intercepted(job, batch))
            else:
                job.finish(await self._perform(job, batch))
        except BaseException as error:  # noqa: BLE001  every failure around a call becomes its result
            ending = external_cancellation(error)
            if ending is not None:
                await reraise(ending)
            job.finish(HandlerResult(to_err(error, tool=job.call.name)))
        finally:
            if (ticket := batch.lock_request(job)) is not None:
                ticket.release()

    async def _run_with_deadline(self, job: CallState, batch: Batch) -> None:
        """Run one call of a batch that has a deadline; waiting for approval or locks counts towards it."""
        with anyio.CancelScope(deadline=cast("float", batch.deadline)) as scope:
            await self._run(job, batch)
        if scope.cancel_called and (job.settled is None or not job.settled.result.ok):
            job.ctx.cancel()
            job.finish(HandlerResult(_build_timeout(job.call.name)))

    async def _run_intercepted(self, job: CallState, batch: Batch) -> HandlerResult:
        async def inner() -> CallOutcome:
            job.finish(await self._perform(job, batch))
            return job.outcome(from_artifact_tool=_is_reader(job))

        return await run_interceptors(job, self._interceptors, inner)

    async def _perform(self, job: CallState, batch: Batch) -> HandlerResult:
        """Run one admitted call: the tool's own checks, approval, dry run, cache, journal, then the handler."""
        tool = job.entry.tool
        if tool.checks:
            refused = await run_tool_checks(job)
            if refused is not None:
                return HandlerResult(refused)
        if job.needs_approval:
            refused = await request_approval(job, self._approve)
            if refused is not None:
                return HandlerResult(refused)
        if job.ctx.dry_run:
            return redact_result(await self._run_with_capabilities(job, batch, _run_preview), self._redactor)
        key = None if tool.cache is None else self._cache.key(job, batch.admission.filter)
        cached = None if key is None else self._cache.get(key)
        if cached is not None:
            return cached
        if batch.journal is not None:
            answer = await batch.journal.admit(job, timeout_seconds=self._get_timeout(job))
            if answer is not None:
                return answer
        settled = redact_result(await self._run_with_capabilities(job, batch, self._attempt), self._redactor)
        settled = await redact_artifact(settled, self._redactor)
        if key is not None and tool.cache is not None:
            self._cache.put(key, settled, tool.cache.ttl_seconds)
        return settled

    def _run_with_capabilities(self, job: CallState, batch: Batch, run: Run) -> Awaitable[HandlerResult]:
        if job.entry.tool.capabilities is NO_CAPABILITIES:
            return run(job, batch)
        return with_capabilities(job, batch, run, backends=self._backends, spool=self._spool, redactor=self._redactor)

    async def _attempt(self, job: CallState, batch: Batch) -> HandlerResult:
        """Acquire the call's resource locks and a slot, then run it with its timeout."""
        ticket, slots = batch.lock_request(job), self._slots
        if ticket is not None:
            await ticket.wait_ready()
        if not slots.acquire_nowait():
            await slots.acquire()
        try:
            seconds = self._get_timeout(job)
            if batch.deadline is not None:
                seconds = min(seconds, batch.deadline - anyio.current_time())
                if seconds <= 0:
                    return HandlerResult(_build_timeout(job.call.name))
            if seconds is math.inf:
                return await self._attempts.run(job, anyio.CancelScope())
            job.ctx.deadline = time.monotonic() + seconds
            with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
                settled = await self._attempts.run(job, scope)
                # An error that a handler raises because of the timeout must not hide the timeout.
                if settled.result.ok or not scope.cancel_called:
                    return settled
        finally:
            slots.release()
        job.ctx.cancel()
        return HandlerResult(_build_timeout(job.call.name))

    def _get_timeout(self, job: CallState) -> float:
        return job.entry.tool.timeout_seconds or self._timeout_seconds or math.inf

    def _reduce(self, job: CallState, reducers: ReducerRegistry) -> None:
        reducer = None if job.settled is None or job.ctx is None else reducers.get(job.call.name)  # pyright: ignore[reportUnnecessaryComparison]
        if reducer is None or job.settled is None or job.ctx.dry_run or job.is_from_record:
            return
        info = ReduceInfo(args=job.arguments, turn_count=job.ctx.turn_count)

        def warn(message: str, error: BaseException | None) -> None:
            job.ctx.events.warn(message, source="reducer", error=error)

        job.reduced = safe_reduce(reducer, job.settled.result, info, warn=warn)


async def _run_preview(job: CallState, batch: Batch) -> HandlerResult:  # noqa: ARG001
    return HandlerResult(await dry_run_preview(job))


def _build_timeout(tool: str) -> Err:
    text = f"The tool {tool!r} took too long and was cancelled. Ask for less, or try something else."
    return Err("timed_out", text, retryable=True)


def _is_reader(job: CallState) -> bool:
    entry = cast("Any", job.entry)
    return entry is not None and isinstance(entry.tool, ReaderTool)
