"""Invocation of one call of one tool: checksum, validation, start event, handler, end event, in that order."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import CoroutineType
from typing import Any, TypeAlias

from spindle.calls import Err, RawArgs
from spindle.errors import InvalidToolArgsError, ToolDownstreamError
from spindle.events import ToolExecutionEnd, ToolExecutionStart
from spindle.tools.arguments import copy_arguments, copy_masked, read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.identity import checksum
from spindle.tools.schema.base import Schema
from spindle.tools.schema.problems import Problem, build_refusal, to_printable

Execute: TypeAlias = Callable[[RawArgs], Awaitable[Any]]
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


def build_executor(tool: Runnable, context: ToolContext) -> Execute:
    """Return the function that runs one call of `tool` in `context`."""
    name, checks, heard = tool.name, tool.checks, context.events.heard
    validate, empty_ok = tool.schema.validator(), tool.schema.can_be_empty()
    handler, meta = tool.handler, tool.meta

    async def execute(args: RawArgs) -> Any:
        # JSON text always has a checksum, so it is computed lazily; a mapping may contain non-JSON values.
        known = None if args is None or isinstance(args, (str, bytes)) else checksum(name, args)
        arguments = read_arguments(args, tool=name, empty_ok=empty_ok)
        if known is not None:  # the handler must not change the caller's mapping
            arguments = copy_arguments(arguments)
        value = validate(arguments, args)
        if checks:
            await run_checks(checks, value, context, tool=name)
        try:
            if heard("tool_execution_start") or heard("tool_execution_end"):
                observed = ObservedCall(tool=tool, context=context, checksum=known or checksum(name, arguments))
                return await observed.run(value, lambda: _call(handler, value, context, meta))
            result: Any = handler(value, context, meta)
            if result.__class__ is CoroutineType or is_awaitable(result):
                result = await result
        except (Exception, SystemExit) as error:
            raise _downstream(name, error) from error
        return result

    return execute


async def _call(handler: Callable[..., Any], value: Any, context: ToolContext, meta: Any) -> Any:
    result = handler(value, context, meta)
    return await result if is_awaitable(result) else result


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedCall:
    """One call wrapped in its start and end events; the end event is always emitted."""

    tool: Runnable
    context: ToolContext
    checksum: str

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
            await events.emit_last("tool_execution_end", end)
        return result

    def _start(self, value: Any, started_at: datetime) -> ToolExecutionStart:
        return ToolExecutionStart(
            tool_name=self.tool.name,
            turn_id=self.context.turn_id,
            tool_call_id=self.context.tool_call_id,
            checksum=self.checksum,
            args=copy_masked(value, self.tool.secret_fields),
            started_at=started_at,
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


def _downstream(name: str, error: BaseException) -> ToolDownstreamError:
    return ToolDownstreamError(
        f"Tool {name!r} raised {type(error).__name__}; the original exception is this error's __cause__.", tool=name
    )
