"""Runs the handler of a call with retries and capability handles; every exception becomes a result."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio

from spindle.artifacts.spool import Spool
from spindle.calls import Err
from spindle.capabilities.declare import CallScope
from spindle.capabilities.resolve import Backends, close_handles, open_handles
from spindle.capabilities.secrets.secret import Redactor
from spindle.execution.batch import Batch
from spindle.execution.call_state import CallState
from spindle.execution.cancellation import external_cancellation, reraise
from spindle.execution.results import HandlerResult, mask_secret_fields, normalize, to_err
from spindle.execution.transport import SyncHandlerRunner, Transport, execute_remotely
from spindle.tools.arguments import copy_arguments
from spindle.tools.invocation import ObservedCall

_MAX_DOUBLINGS = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Retries:
    """How often an idempotent tool is retried, and the wait between attempts."""

    times: int = 2
    first_wait_seconds: float = 0.1
    max_wait_seconds: float = 5.0

    def wait_seconds(self, attempt: int) -> float:
        """Return the wait after an attempt, counted from 1; it doubles each time."""
        return min(self.first_wait_seconds * 2 ** min(attempt - 1, _MAX_DOUBLINGS), self.max_wait_seconds)


class HandlerRunner:
    """Runs handlers on the event loop, in a thread, in a process, or through a transport."""

    def __init__(self, retries: Retries, local: SyncHandlerRunner, transport: Transport | None) -> None:
        self._retries = retries
        self._local = local
        self._transport = transport

    async def run(self, job: CallState, scope: anyio.CancelScope) -> HandlerResult:
        """Run the handler and emit its start and end events; raises only on external cancellation."""
        events = job.ctx.events
        if not (events.heard("tool_execution_start") or events.heard("tool_execution_end")):
            settled_now = await self._run(job, scope)
            if events.heard("tool_progress"):
                await events.flush()
            return settled_now
        observed = ObservedCall(tool=job.runnable, context=job.ctx, checksum=job.checksum)
        settled: list[HandlerResult] = []

        async def body() -> Any:
            settled.append(await self._run(job, scope))
            return settled[0].result

        await observed.run(job.value, body)
        return settled[0]

    def _run(self, job: CallState, scope: anyio.CancelScope) -> Coroutine[Any, Any, HandlerResult]:
        """Run idempotent tools with retries and all others once."""
        return self._run_with_retries(job, scope) if job.entry.tool.idempotent else self._run_once(job, scope)

    async def _run_with_retries(self, job: CallState, scope: anyio.CancelScope) -> HandlerResult:
        tries = 1 + self._retries.times
        while True:
            settled = await self._run_once(job, scope)
            if job.attempts >= tries or not _is_retryable(settled):
                return settled
            wait = self._retries.wait_seconds(job.attempts)
            if anyio.current_time() + wait >= scope.deadline:
                return settled  # no time for another attempt, and this error is more useful than a timeout
            await anyio.sleep(wait)
            # The previous attempt may have changed its arguments; build them again.
            job.value = job.runnable.schema.validator()(copy_arguments(job.arguments or {}), job.call.args)

    async def _run_once(self, job: CallState, scope: anyio.CancelScope) -> HandlerResult:
        tool, runnable = job.entry.tool, job.runnable
        job.attempts += 1
        try:
            if self._transport is not None:
                value: Any = await execute_remotely(self._transport, job)
            elif runnable.is_async:
                value = await runnable.handler(job.value, job.ctx, runnable.meta)
            else:
                value = await self._local.run(job)
        except BaseException as error:  # noqa: BLE001  every exception of a tool becomes its result
            ending = external_cancellation(error, scope)
            if ending is not None:
                await reraise(ending)
            failed = to_err(error, tool=tool.name, expose=tool.expose_errors)
            return HandlerResult(mask_secret_fields(failed, job.arguments, tool.secret_fields))
        settled = normalize(value, tool=tool.name, trusted=tool.trusted)
        if tool.secret_fields and isinstance(settled.result, Err):
            return HandlerResult(mask_secret_fields(settled.result, job.arguments, tool.secret_fields))
        return settled


def _is_retryable(settled: HandlerResult) -> bool:
    result = settled.result
    return isinstance(result, Err) and (
        result.retryable or (result.code == "execution_failed" and result.cause is not None)
    )


Run: TypeAlias = Callable[[CallState, Batch], Awaitable[HandlerResult]]


async def with_capabilities(
    job: CallState, batch: Batch, run: Run, *, backends: Backends, spool: Spool | None, redactor: Redactor
) -> HandlerResult:
    """Open the capability handles that the tool declared, run it, and close them."""
    tool, ctx = job.entry.tool, job.ctx
    scope = CallScope(
        tool=tool.name,
        session_id=ctx.session_id,
        turn_id=ctx.turn_id,
        toolset=tool.toolset,
        spool=spool,
        events=ctx.events,
        attachments=tuple(batch.attachments),
        redactor=redactor,
    )
    try:
        opened = open_handles(tool.capabilities, backends, scope)
    except Exception as error:  # noqa: BLE001  a backend that raises rejects the call
        text = f"The tool {tool.name!r} cannot be used now: its capabilities could not be opened."
        return HandlerResult(Err("not_available", text, cause=error))
    ctx.grant(opened)
    try:
        return await run(job, batch)
    finally:
        await close_handles(opened)
