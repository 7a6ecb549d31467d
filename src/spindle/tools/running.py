"""Runs one call of one tool: checksum, validation, start event, handler, end event, in that order."""

import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from types import CoroutineType
from typing import Any, Protocol, TypeAlias

from spindle.calls import Err, RawArgs
from spindle.errors import InvalidToolArgsError, ToolDownstreamError
from spindle.events import ToolExecutionEnd, ToolExecutionStart
from spindle.tools.arguments import read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.identity import checksum
from spindle.tools.problems import Problem, printable, refusal
from spindle.tools.schema import Schema

Execute: TypeAlias = Callable[[RawArgs], Awaitable[Any]]


class Runnable(Protocol):
    """What is needed of a tool to run it."""

    @property
    def name(self) -> str: ...
    @property
    def checks(self) -> tuple[Callable[[Any, Any], Any], ...]: ...
    @property
    def meta(self) -> Any: ...


def execute_of(tool: Runnable, schema: Schema, handler: Callable[..., Any], context: ToolContext) -> Execute:
    """Give the function that runs one call in `context`."""
    name, checks, meta, events = tool.name, tool.checks, tool.meta, context.events
    validate, empty_ok = schema.validate, schema.takes_nothing

    async def execute(args: RawArgs) -> Any:
        # JSON text always has a checksum, so it is only made if someone looks; a mapping may hold what JSON cannot.
        known = None if args is None or isinstance(args, (str, bytes)) else checksum(name, args)
        arguments = read_arguments(args, tool=name, empty_ok=empty_ok)
        value = validate(arguments, args)
        if checks:
            await run_checks(checks, value, context, tool=name)
        if events.heard("tool_execution_start") or events.heard("tool_execution_end"):
            return await _observed(name, known or checksum(name, arguments), handler, value, context, meta)
        try:
            result = handler(value, context, meta)
            if type(result) is CoroutineType or hasattr(type(result), "__await__"):
                return await result
        except (Exception, SystemExit) as error:
            raise _downstream(name, error) from error
        return result

    return execute


async def _observed(
    name: str, call_checksum: str, handler: Callable[..., Any], value: Any, context: ToolContext, meta: Any
) -> Any:
    """Run the handler with its two events around it; the second comes whatever happens."""
    facts = {
        "tool_name": name,
        "turn_id": context.turn_id,
        "tool_call_id": context.tool_call_id,
        "checksum": call_checksum,
        "started_at": datetime.now(UTC),
    }
    events, begun = context.events, time.perf_counter()
    await events.emit("tool_execution_start", ToolExecutionStart(**facts, args=value))
    is_error = True
    try:
        result = handler(value, context, meta)
        if hasattr(type(result), "__await__"):
            result = await result
        is_error = isinstance(result, Err)
    except (Exception, SystemExit) as error:
        raise _downstream(name, error) from error
    finally:
        took = time.perf_counter() - begun
        end = ToolExecutionEnd(
            **facts,
            ended_at=facts["started_at"] + timedelta(seconds=took),
            duration_ms=took * 1000,
            is_error=is_error,
        )
        await events.emit_last("tool_execution_end", end)
    return result


async def run_checks(checks: Iterable[Callable[[Any, Any], Any]], value: Any, ctx: Any, *, tool: str) -> None:
    """Run a tool's own checks in order; `ValueError` refuses the call, anything else passes through.

    Raises:
        InvalidToolArgsError: A check refused.
    """
    for check in checks:
        try:
            answer = check(value, ctx)
            if hasattr(type(answer), "__await__"):
                await answer
        except InvalidToolArgsError:
            raise
        except ValueError as error:
            words = printable(str(error)) or "arguments that pass the tool's own check"
            raise refusal(tool, [Problem(path="", expected=words, received="arguments that do not")]) from error


def _downstream(name: str, error: BaseException) -> ToolDownstreamError:
    return ToolDownstreamError(
        f"tool {name!r} raised {type(error).__name__}; the original is this error's __cause__", tool=name
    )
