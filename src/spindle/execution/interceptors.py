"""The user's own policies round each call, like the layers of an onion."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from spindle.calls import Call, CallOutcome, Err, Ok
from spindle.execution.job import Job
from spindle.execution.settle import Settled
from spindle.tools.context import ToolContext

Next: TypeAlias = Callable[..., Awaitable[CallOutcome]]
Interceptor: TypeAlias = Callable[[Call, ToolContext, Next], Awaitable[CallOutcome]]
"""`async (call, ctx, next) -> CallOutcome`; calls `await next()` to go on, or answers by itself."""


async def intercepted(
    job: Job, interceptors: Sequence[Interceptor], inner: Callable[[], Awaitable[CallOutcome]]
) -> Settled:
    """Run the call inside its interceptors; one that fails, or answers with something else, refuses the call."""

    def layer(index: int) -> Next:
        async def go_on(*_: Any) -> CallOutcome:
            if index == len(interceptors):
                return await inner()
            return await interceptors[index](job.call, job.ctx, layer(index + 1))

        return go_on

    try:
        outcome = cast("object", await layer(0)())
    except Exception as error:  # noqa: BLE001  a guard that raises refuses
        job.ctx.events.warn(f"an interceptor of {job.call.name!r} failed", source="interceptor", error=error)
        return Settled(_refusal(job, error))
    if not isinstance(outcome, CallOutcome):
        return Settled(_refusal(job, None))
    if job.settled is not None and outcome.result is job.settled.result:
        return job.settled
    # An interceptor answers in the tool's place, but cannot make its answer more trusted than the tool's.
    result = outcome.result
    if isinstance(result, Ok):
        result = replace(result, trusted=result.trusted and job.entry.tool.trusted)
    return Settled(result)


def _refusal(job: Job, error: BaseException | None) -> Err:
    name = job.call.name
    if job.attempts:
        return Err("execution_failed", f"The tool {name!r} ran, but a check after it failed.", cause=error)
    return Err("not_available", f"The tool {name!r} cannot be used now: a check before it failed.", cause=error)
