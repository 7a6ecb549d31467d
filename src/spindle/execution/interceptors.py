"""The user's own policies round each call, like the layers of an onion."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from spindle.calls import Call, CallOutcome, Err, Ok
from spindle.errors import UsageError
from spindle.execution.cancelling import from_outside
from spindle.execution.job import Job
from spindle.execution.settle import Settled, settle
from spindle.tools.context import ToolContext

Next: TypeAlias = Callable[..., Awaitable[CallOutcome]]
Interceptor: TypeAlias = Callable[[Call, ToolContext, Next], Awaitable[CallOutcome]]
"""`async (call, ctx, next) -> CallOutcome`; calls `await next()` to go on, or answers by itself."""


async def intercepted(
    job: Job, interceptors: Sequence[Interceptor], inner: Callable[[], Awaitable[CallOutcome]]
) -> Settled:
    """Run the call inside its interceptors; one that fails, or answers with something else, refuses the call."""
    once = _Once(job, inner)

    def layer(index: int) -> Next:
        async def go_on(*given: Any) -> CallOutcome:
            _refuse_changes(given, job)
            if index == len(interceptors):
                return await once.run()
            return await interceptors[index](job.call, job.ctx, layer(index + 1))

        return go_on

    try:
        outcome = cast("object", await layer(0)())
    except BaseException as error:  # noqa: BLE001  a guard that raises refuses
        ending = from_outside(error)
        if ending is not None:
            raise ending from None
        job.ctx.events.warn(f"an interceptor of {job.call.name!r} failed", source="interceptor", error=error)
        return Settled(_refusal(job, error))
    if not isinstance(outcome, CallOutcome) or not isinstance(cast("object", outcome.result), (Ok, Err)):
        kind = type(cast("object", outcome)).__name__
        job.ctx.events.warn(f"an interceptor of {job.call.name!r} gave no outcome: {kind}", source="interceptor")
        return Settled(_refusal(job, None))
    if job.settled is not None and outcome.result is job.settled.result:
        return job.settled
    return _answered(job, outcome.result)


class _Once:
    """The call inside all its interceptors, which runs at most once however often it is asked for."""

    def __init__(self, job: Job, inner: Callable[[], Awaitable[CallOutcome]]) -> None:
        self._job = job
        self._inner = inner
        self._has_begun = False
        self._outcome: CallOutcome | None = None

    async def run(self) -> CallOutcome:
        if not self._has_begun:
            self._has_begun = True
            self._outcome = await self._inner()
        elif self._outcome is None:
            raise UsageError("an interceptor called next() while the call was still running", field="interceptors")
        else:
            message = f"an interceptor of {self._job.call.name!r} called next() again: the call was not run twice"
            self._job.ctx.events.warn(message, source="interceptor")
        return self._outcome


def _refuse_changes(given: tuple[Any, ...], job: Job) -> None:
    """Refuse another call than the one that passed the gates: they would not have seen what runs."""
    for thing in given:
        if isinstance(thing, Call) and thing is not job.call and thing != job.call:
            raise UsageError("an interceptor cannot change a call; answer it, or pass it on", field="interceptors")


def _answered(job: Job, result: Ok | Err) -> Settled:
    """Take an answer in the tool's place, held to the same rules, and never more trusted than the tool's."""
    tool = job.entry.tool
    settled = settle(result, tool=tool.name, trusted=tool.trusted)
    if isinstance(result, Ok) and isinstance(settled.result, Ok) and not result.trusted:
        return Settled(replace(settled.result, trusted=False), settled.whole)
    return settled


def _refusal(job: Job, error: BaseException | None) -> Err:
    name = job.call.name
    if job.attempts:
        return Err("execution_failed", f"The tool {name!r} ran, but a check after it failed.", cause=error)
    return Err("not_available", f"The tool {name!r} cannot be used now: a check before it failed.", cause=error)
