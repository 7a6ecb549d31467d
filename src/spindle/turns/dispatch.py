"""The model loop of a turn: call the model, run its tool calls, store the records, repeat."""

import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast

import anyio

from spindle.artifacts.forge import ReaderTool, forge_all
from spindle.calls import Call, Ok
from spindle.errors import ExecutorCallbackError, InvalidDispatchInputError, LimitError
from spindle.events import DispatchEnd, DispatchStart, IterationEnd, IterationStart
from spindle.execution.call_state import compute_call_checksum
from spindle.execution.executor import Executor
from spindle.execution.settings import find_invalid_callables, find_invalid_limits, find_invalid_parts, raise_if_invalid
from spindle.turns.callback_reports import CallbackHelpers, Usage
from spindle.turns.context import DispatchContext, TurnContext
from spindle.turns.middleware import Middleware, run_pipeline
from spindle.turns.records import Message, check_call_id

ExecutorCallback: TypeAlias = Callable[..., Awaitable[Any]]
"""`async (ctx)` or `async (ctx, helpers)`; returns the final text, a list of calls, a `Reply`, or `None`."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The response of a model: text, calls to run, or both."""

    text: str | None = None
    calls: Sequence[Call] = ()
    usage: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchReport:
    """The result of a dispatch."""

    status: Literal["ack", "aborted"]
    dispatch_id: str
    turn_id: str
    text: str
    iterations: int
    usage: Mapping[str, Any]
    started_at: datetime
    ended_at: datetime
    duration_ms: float


class DispatchRunner:
    """Runs one model loop; `TurnRunner` calls it for each turn."""

    @staticmethod
    async def dispatch(
        *,
        source: TurnContext | None = None,
        raw: DispatchContext | Mapping[str, Any] | None = None,
        executor_callback: ExecutorCallback,
        executor: Executor | None = None,
        dispatch_input_pipeline: Sequence[Middleware] = (),
        dispatch_output_pipeline: Sequence[Middleware] = (),
        max_iterations: int | None = 50,
        max_repeats: int | None = 5,
        abort_grace_seconds: float = 5,
    ) -> DispatchReport:
        """Run the loop until the dispatch is acked, nacked or aborted.

        Raises:
            InvalidDispatchInputError: Not exactly one of `source` and `raw` was passed, or a setting is invalid.
            ExecutorCallbackError: The callback raised, or returned an invalid value.
            DispatchPipelineError: Middleware raised.
            LimitError: A limit was reached.
            Exception: The error of a nack.
        """
        ctx = _get_context(source, raw)
        pipelines = {
            "dispatch_input_pipeline": dispatch_input_pipeline,
            "dispatch_output_pipeline": dispatch_output_pipeline,
        }
        wrong = (
            find_invalid_callables(executor_callback, pipelines)
            | find_invalid_parts(executor=executor)
            | find_invalid_limits(
                max_iterations=max_iterations,
                max_repeats=max_repeats,
                abort_grace_seconds=abort_grace_seconds,
                timeout_seconds=None,
            )
        )
        raise_if_invalid(wrong, what="dispatch", error=InvalidDispatchInputError)
        loop = _Loop(
            ctx,
            executor_callback,
            executor or Executor(ctx.tools, journal=ctx.turn.journal),
            inputs=dispatch_input_pipeline,
            outputs=dispatch_output_pipeline,
            max_iterations=max_iterations,
            max_repeats=max_repeats,
            abort_grace_seconds=abort_grace_seconds,
        )
        return await loop.run()


def _get_context(source: TurnContext | None, raw: DispatchContext | Mapping[str, Any] | None) -> DispatchContext:
    if (source is None) == (raw is None) or not (isinstance(source, TurnContext) or _is_valid_raw(raw)):
        raise InvalidDispatchInputError(
            "Pass exactly one of source (a TurnContext) and raw (a DispatchContext, or a mapping of its arguments).",
            field="source" if raw is None else "raw",
        )
    if source is not None:
        return DispatchContext(turn=source)
    return raw if isinstance(raw, DispatchContext) else DispatchContext(**cast("Mapping[str, Any]", raw))


def _is_valid_raw(raw: object) -> bool:
    return isinstance(raw, (DispatchContext, Mapping))


class _Loop:
    def __init__(
        self,
        ctx: DispatchContext,
        callback: ExecutorCallback,
        executor: Executor,
        *,
        inputs: Sequence[Middleware],
        outputs: Sequence[Middleware],
        max_iterations: int | None,
        max_repeats: int | None,
        abort_grace_seconds: float,
    ) -> None:
        self._ctx = ctx
        self._callback = callback
        self._executor = executor.with_registry(ctx.tools, spool=ctx.turn.spool)
        self._inputs, self._outputs = inputs, outputs
        self._max_iterations, self._max_repeats = max_iterations, max_repeats
        self._grace_seconds = abort_grace_seconds
        self._usage = Usage(ctx.usage)
        self._helpers = CallbackHelpers(ctx, ctx.events, self._usage)
        self._forged: list[str] = []
        self._text = ""
        ctx.on_ack(self._unregister_readers)

    async def run(self) -> DispatchReport:
        ctx, events = self._ctx, self._ctx.events
        started_at, begun = datetime.now(UTC), time.perf_counter()
        facts: dict[str, Any] = {"dispatch_id": ctx.dispatch_id, "turn_id": ctx.turn_id, "started_at": started_at}
        if events.heard("dispatch_start"):
            await events.emit("dispatch_start", DispatchStart(**facts))
        error: BaseException | None = None
        try:
            await self._loop()
        except BaseException as raised:
            error = raised
            raise
        finally:
            seconds = time.perf_counter() - begun
            facts |= {"ended_at": started_at + timedelta(seconds=seconds), "duration_ms": seconds * 1000}
            if events.heard("dispatch_end"):
                status = "nack" if error is not None else "ack" if ctx.is_acked else "aborted"
                end = DispatchEnd(**facts, status=status, iterations=ctx.iteration, error=error)
                await events.emit_last("dispatch_end", end)
        return DispatchReport(
            **facts,
            status="ack" if ctx.is_acked else "aborted",
            text=self._text,
            iterations=ctx.iteration,
            usage=dict(self._usage.total),
        )

    async def _loop(self) -> None:
        ctx = self._ctx
        while not ctx.aborted and not ctx.is_signalled:
            if self._max_iterations is not None and ctx.iteration >= self._max_iterations:
                raise LimitError(
                    f"The turn called the model {ctx.iteration} times without a final answer; "
                    "raise max_iterations, or let the callback return a final text.",
                    field="max_iterations",
                )
            await self._iterate()
        if ctx.nack_error is not None:
            raise ctx.nack_error

    async def _iterate(self) -> None:
        ctx, events = self._ctx, self._ctx.events
        facts: dict[str, Any] = {"dispatch_id": ctx.dispatch_id, "turn_id": ctx.turn_id, "iteration": ctx.iteration}
        if events.heard("iteration_start"):
            await events.emit("iteration_start", IterationStart(**facts))
        self._register_readers()
        found = ctx.retrievables
        await run_pipeline(self._inputs, ctx, "dispatch-input")
        if ctx.retrievables != found:
            # A retrievable that middleware added is shown as a handle, which names reader tools.
            self._register_readers()
        if not ctx.is_signalled and not ctx.aborted:
            await self._handle_answer(await self._run_callback())
            if not ctx.aborted:
                await run_pipeline(self._outputs, ctx, "dispatch-output")
        if events.heard("iteration_end"):
            await events.emit("iteration_end", IterationEnd(**facts))
        ctx.iteration += 1

    def _register_readers(self) -> None:
        """Register reader tools for the current artifacts; a user's tool with the same name is kept."""
        self._unregister_readers()
        if not self._ctx.tool_calls and not self._ctx.retrievables:
            return
        tools = self._ctx.tools
        for forged in forge_all(self._ctx):
            existing = tools.get(forged.name)
            if existing is not None and not isinstance(existing, ReaderTool):
                message = f"the reader tool {forged.name!r} was not registered: another tool has this name"
                self._ctx.events.warn(message, source="forge")
                continue
            tools.register(forged, overwrite=True)
            self._forged.append(forged.name)

    def _unregister_readers(self) -> None:
        for name in self._forged:
            if isinstance(self._ctx.tools.get(name), ReaderTool):
                self._ctx.tools.unregister(name)
        self._forged.clear()

    async def _run_callback(self) -> Any:
        """Run the callback; after an abort it has a grace period to return by itself."""
        ctx = self._ctx
        with anyio.CancelScope() as scope:
            forget = ctx.abort_signal.on_abort(lambda: _set_deadline(scope, self._grace_seconds))
            try:
                if _takes_helpers(self._callback):
                    return await self._callback(ctx, self._helpers)
                return await self._callback(ctx)
            except Exception as error:
                if ctx.aborted:
                    return None
                raise ExecutorCallbackError(
                    f"The executor callback raised {type(error).__name__}: {error}", field="executor_callback"
                ) from error
            finally:
                forget()
                await ctx.events.flush()
        return None

    async def _handle_answer(self, answer: Any) -> None:
        if answer is None:
            return
        reply = _to_reply(answer)
        self._usage.add(reply.usage)
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

    async def _run_calls(self, calls: Sequence[Call]) -> None:
        for call in calls:
            check_call_id(call.tool_call_id, self._ctx.turn.records)
        self._check_repeats(calls)
        outcomes = await self._executor.execute_parallel(calls, self._ctx, self._ctx.filter)
        for outcome in outcomes:
            await self._ctx.store_tool_call(outcome.to_record())
            if isinstance(outcome.result, Ok) and outcome.result.cost_usd is not None:
                self._usage.add({"tool_cost_usd": outcome.result.cost_usd})
        for outcome in outcomes:
            tool, result = self._ctx.tools.get(outcome.name), outcome.result
            if tool is not None and tool.return_direct and isinstance(result, Ok) and not self._ctx.is_signalled:
                await self._ctx.turn.records.message.store(Message.assistant(result.value))
                self._finish(result.value)
                return

    def _check_repeats(self, calls: Sequence[Call]) -> None:
        most = self._max_repeats
        if most is None:
            return
        for call in calls:
            times = self._ctx.tool_call_count(compute_call_checksum(call))
            if times >= most:
                raise LimitError(
                    f"The model requested the same call of {call.name!r} {times + 1} times; "
                    "raise max_repeats if that is expected for this tool.",
                    tool=call.name,
                    field="max_repeats",
                )
            if times == most - 1:
                message = f"the same call of {call.name!r} was requested {times + 1} times; the next one ends the turn"
                self._ctx.events.warn(message, source="max_repeats")


def _to_reply(answer: Any) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, str):
        return Reply(text=answer)
    if isinstance(answer, (list, tuple)):
        calls = cast("Sequence[object]", answer)
        if all(isinstance(call, Call) for call in calls):
            return Reply(calls=cast("Sequence[Call]", calls))
    kind = type(cast("object", answer)).__name__
    raise ExecutorCallbackError(
        f"Expected the executor callback to return text, a list of Call, a Reply or None, got {kind}.",
        field="executor_callback",
    )


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
