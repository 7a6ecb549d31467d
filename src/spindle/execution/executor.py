"""The executor: runs a batch of calls and returns exactly one outcome for each.

Read `execute_parallel` first, then the list of layers around one call in `call_path.py`.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import anyio

from spindle.artifacts.spool import Spool
from spindle.calls import Call, CallOutcome, RawArgs
from spindle.capabilities.resolve import NO_BACKENDS, Backends
from spindle.capabilities.secrets.secret import Redactor
from spindle.execution import optional
from spindle.execution.admission import admit
from spindle.execution.batch import Batch, supervise
from spindle.execution.budget import Budget, all_fit, fair_share, is_final_result
from spindle.execution.call_path import build_call_path
from spindle.execution.call_state import AdmittedCall, CallState, Slots, held_slot
from spindle.execution.cancellation import pace, pause, run_until_aborted
from spindle.execution.direct_calls import admit_direct, build_direct_path, get_direct_result
from spindle.execution.interceptors import CallObserver, Interceptor, finish_observers, split_observers, start_observers
from spindle.execution.outcomes import (
    collect_outcomes,
    follow_calls,
    get_finish_time,
    keep_flow,
    record_cancelled,
    write_outcomes,
)
from spindle.execution.settings import DAY_SECONDS, Engine, Retries, check_executor_parts, check_executor_settings
from spindle.json_types import JsonValue
from spindle.tools.context import ToolContext, get_handles, get_turn
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter, validate_filter
from spindle.tools.invocation import HasToolContext, to_tool_context
from spindle.tools.registry import ToolRegistry
from spindle.trust.labels import SinkPolicy

if TYPE_CHECKING:
    from spindle.execution.approval import Approve
    from spindle.execution.flow import FlowGuard
    from spindle.execution.journaling import BatchJournal
    from spindle.execution.reducers import ReducerRegistry
    from spindle.execution.ticket_settings import StateKeys, TicketSettings
    from spindle.execution.transport import Transport
    from spindle.journal.journal import Journal
    from spindle.trust.flow.policy import FlowPolicy


class _Unset(Enum):
    """The default of a setting for which `None` has a meaning of its own."""

    SPOOL = "…"


class DirectRunner(NamedTuple):
    """Runs single tools as an executor promises; the `ToolRunner` of its contexts."""

    executor: "Executor"
    filter: ToolFilter | None
    attachments: Sequence[Any]

    def find_plain_timeout(self, ctx: ToolContext) -> float | None:
        """Return the time of a tool that needs nothing else from the executor, or `None`; see `ToolRunner`."""
        is_plain = self.filter is None and not ctx.dry_run and get_handles(ctx) is None
        return self.executor._find_plain_timeout(ctx) if is_plain else None  # pyright: ignore[reportPrivateUsage]  same module

    async def run_tool(self, tool: Tool, args: RawArgs, ctx: ToolContext) -> object:
        """Run one call and return the handler's value; see `Tool.executor`."""
        return await self.executor._run_direct(tool, args, ctx, self)  # pyright: ignore[reportPrivateUsage]  same module


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
        reducers: "ReducerRegistry | None" = None,
        budget: Budget | None = None,
        spool: Spool | Literal[_Unset.SPOOL] | None = _Unset.SPOOL,
        journal: "Journal | None" = None,
        transport: "Transport | None" = None,
        concurrency: int = 64,
        timeout_seconds: float | None = 120,
        batch_timeout_seconds: float | None = None,
        interceptors: Sequence[Interceptor | CallObserver] = (),
        approve: "Approve | None" = None,
        sinks: SinkPolicy | None = None,
        flow: "FlowPolicy | SinkPolicy | None" = None,
        retries: Retries | None = None,
        repair: Literal["explain"] | None = None,
        state_key: "StateKeys | None" = None,
        ticket_ttl_seconds: float = DAY_SECONDS,
    ) -> None:
        check_executor_settings(registry, concurrency, timeout_seconds, batch_timeout_seconds, repair)
        if state_key is not None or ticket_ttl_seconds != DAY_SECONDS:
            optional.check_ticket_settings(state_key, ticket_ttl_seconds)
        check_executor_parts(backends=backends, reducers=reducers, budget=budget, sinks=sinks, flow=flow)
        check_executor_parts(journal=journal, transport=transport, approve=approve, retries=retries)
        check_executor_parts(spool=None if spool is _Unset.SPOOL else spool)
        policy = None if sinks is None and flow is None else optional.choose_policy(flow, sinks, registry)
        split, observers = split_observers(interceptors)
        self._registry = registry
        self._approve = approve
        self._handlers_executor: Executor | None = None  # runs what handlers call, if that must not be this one
        self._spool = Spool.memory() if spool is _Unset.SPOOL else spool
        self._reducers = reducers
        self._budget, self._has_default_budget = budget or Budget(), budget is None
        self._journal, self._explain_repairs = journal, repair == "explain"
        self._engine = Engine(
            backends=backends or NO_BACKENDS,
            interceptors=split,
            observers=observers,
            retries=retries or Retries(),
            transport=transport,
            concurrency=concurrency,
            timeout_seconds=timeout_seconds,
            batch_timeout_seconds=batch_timeout_seconds,
            has_journal=journal is not None,
            tickets=journal and optional.TicketSettings.build(journal, state_key, ticket_ttl_seconds, policy),
            flow=None if policy is None else optional.FlowGuard(policy, journal),
            slots=Slots(concurrency),
            redactor=Redactor(),
        )
        self._slots = self._engine.slots
        self._run = build_call_path(self._engine)
        self._run_directly = build_direct_path(self._engine)

    @property
    def abandoned_threads(self) -> int:
        """The number of threads still running a sync handler that timed out or was cancelled."""
        return self._engine.local.abandoned

    @property
    def abandoned_tasks(self) -> int:
        """The number of tasks still running an async handler that did not let itself be cancelled."""
        return self._engine.abandoned_tasks.count

    @property
    def concurrency(self) -> int:
        """The number of calls that may run at once."""
        return self._engine.concurrency

    @property
    def budget(self) -> Budget:
        """The budget shared by all results of one batch."""
        return self._budget

    @property
    def tickets(self) -> "TicketSettings | None":
        """How calls wait for approval in the journal; `None` if they cannot."""
        return self._engine.tickets

    @property
    def flow(self) -> "FlowGuard | None":
        """What judges the calls by the flow policy, and keeps the ledgers of sessions; `None` without a policy."""
        return self._engine.flow

    @property
    def has_approver(self) -> bool:
        """Whether an approval callback is configured."""
        return self._approve is not None

    def with_registry(
        self,
        registry: ToolRegistry,
        *,
        spool: Spool | None = None,
        approve: "Approve | None" = None,
        slots: Slots | None = None,
    ) -> "Executor":
        """Return an executor for another registry, such as a turn's own, that shares everything else with this one.

        `approve` is used only if this executor has no approval callback. `slots` limits its running calls instead of
        the slots of this executor.
        """
        other = copy(self)
        other._registry, other._approve = registry, self._approve or approve
        other._spool = self._spool if spool is None else spool
        other._slots = self._slots if slots is None else slots
        return other

    def with_context_window(self, context_tokens: int) -> "Executor":
        """Return an executor whose budget follows the model's context window; a budget set by the caller is kept."""
        if not self._has_default_budget:
            return self
        other = self.with_registry(self._registry)
        other._budget = Budget.for_context(context_tokens)
        return other

    async def execute_parallel(
        self,
        calls: Iterable[Call | Mapping[str, JsonValue]],
        ctx: ToolContext | HasToolContext,
        filter: ToolFilter | None = None,
        attachments: Sequence[Any] = (),
    ) -> list[CallOutcome]:
        """Run calls concurrently and return one outcome each, in input order; failed calls do not raise.

        A call may be a mapping: `tool_call_id` or `id`, `name`, `args` or `arguments`, or OpenAI's nested `function`.
        Only invalid arguments and the cancellation of the caller raise.

        Raises:
            InvalidContextError: `ctx` is not a context.
            InvalidToolFilterError: `filter` is not a filter.
            InvalidBudgetError: `ctx.result_budget_chars` is not a positive integer.
        """
        context = ctx if isinstance(ctx, ToolContext) else to_tool_context(ctx)
        given = list(calls)
        if time.monotonic() >= pace.due:  # as `is_pause_due` does it, written out because every call comes here
            await pause()
        if self._engine.flow is not None:
            await self._engine.flow.prepare(context, self._registry)
        batch = self._build_batch(len(given), context, filter, attachments)
        states = [admit(call, batch) for call in given]
        follow_calls(states, batch.trace)
        waiting = [state for state in states if isinstance(state, AdmittedCall) and batch.add(state)]
        try:
            if self._engine.flow is not None:
                await self._engine.flow.judge(waiting, context)
            stop = None if context is ctx else getattr(ctx, "abort_signal", None)
            if stop is None:
                await self._run_all(waiting, batch)
            else:
                await run_until_aborted(partial(self._run_all, waiting, batch), waiting, stop)
            is_done = batch.journal is None and self._reducers is None and len(waiting) == len(states)
            if not is_done or not all_fit(states, batch.budget):
                await self._finish(states, batch)
        except anyio.get_cancelled_exc_class():
            await record_cancelled(waiting, batch)
            raise
        finally:
            if batch.has_locks:
                batch.release_locks(states)
            if batch.observers:
                finish_observers(batch.observers, states, context.events)
        outcomes = await collect_outcomes(states, batch)
        if context.events.is_delivering:
            with anyio.CancelScope(deadline=get_finish_time(states, batch)):
                await context.events.flush()
        return outcomes

    async def resume(
        self,
        ticket: str,
        approved: bool = True,  # noqa: FBT001, FBT002  as published
        args: RawArgs = None,
        by: str | None = None,
        *,
        ctx: ToolContext | HasToolContext | None = None,
        filter: ToolFilter | None = None,
        attachments: Sequence[Any] = (),
    ) -> CallOutcome:
        """Answer the ticket of a call that waits for approval, and run the call if it is approved.

        `args` replaces its arguments, which are validated again; `by` says who answered. The call runs once: the same
        answer again returns the recorded outcome, another one is refused with `Err("denied", …, reason=…)`. It runs in
        `ctx`, a context of the same session and turn, or in a new one.

        Raises:
            JournalError: The journal cannot be read or written; the answer may be given again.
            UsageError: An argument has the wrong type, or `args` is given with a denial.
        """

        def admit_one(call: Call, context: ToolContext) -> CallState:
            return admit(call, self._build_batch(1, context, filter, attachments))

        async def run_approved(call: Call, context: ToolContext, approve: "Approve") -> CallOutcome:
            other = copy(self)
            other._approve, other._handlers_executor = approve, self
            return (await other.execute_parallel([call], ctx or context, filter, attachments))[0]

        engine, own = self._engine, None if ctx is None else to_tool_context(ctx)
        parts = optional.ResumptionParts(self._registry, self._spool, admit_one, run_approved, engine.get_timeout)
        return await optional.resume_ticket(
            parts, engine.tickets, ticket, approved=approved, args=args, by=by, context=own
        )

    def _find_plain_timeout(self, ctx: ToolContext) -> float | None:
        """Return the time of a tool in `ctx` if this executor adds nothing else; in a call, that of the call holds."""
        engine = self._engine
        if self._journal is not None or engine.flow is not None or engine.interceptors or engine.transport is not None:
            return None
        return (engine.timeout_seconds or math.inf) if ctx.deadline is None else math.inf

    async def _run_direct(self, tool: Tool, args: RawArgs, context: ToolContext, runner: "DirectRunner") -> object:
        """Run one direct call; see `direct_calls.py`."""
        if self._engine.flow is not None:
            await self._engine.flow.prepare(context, self._registry)
        batch = self._build_batch(1, context, runner.filter, runner.attachments)
        state = admit_direct(tool, args, batch)
        follow_calls([state], batch.trace)
        try:
            if self._engine.flow is not None:
                await self._engine.flow.judge([state], context)
            run = partial(supervise, batch, [state], self._run_directly, workers=1)
            stop = getattr(get_turn(context), "abort_signal", None)
            await (run() if stop is None else run_until_aborted(run, [state], stop))
            if batch.journal is not None:
                await write_outcomes(batch.journal, [state], batch, deadline=get_finish_time([state], batch))
        except anyio.get_cancelled_exc_class():
            await record_cancelled([state], batch)
            raise
        finally:
            keep_flow(self._engine, [state], context)
            finish_observers(batch.observers, [state], context.events)
        return get_direct_result(state, self._engine)

    async def _run_all(self, states: Sequence[AdmittedCall], batch: Batch) -> None:
        """Run the calls; a handler that waits for calls of its own lends them its slot."""
        slot = held_slot.get()
        lent = slot if slot is not None and slot.slots is self._slots else None
        if lent is not None:
            lent.lend()
        try:
            if batch.journal is None:
                await supervise(batch, states, self._run, workers=self._engine.concurrency)
            else:
                await self._run_with_journal(states, batch, batch.journal)
        finally:
            if lent is not None:
                await lent.take_back()

    async def _run_with_journal(self, states: Sequence[AdmittedCall], batch: Batch, journal: "BatchJournal") -> None:
        """Write the intents first, of all calls that no layer can answer before; then run the calls."""
        workers = self._engine.concurrency
        first = [] if self._engine.interceptors else [state for state in states if not state.is_intent_deferred]
        now, get_timeout = batch.clock(), self._engine.get_timeout
        await journal.begin_in_time(first, [min(now + get_timeout(state), batch.deadline) for state in first])
        if batch.has_locks:
            batch.release_locks(state for state in states if state.handled is not None)
        left = [state for state in states if state.handled is None]
        if len(left) <= 1:  # no other outcome would have to wait for this call
            await supervise(batch, left, self._run, workers=workers)
            return
        with journal.flush_in_background():
            await supervise(batch, left, self._run, workers=workers)

    async def _finish(self, states: Sequence[CallState], batch: Batch) -> None:
        """Share results with duplicates, reduce them, fit them into the budget, and write them to the journal."""
        if not all(isinstance(state, AdmittedCall) for state in states):
            await optional.suggest_names(states, batch)
        batch.share_results()
        began = batch.clock()
        if self._reducers is not None:
            optional.reduce_results(states, self._reducers)
        new = states if batch.journal is None else [state for state in states if not state.is_from_record]
        is_fitted = not all_fit(new, batch.budget)
        if is_fitted:
            warn = partial(batch.context.events.warn, source="spool")
            fit = optional.BudgetFit(new, batch.budget, self._engine.redactor.redact)
            await fit.run_in_time(batch.spool, batch.caller, deadline=get_finish_time(states, batch), warn=warn)
        if batch.trace is not None and (is_fitted or self._reducers is not None):
            batch.trace.fitting = began, batch.clock()
        if batch.journal is not None:
            await write_outcomes(batch.journal, states, batch, deadline=get_finish_time(states, batch))

    def _build_batch(
        self, calls: int, context: ToolContext, filter: ToolFilter | None, attachments: Sequence[Any]
    ) -> Batch:
        total, engine = context.result_budget_chars, self._engine
        if engine.redactor.is_active:
            context.events.redact_with(engine.redactor)
        budget = self._budget if total is None else self._budget.with_chars(total or 1)
        journal = None if context.dry_run else self._journal
        return Batch(
            calls,
            engine,
            registry=self._registry,
            filter=None if filter is None else validate_filter(filter),
            context=context,
            explain_repairs=self._explain_repairs,
            runner=DirectRunner(self._handlers_executor or self, filter, attachments),
            budget=budget,
            attachments=attachments,
            spool=self._spool,
            approve=self._approve,
            journal=None if journal is None else self._build_journal(journal, context, budget, calls),
            observers=start_observers(engine.observers, context) if engine.is_observed else (),
            slots=self._slots,
        )

    def _build_journal(self, journal: "Journal", context: ToolContext, budget: Budget, calls: int) -> "BatchJournal":
        is_final = partial(is_final_result, self._reducers, budget, fair_share(budget.total, calls))
        return optional.BatchJournal(journal, context, self._spool, is_final, self._engine.is_remembered)
