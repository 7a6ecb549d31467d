"""The port behind which a call's body may run somewhere else: a request of plain data in, a result out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from spindle.calls import Err, Ok
from spindle.errors import CallError
from spindle.execution.failures import err_of
from spindle.execution.job import Job
from spindle.execution.settle import settle
from spindle.tools.context import ToolContext
from spindle.tools.registry import ToolRegistry


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One call as plain data: everything in it is JSON."""

    tool: str
    args: Mapping[str, Any]
    tool_call_id: str
    checksum: str
    idempotency_key: str
    fingerprint: str
    """What the tool looked like to the one who asks; a worker with another one refuses."""
    session_id: str
    turn_id: str | None
    result_budget_chars: int | None
    seconds_left: float | None


class CancelSignal(Protocol):
    """Says whether the caller still wants an answer."""

    @property
    def cancelled(self) -> bool:
        """Whether the call was told to stop."""
        ...


class Transport(Protocol):
    """Runs a request where the tool's body lives."""

    async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
        """Give what became of it; being cancelled means that nobody waits any more."""
        ...


def request_of(job: Job) -> Request:
    """Write a call down as plain data."""
    tool, ctx = job.entry.tool, job.ctx
    return Request(
        tool=tool.name,
        args=job.arguments or {},
        tool_call_id=job.call.tool_call_id,
        checksum=job.checksum,
        idempotency_key=cast("str", ctx.idempotency_key),
        fingerprint=tool.fingerprint,
        session_id=ctx.session_id,
        turn_id=ctx.turn_id,
        result_budget_chars=ctx.result_budget_chars,
        seconds_left=ctx.seconds_left,
    )


class LocalTransport:
    """Runs requests in this process, with the tools of a registry."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:  # noqa: ARG002  cancelling this task is enough
        """Look the tool up and run it; one that is not the one asked for is refused."""
        tool = self._registry.get(request.tool)
        if tool is None or tool.fingerprint != request.fingerprint:
            what = "is not known" if tool is None else "is not the same"
            return Err("not_available", f"The tool {request.tool!r} {what} where it was to run.")
        ctx = ToolContext(
            request.session_id,
            turn_id=request.turn_id,
            result_budget_chars=request.result_budget_chars,
            tool_name=tool.name,
            tool_call_id=request.tool_call_id,
            checksum=request.checksum,
            idempotency_key=request.idempotency_key,
        )
        try:
            value = await tool.executor(ctx)(request.args)
        except CallError as error:
            cause = error.__cause__ if error.__cause__ is not None else error
            return err_of(cause, tool=tool.name, expose=tool.expose_errors)
        return settle(value, tool=tool.name, trusted=tool.trusted).result
