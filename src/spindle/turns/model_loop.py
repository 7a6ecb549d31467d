"""The model loop of a turn: call the model, run its tool calls, store the records, repeat."""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import anyio

from spindle.calls import Call
from spindle.errors import ExecutorCallbackError, LimitError, SpindleError
from spindle.events import DispatchStart, IterationEnd, IterationStart
from spindle.execution.executor import Executor
from spindle.execution.settings import (
    Problems,
    find_invalid_callables,
    find_invalid_limits,
    find_invalid_parts,
)
from spindle.tools.invocation import is_awaitable
from spindle.turns import optional
from spindle.turns.callback_reports import CallbackHelpers, LoopCalls, Usage
from spindle.turns.context import DispatchContext
from spindle.turns.middleware import Middleware, run_pipeline
from spindle.turns.record_types import Message
from spindle.turns.report import DispatchReport, build_dispatch_end, to_reply

if TYPE_CHECKING:
    from spindle.turns.call_progress import CallProgress
    from spindle.turns.suspension import DurableCalls
    from spindle.turns.turn_saver import TurnSaver

ExecutorCallback: TypeAlias = Callable[..., object]
"""`async (ctx)` or `async (ctx, helpers)`, or sync; returns the final text, a list of calls, a `Reply`, or `None`."""


Readers: TypeAlias = Literal["on_demand", "always"]
"""When reader tools are shown: once a result can be read with them, or those for text from the first iteration on."""

OnWait: TypeAlias = Literal["wait", "suspend", "answer"]
"""Wait in this process, suspend the turn, or return `needs_approval` to the model and go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopSettings:
    """The settings of a model loop, after validation; one runner uses them for all its turns."""

    executor_callback: ExecutorCallback
    executor: Executor
    inputs: Sequence[Middleware] = ()
    outputs: Sequence[Middleware] = ()
    max_iterations: int | None
    max_repeats: int | None
    abort_grace_seconds: float
    readers: Readers = "on_demand"
    on_wait: OnWait | None = None


def find_invalid_settings(
    callback: object,
    pipelines: Mapping[str, object],
    *,
    parts: Mapping[str, object],
    limits: Mapping[str, object],
    readers: object,
) -> Problems:
    """Return what was expected of each invalid setting of a loop, by name."""
    wrong = find_invalid_callables(callback, pipelines) | find_invalid_parts(**parts) | find_invalid_limits(**limits)
    return wrong if readers in get_args(Readers) else wrong | {"readers": " or ".join(map(repr, get_args(Readers)))}


class _LoopReaders:
    """The reader tools that a model loop registers in the turn's registry."""

    def __init__(self, ctx: DispatchContext, readers: Readers) -> None:
        self._ctx = ctx
        self._session = optional.ReaderSession(ctx, kinds=(optional.Artifact,) if readers == "always" else ())

    def register(self) -> None:
        """Register reader tools for the current artifacts; a user's tool with the same name is kept."""
        records = self._ctx.turn.records
        has_artifacts = bool(len(records.retrievable) or (len(records.tool_call) and records.artifacts.kinds))
        if not has_artifacts and not self._session.names:
            return
        tools = self._ctx.tools
        for reader in self._session.tools():
            existing = tools.get(reader.name)
            if existing is reader:
                continue
            if existing is not None and not existing.is_artifact_reader:
                message = f"the reader tool {reader.name!r} was not registered: another tool has this name"
                self._ctx.events.warn(message, source="forge")
                continue
            tools.register(reader, overwrite=True)

    def register_again(self) -> None:
        """Register them in the middle of an iteration, for new results or in a new registry."""
        if not self._ctx.is_signalled:
            self.register()

    def unregister(self) -> None:
        """Unregister every reader tool of the loop."""
        tools = self._ctx.tools
        for name in self._session.names:
            existing = tools.get(name)
            if existing is not None and existing.is_artifact_reader:
                tools.unregister(name)


class ModelLoop:
    """One model loop: calls the model and runs its calls until the dispatch is acked, nacked or aborted."""

    def __init__(self, ctx: DispatchContext, settings: LoopSettings, saver: "TurnSaver | None" = None) -> None:
        self._ctx = ctx
        self._settings = settings
        executor = settings.executor
        window = getattr(settings.executor_callback, "context_tokens", None)
        self._context_tokens: int | None = window if isinstance(window, int) else None
        if self._context_tokens is not None:
            executor = executor.with_context_window(self._context_tokens)
        if executor.flow is not None:
            optional.label_records(ctx.turn.records, executor.flow.open(ctx.tool_context()))
        self._usage = Usage(ctx.usage)
        self._readers = _LoopReaders(ctx, settings.readers)
        self.calls = LoopCalls(
            ctx,
            executor,
            self._usage,
            max_repeats=settings.max_repeats,
            on_stored=self._readers.register_again,
            approve=optional.ask_at_gate(ctx) if settings.on_wait == "wait" else None,
        )
        ctx.gate_opener = optional.UnattendedGates(ctx) if settings.on_wait == "answer" else None
        self.saved_calls: DurableCalls | None = None
        if saver is not None:
            self.saved_calls = optional.DurableCalls(ctx, self.calls, saver, suspends=settings.on_wait == "suspend")
        self._helpers = CallbackHelpers(ctx, ctx.events, self._usage)
        self._text = ""
        self._first = ctx.iteration
        ctx.on_ack(self._readers.unregister)

    async def run(self, calls: "list[CallProgress] | None" = None, *, once: bool = False) -> DispatchReport:
        """Run the loop to its end, or until the turn is to be suspended; begin with the calls of a resumed turn.

        With `once`, run one iteration.

        Raises:
            Exception: As `DispatchRunner.dispatch`.
        """
        ctx, events = self._ctx, self._ctx.events
        started_at, begun = datetime.now(UTC), time.perf_counter()
        if events.has_observer("dispatch_start"):
            start = DispatchStart(
                dispatch_id=ctx.dispatch_id, turn_id=ctx.turn_id, started_at=started_at, caller=ctx.caller
            )
            await events.emit("dispatch_start", start)
        self._check_budget()
        error: BaseException | None = None
        forget = ctx.turn.on_tools_replaced(self._readers.register_again)
        try:
            await self._loop(calls, once=once)
        except BaseException as raised:
            error = raised
            raise
        finally:
            forget()
            if ctx.aborted and not ctx.turn.aborted:
                ctx.turn.gates.resume_turn(ctx.turn_id)  # the turn goes on, and its middleware may open gates
            seconds = time.perf_counter() - begun
            report = DispatchReport(
                status="suspended" if self.is_suspended or self.goes_on else "ack" if ctx.is_acked else "aborted",
                dispatch_id=ctx.dispatch_id,
                turn_id=ctx.turn_id,
                text=self._text,
                iterations=ctx.iteration,
                usage=dict(self._usage.total),
                started_at=started_at,
                ended_at=started_at + timedelta(seconds=seconds),
                duration_ms=seconds * 1000,
            )
            if events.has_observer("dispatch_end"):
                await events.emit_last("dispatch_end", build_dispatch_end(report, error, ctx.caller))
        return report

    def _check_budget(self) -> None:
        window = self._context_tokens
        if window is None:
            return
        budget = self.calls.executor.budget
        if budget.exceeds_context(window):
            self._ctx.events.warn(
                f"the budget of {budget.total} {budget.unit} for the results of a batch does not fit into the model's "
                f"context window of {window} tokens; lower the budget, or leave it out to use a quarter of the window",
                source="budget",
            )

    @property
    def is_suspended(self) -> bool:
        """Whether calls wait for answers, so that the turn is to be suspended."""
        return self.saved_calls is not None and self.saved_calls.waiting is not None

    @property
    def goes_on(self) -> bool:
        """Whether the loop has not come to its end, and waits for nothing."""
        return not self._ctx.aborted and not self._ctx.is_signalled and not self.is_suspended

    async def _loop(self, calls: "list[CallProgress] | None", *, once: bool) -> None:
        ctx = self._ctx
        if calls:
            await self._iterate(calls)
        elif self.saved_calls is not None and calls is None:
            await self.saved_calls.start()
        while self.goes_on and not (once and ctx.iteration > self._first):
            most = self._settings.max_iterations
            if most is not None and ctx.iteration >= most:
                raise LimitError(
                    f"The turn called the model {ctx.iteration} times without a final answer; "
                    "raise max_iterations, or let the callback return a final text.",
                    field="max_iterations",
                )
            await self._iterate()
        if ctx.nack_error is not None:
            raise ctx.nack_error

    async def _iterate(self, calls: "list[CallProgress] | None" = None) -> None:
        """Run one iteration; that of a resumed turn begins with the calls that its model has requested."""
        ctx, events = self._ctx, self._ctx.events
        if events.has_observer("iteration_start"):
            await events.emit(
                "iteration_start",
                IterationStart(dispatch_id=ctx.dispatch_id, turn_id=ctx.turn_id, iteration=ctx.iteration),
            )
        ctx.watch.begin_iteration(ctx, calls)
        self._readers.register()
        found = ctx.retrievables
        if calls is None:
            await run_pipeline(self._settings.inputs, ctx, "dispatch-input")
        if ctx.retrievables != found:
            # A retrievable that middleware added is shown as a handle, which names reader tools.
            self._readers.register()
        if not ctx.is_signalled and not ctx.aborted:
            if calls is not None:
                await self._run_calls(calls, is_resumed=True)
            else:
                await self._handle_answer(await self._run_callback())
            if self.is_suspended:
                return
            if not ctx.aborted:
                await run_pipeline(self._settings.outputs, ctx, "dispatch-output")
        if events.has_observer("iteration_end"):
            await events.emit(
                "iteration_end", IterationEnd(dispatch_id=ctx.dispatch_id, turn_id=ctx.turn_id, iteration=ctx.iteration)
            )
        await ctx.watch.end_iteration(ctx)
        ctx.iteration += 1

    async def _run_callback(self) -> object:
        """Run the callback; after an abort it has a grace period to return by itself."""
        ctx, callback = self._ctx, self._settings.executor_callback
        with anyio.CancelScope() as scope:
            forget = ctx.abort_signal.on_abort(lambda: _set_deadline(scope, self._settings.abort_grace_seconds))
            try:
                answer: Any = callback(ctx, self._helpers) if _takes_helpers(callback) else callback(ctx)
                return await answer if is_awaitable(answer) else answer
            except Exception as error:
                if ctx.aborted:
                    return None
                if isinstance(error, SpindleError):
                    raise  # a ready-made callback raises what its page promises, such as ModelUnavailableError
                raise ExecutorCallbackError(
                    f"The executor callback raised {type(error).__name__}: {error}", field="executor_callback"
                ) from error
            finally:
                forget()
                await ctx.events.flush()
        return None

    async def _handle_answer(self, answer: object) -> None:
        if answer is None:
            return
        reply = to_reply(answer)
        self._usage.add(reply.usage)
        self._ctx.watch.add_calls(reply.calls)
        if reply.text is not None and (reply.text or not reply.calls):
            await self._ctx.turn.records.message.store(Message.assistant(reply.text))
        if reply.calls:
            await self._run_calls(reply.calls)
        elif reply.text is not None:
            self._finish(reply.text)

    def _finish(self, text: str) -> None:
        self._text = text
        if not self._ctx.is_signalled:
            self._ctx.ack()

    async def _run_calls(self, calls: "Sequence[Call] | list[CallProgress]", *, is_resumed: bool = False) -> None:
        """Run the calls of a reply; the first result of a tool whose results are final answers finishes the loop."""
        stored = self._ctx.turn.records.tool_call
        before = len(stored)
        if self.saved_calls is None:
            await self.calls.run_batch(cast("list[Call]", list(calls)))
        elif is_resumed:
            await self.saved_calls.resume(cast("list[CallProgress]", calls))
        else:
            await self.saved_calls.run(cast("Sequence[Call]", calls))
        for record in stored.since(before):
            tool = self._ctx.tools.get(record.tool)
            if tool is not None and tool.return_direct and not record.is_error and not self._ctx.is_signalled:
                text = str(record.results) if record.shown is None else record.shown
                await self._ctx.turn.records.message.store(Message.assistant(text))
                self._finish(text)
                return


def _set_deadline(scope: anyio.CancelScope, seconds: float) -> None:
    scope.deadline = anyio.current_time() + seconds


@lru_cache(maxsize=256)
def _takes_helpers(callback: ExecutorCallback) -> bool:
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [each for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    return len(positional) > 1 or any(each.kind is each.VAR_POSITIONAL for each in parameters)
