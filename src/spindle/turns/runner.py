"""The turn runner: `TurnRunner.run` runs one turn and returns its report."""

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, TypeAlias

import anyio

from spindle.artifacts.spool import Spool
from spindle.calls import ToolCallRecord
from spindle.errors import (
    InvalidToolError,
    InvalidTurnContextError,
    InvalidTurnRunnerConfigError,
    LimitError,
    TurnAbortedError,
    UsageError,
)
from spindle.events import EVENT_NAMES, Events, Failed, Observer, TurnEnd, TurnStart
from spindle.execution.executor import Executor
from spindle.execution.settings import find_invalid_callables, find_invalid_limits, find_invalid_parts, raise_if_invalid
from spindle.journal.journal import Journal
from spindle.stash import Stash
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.turns.context import DispatchContext, TurnContext
from spindle.turns.dispatch import DispatchReport, DispatchRunner, ExecutorCallback
from spindle.turns.gate_desk import GateDesk
from spindle.turns.middleware import Middleware, run_pipeline
from spindle.turns.records import Records

Status: TypeAlias = Literal["ok", "nack", "aborted", "error", "limit"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnReport:
    """The result of a turn."""

    status: Status
    text: str
    turn_id: str
    messages: tuple[Any, ...]
    tool_calls: tuple[ToolCallRecord, ...]
    iterations: int
    usage: Mapping[str, Any]
    started_at: datetime
    ended_at: datetime
    duration_ms: float
    error: BaseException | None = None

    @property
    def ok(self) -> bool:
        """Whether the turn succeeded."""
        return self.status == "ok"

    def raise_for_error(self) -> "TurnReport":
        """Return this report if the turn succeeded, else raise its error.

        Raises:
            BaseException: The error of the turn; `TurnAbortedError` if it was aborted.
        """
        if self.status == "ok":
            return self
        raise self.error or TurnAbortedError(f"The turn {self.turn_id} was aborted before it had an answer.")


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """One event of a turn: its name and payload."""

    name: str
    payload: Any


class TurnRunner:
    """Runs turns, each with its own copy of the baseline tools; one runner may run many turns concurrently.

    Raises:
        InvalidTurnRunnerConfigError: A setting is invalid.
        ToolAlreadyRegisteredError: Two tools of the baseline have the same name.
    """

    def __init__(
        self,
        *,
        executor_callback: ExecutorCallback,
        tools: Iterable[Tool] | ToolRegistry = (),
        turn_input_pipeline: Sequence[Middleware] = (),
        turn_output_pipeline: Sequence[Middleware] = (),
        dispatch_input_pipeline: Sequence[Middleware] = (),
        dispatch_output_pipeline: Sequence[Middleware] = (),
        spool: Spool | None = None,
        journal: Journal | None = None,
        records: Records | None = None,
        executor: Executor | None = None,
        max_iterations: int | None = 50,
        max_repeats: int | None = 5,
        timeout_seconds: float | None = None,
        abort_grace_seconds: float = 5,
        **executor_settings: Any,
    ) -> None:
        pipelines = {
            "turn_input_pipeline": turn_input_pipeline,
            "turn_output_pipeline": turn_output_pipeline,
            "dispatch_input_pipeline": dispatch_input_pipeline,
            "dispatch_output_pipeline": dispatch_output_pipeline,
        }
        self._limits: dict[str, Any] = {
            "max_iterations": max_iterations,
            "max_repeats": max_repeats,
            "abort_grace_seconds": abort_grace_seconds,
        }
        wrong = (
            find_invalid_callables(executor_callback, pipelines)
            | find_invalid_parts(spool=spool, journal=journal, records=records, executor=executor)
            | find_invalid_limits(**self._limits, timeout_seconds=timeout_seconds)
        )
        raise_if_invalid(wrong, what="TurnRunner", error=InvalidTurnRunnerConfigError)
        self._callback = executor_callback
        self._baseline = _build_baseline(tools)
        self._turn_inputs, self._turn_outputs = tuple(turn_input_pipeline), tuple(turn_output_pipeline)
        self._inputs, self._outputs = tuple(dispatch_input_pipeline), tuple(dispatch_output_pipeline)
        self._spool = spool
        self._journal = journal
        self._records = records
        self._executor = executor or _build_executor(self._baseline, {"journal": journal, **executor_settings})
        self._timeout_seconds = timeout_seconds
        self._events = Events()
        self.gates = GateDesk()

    def on(self, event: str, fn: Observer) -> Callable[[], None]:
        """Register an observer of an event of every turn and return a function that removes it."""
        return self._events.on(event, fn)

    def observe(self, event: str, fn: Observer) -> Callable[[], None]:
        """Register an observer; an alias of `on`."""
        return self.on(event, fn)

    async def run(
        self,
        *,
        system_prompt: str = "",
        messages: Iterable[Any] = (),
        stash: Stash | Mapping[str, Any] | None = None,
        session_id: str | None = None,
    ) -> TurnReport:
        """Run one turn and return its report; failures are in the report and do not raise.

        Raises:
            InvalidTurnContextError: An argument is invalid; the turn was not started.
        """
        turn = self._build_turn(self._events, system_prompt, messages, stash, session_id)
        return await self._run(turn)

    async def stream(
        self,
        *,
        system_prompt: str = "",
        messages: Iterable[Any] = (),
        stash: Stash | Mapping[str, Any] | None = None,
        session_id: str | None = None,
    ) -> AsyncGenerator[StreamedEvent, None]:
        """Run one turn and yield its events as they happen; the last one, `report`, carries the `TurnReport`.

        Closing the generator early aborts the turn; use `contextlib.aclosing`.
        """
        send, receive = anyio.create_memory_object_stream[StreamedEvent](float("inf"))
        events = Events()
        for name in EVENT_NAMES:
            events.on(name, partial(_forward, name, send, self._events))
        turn = self._build_turn(events, system_prompt, messages, stash, session_id)

        async def run() -> None:
            async with send:
                _send(send, "report", await self._run(turn))

        async with anyio.create_task_group() as group, receive:
            group.start_soon(run)
            try:
                async for event in receive:
                    yield event
            except GeneratorExit:
                turn.abort()  # the task group waits until the turn has ended

    def _build_turn(
        self,
        events: Events,
        system_prompt: str,
        messages: Iterable[Any],
        stash: Stash | Mapping[str, Any] | None,
        session_id: str | None,
    ) -> TurnContext:
        if not isinstance(system_prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise InvalidTurnContextError("system_prompt must be text", field="system_prompt")
        try:
            return TurnContext(
                session_id=session_id,
                system_prompt=system_prompt,
                tools=self._baseline.copy(),
                messages=messages,
                events=events,
                stash=stash,
                spool=self._spool or Spool.memory(),
                journal=self._journal,
                records=self._records,
                gates=self.gates,
            )
        except (UsageError, TypeError) as error:
            field = getattr(error, "field", None)
            raise InvalidTurnContextError(f"Invalid turn arguments: {error}", field=field) from error

    async def _run(self, turn: TurnContext) -> TurnReport:
        started_at, begun = datetime.now(UTC), time.perf_counter()
        ended: dict[str, Any] = {"status": "aborted", "error": None}
        ctx, done = DispatchContext(turn=turn), list[DispatchReport]()
        if turn.events.heard("turn_start"):
            await turn.events.emit("turn_start", TurnStart(turn_id=turn.id, started_at=started_at))
        try:
            ended = await self._run_stages(turn, ctx, done)
        finally:
            self.gates.forget_turn(turn.id)
            seconds = time.perf_counter() - begun
            times: dict[str, Any] = {
                "started_at": started_at,
                "ended_at": started_at + timedelta(seconds=seconds),
                "duration_ms": seconds * 1000,
            }
            if turn.events.heard("turn_end"):
                await turn.events.emit_last("turn_end", TurnEnd(turn_id=turn.id, **ended, **times))
        return TurnReport(
            **ended,
            **times,
            turn_id=turn.id,
            text=done[0].text if done else "",
            messages=turn.messages,
            tool_calls=turn.tool_calls,
            # Also reported for a failed turn: its model calls were made and cost money.
            iterations=ctx.iteration,
            usage=dict(ctx.usage),
        )

    async def _run_stages(self, turn: TurnContext, ctx: DispatchContext, done: list[DispatchReport]) -> dict[str, Any]:
        """Run input pipeline, dispatch and output pipeline; return status and error instead of raising."""
        place = ["turn-input"]
        error = await self._catch_failure_with_timeout(turn, ctx, done, place)
        if error is None:
            return {"status": "ok" if ctx.is_acked and not turn.aborted else "aborted", "error": None}
        await turn.events.emit("error", Failed(turn_id=turn.id, error=error, stage=place[-1]))
        is_nack = error is ctx.nack_error
        return {"status": "limit" if isinstance(error, LimitError) else "nack" if is_nack else "error", "error": error}

    async def _catch_failure_with_timeout(
        self, turn: TurnContext, ctx: DispatchContext, done: list[DispatchReport], place: list[str]
    ) -> Exception | None:
        seconds = self._timeout_seconds
        if seconds is None:
            return await self._catch_failure(turn, ctx, done, place)
        with anyio.move_on_after(seconds):
            return await self._catch_failure(turn, ctx, done, place)
        return LimitError(
            f"The turn exceeded timeout_seconds={seconds}; raise the limit, or ask for less.", field="timeout_seconds"
        )

    async def _catch_failure(
        self, turn: TurnContext, ctx: DispatchContext, done: list[DispatchReport], place: list[str]
    ) -> Exception | None:
        try:
            await self._run_pipelines(turn, ctx, done, place)
        except Exception as raised:  # noqa: BLE001  every failure of a turn is reported, not raised
            return raised
        return None

    async def _run_pipelines(
        self, turn: TurnContext, ctx: DispatchContext, done: list[DispatchReport], place: list[str]
    ) -> None:
        await run_pipeline(self._turn_inputs, turn, "turn-input")
        if turn.aborted:
            return
        place.append("dispatch")
        report = await DispatchRunner.dispatch(
            raw=ctx,
            executor_callback=self._callback,
            executor=self._executor,
            dispatch_input_pipeline=self._inputs,
            dispatch_output_pipeline=self._outputs,
            **self._limits,
        )
        done.append(report)
        place.append("turn-output")
        if not turn.aborted:
            await run_pipeline(self._turn_outputs, turn, "turn-output")


async def _forward(name: str, send: Any, to: Events, payload: Any) -> None:
    _send(send, name, payload)
    await to.emit(name, payload)


def _send(send: Any, name: str, payload: Any) -> None:
    with suppress(anyio.BrokenResourceError):  # the stream was closed by its reader
        send.send_nowait(StreamedEvent(name, payload))


def _build_baseline(tools: Iterable[Tool] | ToolRegistry) -> ToolRegistry:
    """Build the registry that every turn starts from.

    Raises:
        InvalidTurnRunnerConfigError: Something in `tools` is not a tool.
        ToolAlreadyRegisteredError: Two tools have the same name.
    """
    try:
        return ToolRegistry(tools)
    except InvalidToolError as error:
        raise InvalidTurnRunnerConfigError(f"Invalid TurnRunner settings: {error}", field="tools") from error


def _build_executor(baseline: ToolRegistry, settings: Mapping[str, Any]) -> Executor:
    """Build the executor of a runner that was constructed without one.

    Raises:
        InvalidTurnRunnerConfigError: A setting is invalid.
    """
    try:
        return Executor(baseline, spool=None, **settings)
    except UsageError as error:
        raise InvalidTurnRunnerConfigError(f"Invalid TurnRunner settings: {error}", field=error.field) from error
