"""Interceptors, which wrap each call and may answer it, and observers, which are only notified of calls."""

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
"""`async (call, ctx, next) -> CallOutcome`; calls `await next()` to continue, or returns its own outcome."""


async def run_interceptors(
    job: CallState, interceptors: Sequence[Interceptor], inner: Callable[[], Awaitable[CallOutcome]]
) -> HandlerResult:
    """Run the call inside its interceptors; reject the call if one raises or returns something else than an outcome."""
    once = _InnerCall(job, inner)

    def layer(index: int) -> Next:
        async def go_on(*given: Any) -> CallOutcome:
            _check_unchanged(given, job)
            if index == len(interceptors):
                return await once.run()
            return await interceptors[index](job.call, job.ctx, layer(index + 1))

        return go_on

    try:
        outcome = cast("object", await layer(0)())
    except BaseException as error:  # noqa: BLE001  an interceptor that raises rejects the call
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        job.ctx.events.warn(f"an interceptor of {job.call.name!r} failed", source="interceptor", error=error)
        return HandlerResult(_build_refusal(job, error))
    if not isinstance(outcome, CallOutcome) or not isinstance(cast("object", outcome.result), (Ok, Err)):
        kind = type(cast("object", outcome)).__name__
        job.ctx.events.warn(
            f"an interceptor of {job.call.name!r} returned {kind}, expected a CallOutcome", source="interceptor"
        )
        return HandlerResult(_build_refusal(job, None))
    if job.settled is not None and outcome.result is job.settled.result:
        return job.settled
    return _normalize_answer(job, outcome.result)


class _InnerCall:
    """The innermost step of the chain; runs the call at most once, however often `next()` is called."""

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
            raise UsageError(
                "An interceptor called next() while the call was still running; await the first next().",
                field="interceptors",
            )
        else:
            message = f"an interceptor of {self._job.call.name!r} called next() again; the call was not run again"
            self._job.ctx.events.warn(message, source="interceptor")
        return self._outcome


def _check_unchanged(given: tuple[Any, ...], job: CallState) -> None:
    """Reject a call that differs from the admitted one: the admission checks did not see it."""
    for thing in given:
        if isinstance(thing, Call) and thing is not job.call and thing != job.call:
            raise UsageError(
                "An interceptor cannot change a call; return an outcome, or call next() without arguments.",
                field="interceptors",
            )


def _normalize_answer(job: CallState, result: Ok | Err) -> HandlerResult:
    """Normalize an interceptor's own result like the tool's; it is never more trusted than the tool."""
    tool = job.entry.tool
    settled = normalize(result, tool=tool.name, trusted=tool.trusted)
    if isinstance(result, Ok) and isinstance(settled.result, Ok) and not result.trusted:
        return HandlerResult(replace(settled.result, trusted=False), settled.full_bytes)
    return settled


def _build_refusal(job: CallState, error: BaseException | None) -> Err:
    name = job.call.name
    if job.attempts:
        return Err("execution_failed", f"The tool {name!r} ran, but a check after it failed.", cause=error)
    return Err("not_available", f"The tool {name!r} cannot be used now: a check before it failed.", cause=error)


_SDK = "opentelemetry.sdk"
_TELEMETRY = "spindle.telemetry.instrumentation"


class BatchObserver(Protocol):
    """Port that observes one batch; its methods should return quickly, and an exception only emits a warning."""

    def begin(self, job: CallState) -> None:
        """Handle the start of an admitted call, in the task that runs it."""
        ...

    def end(self, job: CallState) -> None:
        """Handle the end of the call, in the same task."""
        ...

    def close(self, jobs: Sequence[CallState]) -> None:
        """Handle the results of all calls, including those that never ran; called once, also on cancellation."""
        ...


class CallObserver(Protocol):
    """Port that is passed to an executor among its interceptors, but cannot answer a call."""

    def watch(self, context: ToolContext) -> BatchObserver | None:
        """Return an observer for one batch, or `None` to skip the batch at no further cost."""
        ...


class AutoTelemetry:
    """Enables OpenTelemetry as soon as its SDK is imported; until then only checks `sys.modules`."""

    def __init__(self) -> None:
        self._telemetry: CallObserver | None = None

    def watch(self, context: ToolContext) -> BatchObserver | None:
        """Return the telemetry observer of one batch, or `None` while no SDK is imported."""
        if self._telemetry is None:
            if _SDK not in sys.modules:
                return None
            # Imported by name on first use: it is in an outer layer and needs optional libraries.
            self._telemetry = cast("CallObserver", import_module(_TELEMETRY).telemetry())
        return self._telemetry.watch(context)


def split_observers(
    given: Iterable[Interceptor | CallObserver],
) -> tuple[tuple[Interceptor, ...], tuple[CallObserver, ...]]:
    """Split the list into interceptors and observers; add `AutoTelemetry` unless it holds a telemetry observer.

    Raises:
        UsageError: An item is neither.
    """
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise UsageError("interceptors must be a list of async (call, ctx, next)", field="interceptors")
    interceptors: list[Interceptor] = []
    witnesses: list[CallObserver] = []
    for one in given:
        # Checked on the class: some instances, such as mocks, have every attribute.
        if hasattr(type(one), "watch"):
            witnesses.append(cast("CallObserver", one))
        elif callable(one):
            interceptors.append(one)
        else:
            kind = type(cast("object", one)).__name__
            raise UsageError(f"Expected an interceptor, async (call, ctx, next), got {kind}.", field="interceptors")
    if not any(getattr(type(one), "is_telemetry", False) for one in witnesses):
        witnesses.insert(0, AutoTelemetry())
    return tuple(interceptors), tuple(witnesses)


def start_observers(observers: Sequence[CallObserver], context: ToolContext) -> tuple[BatchObserver, ...]:
    """Start the observers of a batch; an observer that raises is skipped with a warning."""
    watches: tuple[BatchObserver, ...] = ()
    for witness in observers:
        try:
            watch = witness.watch(context)
        except Exception as error:  # noqa: BLE001  an observer must not fail a batch
            _warn(context.events, error)
        else:
            if watch is not None:
                watches += (watch,)
    return watches


def with_observers(run: Run, observers: Sequence[BatchObserver]) -> Run:
    """Return `run` wrapped so that the observers are notified of the start and the end of each call."""

    async def run_watched(job: CallState, batch: Batch) -> None:
        events = batch.context.events
        for watch in observers:
            _notify_observer(events, watch.begin, job)
        try:
            await run(job, batch)
        finally:
            for watch in reversed(observers):
                _notify_observer(events, watch.end, job)

    return run_watched


def finish_observers(observers: Sequence[BatchObserver], jobs: Sequence[CallState], events: Events) -> None:
    """Notify the observers of a batch of the results of its calls."""
    for watch in observers:
        _notify_observer(events, watch.close, jobs)


def _notify_observer(events: Events, notify: Callable[..., None], argument: object) -> None:
    try:
        notify(argument)
    except Exception as error:  # noqa: BLE001  an observer must not fail a batch
        _warn(events, error)


def _warn(events: Events, error: Exception) -> None:
    events.warn(f"a call observer raised {type(error).__name__}", source="witness", error=error)
