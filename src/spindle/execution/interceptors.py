"""The user's own policies round each call, like the layers of an onion."""

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol, TypeAlias, cast

from spindle.calls import Call, CallOutcome, Err, Ok
from spindle.errors import UsageError
from spindle.events import Events
from spindle.execution.batch import Batch, Run
from spindle.execution.call_state import CallState
from spindle.execution.cancellation import external_cancellation
from spindle.execution.results import HandlerResult, normalize
from spindle.tools.context import ToolContext

Next: TypeAlias = Callable[..., Awaitable[CallOutcome]]
Interceptor: TypeAlias = Callable[[Call, ToolContext, Next], Awaitable[CallOutcome]]
"""`async (call, ctx, next) -> CallOutcome`; calls `await next()` to go on, or answers by itself."""


async def intercepted(
    job: CallState, interceptors: Sequence[Interceptor], inner: Callable[[], Awaitable[CallOutcome]]
) -> HandlerResult:
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
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        job.ctx.events.warn(f"an interceptor of {job.call.name!r} failed", source="interceptor", error=error)
        return HandlerResult(_refusal(job, error))
    if not isinstance(outcome, CallOutcome) or not isinstance(cast("object", outcome.result), (Ok, Err)):
        kind = type(cast("object", outcome)).__name__
        job.ctx.events.warn(f"an interceptor of {job.call.name!r} gave no outcome: {kind}", source="interceptor")
        return HandlerResult(_refusal(job, None))
    if job.settled is not None and outcome.result is job.settled.result:
        return job.settled
    return _answered(job, outcome.result)


class _Once:
    """The call inside all its interceptors, which runs at most once however often it is asked for."""

    def __init__(self, job: CallState, inner: Callable[[], Awaitable[CallOutcome]]) -> None:
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


def _refuse_changes(given: tuple[Any, ...], job: CallState) -> None:
    """Refuse another call than the one that passed the gates: they would not have seen what runs."""
    for thing in given:
        if isinstance(thing, Call) and thing is not job.call and thing != job.call:
            raise UsageError("an interceptor cannot change a call; answer it, or pass it on", field="interceptors")


def _answered(job: CallState, result: Ok | Err) -> HandlerResult:
    """Take an answer in the tool's place, held to the same rules, and never more trusted than the tool's."""
    tool = job.entry.tool
    settled = normalize(result, tool=tool.name, trusted=tool.trusted)
    if isinstance(result, Ok) and isinstance(settled.result, Ok) and not result.trusted:
        return HandlerResult(replace(settled.result, trusted=False), settled.full_bytes)
    return settled


def _refusal(job: CallState, error: BaseException | None) -> Err:
    name = job.call.name
    if job.attempts:
        return Err("execution_failed", f"The tool {name!r} ran, but a check after it failed.", cause=error)
    return Err("not_available", f"The tool {name!r} cannot be used now: a check before it failed.", cause=error)


_SDK = "opentelemetry.sdk"
_TELEMETRY = "spindle.telemetry.instrumentation"


class BatchObserver(Protocol):
    """Watches one batch; it is asked to be quick, and what it raises is a warning."""

    def begin(self, job: CallState) -> None:
        """Hear that a call which passed the gates runs from now on, in this task."""
        ...

    def end(self, job: CallState) -> None:
        """Hear, in the same task, that it runs no longer."""
        ...

    def close(self, jobs: Sequence[CallState]) -> None:
        """Hear what became of every call, also of those that never ran; told once, also when the caller leaves."""
        ...


class CallObserver(Protocol):
    """Stands among an executor's interceptors, but cannot answer a call."""

    def watch(self, context: ToolContext) -> BatchObserver | None:
        """Give a watch for one batch; `None` when there is nobody to tell, and then it costs nothing more."""
        ...


class AutoTelemetry:
    """OpenTelemetry, told of every call once the program has set up an SDK; before that, a look into a dict."""

    def __init__(self) -> None:
        self._telemetry: CallObserver | None = None

    def watch(self, context: ToolContext) -> BatchObserver | None:
        """Give what telemetry gives, as soon as an SDK is loaded."""
        if self._telemetry is None:
            if _SDK not in sys.modules:
                return None
            # By its name, and not before it is needed: it is further out, and knows of libraries that we do not.
            self._telemetry = cast("CallObserver", import_module(_TELEMETRY).telemetry())
        return self._telemetry.watch(context)


def split_observers(
    given: Iterable[Interceptor | CallObserver],
) -> tuple[tuple[Interceptor, ...], tuple[CallObserver, ...]]:
    """Give those who may answer calls, and those who only look on: telemetry too, unless somebody gave their own.

    Raises:
        UsageError: One can do neither.
    """
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise UsageError("interceptors must be a list of async (call, ctx, next)", field="interceptors")
    interceptors: list[Interceptor] = []
    witnesses: list[CallObserver] = []
    for one in given:
        # By its class: some interceptors, such as test doubles, answer to any name.
        if hasattr(type(one), "watch"):
            witnesses.append(cast("CallObserver", one))
        elif callable(one):
            interceptors.append(one)
        else:
            kind = type(cast("object", one)).__name__
            raise UsageError(f"an interceptor is an async (call, ctx, next), not a {kind}", field="interceptors")
    if not any(getattr(type(one), "is_telemetry", False) for one in witnesses):
        witnesses.insert(0, AutoTelemetry())
    return tuple(interceptors), tuple(witnesses)


def start_observers(witnesses: Sequence[CallObserver], context: ToolContext) -> tuple[BatchObserver, ...]:
    """Ask each witness whether it wants to see this batch."""
    watches: tuple[BatchObserver, ...] = ()
    for witness in witnesses:
        try:
            watch = witness.watch(context)
        except Exception as error:  # noqa: BLE001  looking on must never end the work
            _warn(context.events, error)
        else:
            if watch is not None:
                watches += (watch,)
    return watches


def with_observers(run: Run, watches: Sequence[BatchObserver]) -> Run:
    """Run calls under these eyes."""

    async def run_watched(job: CallState, batch: Batch) -> None:
        events = batch.context.events
        for watch in watches:
            _safely(events, watch.begin, job)
        try:
            await run(job, batch)
        finally:
            for watch in reversed(watches):
                _safely(events, watch.end, job)

    return run_watched


def finish_observers(watches: Sequence[BatchObserver], jobs: Sequence[CallState], events: Events) -> None:
    """Tell the watches of a batch what became of its calls."""
    for watch in watches:
        _safely(events, watch.close, jobs)


def _safely(events: Events, tell: Callable[..., None], told: object) -> None:
    try:
        tell(told)
    except Exception as error:  # noqa: BLE001  looking on must never end the work
        _warn(events, error)


def _warn(events: Events, error: Exception) -> None:
    events.warn(f"a witness of calls raised {type(error).__name__}", source="witness", error=error)
