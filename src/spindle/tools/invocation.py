"""Invocation of one call of one tool: checksum, validation, start event, handler, end event, in that order."""

import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import CoroutineType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from anyio import CancelScope, CapacityLimiter, current_time
from anyio.to_thread import run_sync

from spindle.calls import Err, RawArgs
from spindle.capabilities.declare import NO_CAPABILITIES, Capabilities
from spindle.concurrency import BackgroundTask, schedule_here, spawn_background
from spindle.errors import (
    InvalidContextError,
    InvalidToolArgsError,
    ToolDownstreamError,
    ToolTimeoutError,
    UsageError,
)
from spindle.events import ToolExecutionEnd, ToolExecutionStart
from spindle.json_types import JsonObject
from spindle.text import to_printable
from spindle.tools.arguments import copy_arguments, copy_masked, copy_plain, read_arguments
from spindle.tools.context import ToolContext, get_handles, get_runner
from spindle.tools.identity import checksum
from spindle.tools.schema.base import Problem, Schema, build_refusal

Execute: TypeAlias = Callable[[RawArgs], Coroutine[Any, Any, Any]]
Check: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Runnable:
    """The parts of a tool that are needed to run it."""

    name: str
    schema: Schema
    checks: Sequence[Check]
    handler: Callable[[Any, ToolContext, Any], Any]
    is_async: bool
    meta: Any
    secret_fields: frozenset[str]
    timeout_seconds: float | None
    requires_approval: bool
    capabilities: Capabilities
    isolation: str
    has_availability: bool
    """Whether it is asked for each call whether it is available."""
    layers: frozenset[str]
    """The layers around the handler, of those that most tools do not need: checks, cache, capabilities, retries."""


def build_executor(tool: object, runnable: Runnable, context: ToolContext) -> Execute:
    """Return the function that runs one call of `tool` in `context`.

    Raises:
        UsageError: The context is bare, and the tool has an option that only an executor can keep.
    """
    runner = get_runner(context)
    if runner is None:
        if _has_promises(runnable) or runnable.isolation == "process":
            _check_bare(runnable, context)
        return _build_bare(_limit_time(runnable), context)
    is_plain = runnable.is_async and not (
        _has_promises(runnable) or runnable.timeout_seconds or runnable.has_availability
    )
    bare = _build_bare(runnable, context) if is_plain else None

    def execute(args: RawArgs) -> Coroutine[Any, Any, Any]:
        # Decided for each call: the settings of a context may change after this function was built.
        seconds = None if bare is None else runner.find_plain_timeout(context)
        if bare is None or seconds is None:
            return runner.run_tool(tool, args, context)
        return bare(args) if seconds == math.inf else _run_plain(runnable.name, bare, args, seconds)

    return execute


def _has_promises(tool: Runnable) -> bool:
    return tool.requires_approval or tool.capabilities is not NO_CAPABILITIES


async def _run_plain(name: str, bare: Execute, args: RawArgs, seconds: float) -> Any:
    with CancelScope(deadline=current_time() + seconds):
        return await bare(args)
    raise build_timeout_error(name, seconds)


def _check_bare(tool: Runnable, context: ToolContext) -> None:
    handles = get_handles(context) or {}
    lost = {
        "requires_approval": tool.requires_approval,
        "capabilities": any(name not in handles for name in tool.capabilities.declared()),
        "isolation": tool.isolation == "process",
    }
    names = [name for name, is_lost in lost.items() if is_lost]
    if names:
        raise UsageError(
            f"Tool {tool.name!r} declares {', '.join(names)}, which only an executor can keep, and this context does "
            "not belong to one. Run the call with Executor.execute_parallel, or use the context of a turn or a call.",
            tool=tool.name,
            field=names[0],
        )


def take_arguments(args: RawArgs, *, tool: str, empty_ok: bool) -> tuple[JsonObject, str | None]:
    """Return a call's arguments, which the handler may change, and their checksum if it had to be computed.

    JSON text and plain mappings always have a checksum; other mappings may contain values that JSON lacks.

    Raises:
        InvalidToolArgsError: The arguments are not one JSON object.
        NotCanonicalError: The arguments cannot be serialized as canonical JSON.
    """
    if args is None or isinstance(args, (str, bytes)):
        return read_arguments(args, tool=tool, empty_ok=empty_ok), None
    plain = copy_plain(args)
    if plain is not None:
        return plain, None
    known = checksum(tool, args)
    return copy_arguments(read_arguments(args, tool=tool, empty_ok=empty_ok)), known


def _build_bare(tool: Runnable, context: ToolContext) -> Execute:
    name, checks, has_observer = tool.name, tool.checks, context.events.has_observer
    validate, empty_ok = tool.schema.validator(), tool.schema.can_be_empty()
    handler, meta = tool.handler, tool.meta

    async def execute(args: RawArgs) -> Any:
        known: str | None = None
        if args.__class__ is bytes or args.__class__ is str:
            arguments = read_arguments(args, tool=name, empty_ok=empty_ok)
        else:
            arguments, known = take_arguments(args, tool=name, empty_ok=empty_ok)
        is_observed = has_observer("tool_execution_start") or has_observer("tool_execution_end")
        if is_observed and known is None:  # before validation: a validator of the schema may change the arguments
            known = checksum(name, arguments)
        value = validate(arguments)
        if checks:
            await run_checks(checks, value, context, tool=name)
        try:
            if is_observed and known is not None:
                observed = ObservedCall(tool=tool, context=context, checksum=known)
                return await observed.run(value, lambda: _call(handler, value, context, meta))
            result: Any = handler(value, context, meta)
            if result.__class__ is CoroutineType or is_awaitable(result):
                result = await result
        except _DeadlinePassedError as error:
            raise build_timeout_error(name, error.seconds) from None
        except (Exception, SystemExit) as error:
            raise build_downstream_error(name, error) from error
        return result

    return execute


class _DeadlinePassedError(Exception):
    """The time of a call on a bare context is over; not an error of the tree, which a handler may raise itself."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


_GRACE_SECONDS = 0.25
"""How long a cancelled handler may take before its caller goes on without it."""


def _limit_time(tool: Runnable) -> Runnable:
    """Return the tool with a handler that is cancelled after its timeout, if any; a sync one runs in a thread."""
    seconds = tool.timeout_seconds
    if seconds is None:
        return tool

    async def handle(value: Any, context: ToolContext, meta: Any) -> Any:
        own = context.with_deadline(time.monotonic() + seconds)
        if tool.is_async:
            return await _run_in_time(partial(_call, tool.handler, value, own, meta), own, seconds)
        own.set_post(schedule_here())
        call = partial(tool.handler, value, own, meta)
        # A limiter of its own: abandoned threads of other calls must not keep this one waiting.
        run = partial(run_sync, call, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        result = await _run_in_time(run, own, seconds)
        return await result if is_awaitable(result) else result

    return replace(tool, handler=handle, is_async=True)


async def _run_in_time(call: Callable[[], Awaitable[Any]], context: ToolContext, seconds: float) -> Any:
    """Await a handler in a task of its own, which is left behind if it does not let itself be cancelled."""
    results: list[Any] = []

    async def body() -> None:
        results.append(await call())

    task = spawn_background(body, name="spindle-call")
    try:
        with CancelScope(deadline=current_time() + seconds) as scope:
            await task.wait()
    finally:
        if not task.is_done:
            await _stop(task, context)
    if scope.cancelled_caught and not results:
        raise _DeadlinePassedError(seconds)
    if task.error is not None:
        raise task.error
    if not results:
        raise RuntimeError("The handler cancelled its own task.")
    return results[0]


async def _stop(task: BackgroundTask, context: ToolContext) -> None:
    context.cancel()  # before the task, so that a handler can see why it is cancelled
    task.cancel()
    with CancelScope(deadline=current_time() + _GRACE_SECONDS, shield=True):
        await task.wait()
    if not task.is_done:
        task.pause_cancellation(is_paused=True)  # a handler that loops on its cancellation would keep a core busy


async def _call(handler: Callable[..., Any], value: Any, context: ToolContext, meta: Any) -> Any:
    result = handler(value, context, meta)
    return await result if is_awaitable(result) else result


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedCall:
    """One call wrapped in its start and end events; the end event is always emitted."""

    tool: Runnable
    context: ToolContext
    checksum: str
    emit_end: Callable[[str, object], Awaitable[None]] | None = None
    """Emits the end event; `None` emits it even while the call is being cancelled."""

    async def run(self, value: Any, call: Callable[[], Awaitable[Any]]) -> Any:
        """Emit the start event, await `call`, emit the end event."""
        events, started_at, begun = self.context.events, datetime.now(UTC), time.perf_counter()
        await events.emit("tool_execution_start", self._start(value, started_at))
        is_error = True
        try:
            result = await call()
            is_error = isinstance(result, Err)
        finally:
            end = self._end(started_at, time.perf_counter() - begun, is_error=is_error)
            await (self.emit_end or events.emit_last)("tool_execution_end", end)
        return result

    def _start(self, value: Any, started_at: datetime) -> ToolExecutionStart:
        return ToolExecutionStart(
            tool_name=self.tool.name,
            turn_id=self.context.turn_id,
            tool_call_id=self.context.tool_call_id,
            checksum=self.checksum,
            args=self.context.redact_value(copy_masked(value, self.tool.secret_fields)),
            started_at=started_at,
            caller=self.context.caller,
        )

    def _end(self, started_at: datetime, seconds: float, *, is_error: bool) -> ToolExecutionEnd:
        return ToolExecutionEnd(
            tool_name=self.tool.name,
            turn_id=self.context.turn_id,
            tool_call_id=self.context.tool_call_id,
            checksum=self.checksum,
            started_at=started_at,
            ended_at=started_at + timedelta(seconds=seconds),
            duration_ms=seconds * 1000,
            is_error=is_error,
            caller=self.context.caller,
        )


async def run_checks(checks: Iterable[Check], value: Any, ctx: Any, *, tool: str) -> None:
    """Run a tool's checks in order; `ValueError` rejects the call, other exceptions propagate.

    Raises:
        InvalidToolArgsError: A check rejected the arguments.
    """
    for check in checks:
        try:
            answer = check(value, ctx)
            if is_awaitable(answer):
                await answer
        except InvalidToolArgsError:
            raise
        except ValueError as error:
            words = to_printable(str(error)) or "arguments that pass the tool's own check"
            raise build_refusal(tool, [Problem(path="", expected=words, received="arguments that do not")]) from error


def is_awaitable(value: object) -> bool:
    """Return whether a handler's value must be awaited; several times faster than `inspect.isawaitable`."""
    return hasattr(type(value), "__await__")


def build_downstream_error(name: str, error: BaseException) -> ToolDownstreamError:
    """Build the error for a handler that raised; raise it from the original."""
    return ToolDownstreamError(
        f"Tool {name!r} raised {type(error).__name__}; the original exception is this error's __cause__.", tool=name
    )


def build_timeout_error(name: str, seconds: float | None) -> ToolTimeoutError:
    """Build the error for a call that took too long."""
    limit = "too long" if seconds is None else f"longer than {seconds:g} s"
    return ToolTimeoutError(f"Tool {name!r} took {limit} and was cancelled.", tool=name, timeout_seconds=seconds)


@runtime_checkable
class HasToolContext(Protocol):
    """A context from which a handler's `ToolContext` can be derived."""

    def tool_context(self) -> ToolContext:
        """Return a context that shares the stash, the events and the turn id."""
        ...


def to_tool_context(ctx: object) -> ToolContext:
    """Return `ctx` if it is a `ToolContext`, else the one derived from it.

    Raises:
        InvalidContextError: `ctx` is not a context.
    """
    if isinstance(ctx, ToolContext):
        return ctx
    # Looked up by hand: isinstance with a protocol takes several microseconds, for every batch of a turn.
    derive: Callable[[], ToolContext] | None = getattr(ctx, "tool_context", None)
    if callable(derive):
        return derive()
    raise InvalidContextError(
        f"Expected a ToolContext or a DispatchContext, got {type(ctx).__name__}. ToolContext(session_id=…) is enough.",
        field="ctx",
    )
