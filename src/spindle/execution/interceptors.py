"""Interceptors, which wrap each call and may answer it, and observers, which are only notified of calls."""

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from spindle.calls import Call, CallOutcome, Err, Ok
from spindle.errors import UsageError
from spindle.events import Events
from spindle.execution.call_state import AdmittedCall, CallState
from spindle.execution.cancellation import external_cancellation
from spindle.execution.results import HandlerResult, normalize
from spindle.json_types import is_callback, untyped
from spindle.tools.context import ToolContext
from spindle.tools.invocation import is_awaitable
from spindle.trust.labels import join, read_label

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
Next: TypeAlias = Callable[..., Awaitable[CallOutcome]]
Interceptor: TypeAlias = Callable[[Call, ToolContext, Next], Awaitable[CallOutcome] | CallOutcome]
"""`async (call, ctx, next) -> CallOutcome`; calls `await next()` to continue, or returns its own outcome."""


async def run_interceptors(
    state: AdmittedCall, interceptors: Sequence[Interceptor], inner: Callable[[], Awaitable[CallOutcome]]
) -> HandlerResult:
    """Run the call inside its interceptors; reject the call if one raises or returns something else than an outcome."""
    once = _InnerCall(state, inner)

    def layer(index: int) -> Next:
        async def go_on(*given: object) -> CallOutcome:
            _check_unchanged(given, state)
            if index == len(interceptors):
                return await once.run()
            said: Any = interceptors[index](state.call, state.ctx, layer(index + 1))
            return await said if is_awaitable(said) else said

        return go_on

    try:
        outcome = untyped(await layer(0)())
    except BaseException as error:  # noqa: BLE001  an interceptor that raises rejects the call
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        state.warn(f"an interceptor of {state.call.name!r} failed", source="interceptor", error=error)
        return HandlerResult(_build_refusal(state, error))
    if not isinstance(outcome, CallOutcome) or not isinstance(untyped(outcome.result), (Ok, Err)):
        kind = type(untyped(outcome)).__name__
        state.warn(
            f"an interceptor of {state.call.name!r} returned {kind}, expected a CallOutcome", source="interceptor"
        )
        return HandlerResult(_build_refusal(state, None))
    if state.handled is not None and outcome.result is state.handled.result:
        return state.handled
    return _normalize_answer(state, outcome.result)


class _InnerCall:
    """The innermost step of the chain; runs the call at most once, however often `next()` is called."""

    def __init__(self, state: AdmittedCall, inner: Callable[[], Awaitable[CallOutcome]]) -> None:
        self._state = state
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
            message = f"an interceptor of {self._state.call.name!r} called next() again; the call was not run again"
            self._state.warn(message, source="interceptor")
        return self._outcome


def _check_unchanged(given: tuple[object, ...], state: AdmittedCall) -> None:
    """Reject a call that differs from the admitted one: the admission checks did not see it."""
    for thing in given:
        if isinstance(thing, Call) and thing is not state.call and thing != state.call:
            raise UsageError(
                "An interceptor cannot change a call; return an outcome, or call next() without arguments.",
                field="interceptors",
            )


def _normalize_answer(state: AdmittedCall, result: Ok | Err) -> HandlerResult:
    """Normalize an interceptor's own result like the tool's; it is never more trusted than the tool."""
    tool = state.entry.tool
    handled = normalize(result, tool=tool.name, output=tool.output)
    if isinstance(result, Ok) and isinstance(handled.result, Ok):
        label = join(handled.result.label or tool.output, read_label(result.label, trusted=result.trusted))
        return handled._replace(result=replace(handled.result, trusted=label == "trusted", label=label))
    return handled


def _build_refusal(state: AdmittedCall, error: BaseException | None) -> Err:
    name = state.call.name
    if state.attempts:
        return Err(
            "execution_failed", f"The tool {name!r} ran, but a check after it failed.", cause=error, by="spindle"
        )
    return Err(
        "not_available", f"The tool {name!r} cannot be used now: a check before it failed.", cause=error, by="spindle"
    )


TELEMETRY_SDK = "opentelemetry.sdk"
"""As soon as it is imported, `AutoTelemetry` observes every batch."""
_OBSERVERS = "spindle.observers"
"""The group of entry points, in `pyproject.toml`, by which outer packages register observers of every executor."""


class BatchObserver(Protocol):
    """Port that observes one batch; its methods should return quickly, and an exception only emits a warning."""

    def begin(self, state: AdmittedCall) -> None:
        """Handle the start of an admitted call, in the task that runs it."""
        ...

    def end(self, state: AdmittedCall) -> None:
        """Handle the end of the call, in the same task."""
        ...

    def close(self, states: Sequence[CallState]) -> None:
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
            if TELEMETRY_SDK not in sys.modules:
                return None
            registered = _find_registered(TELEMETRY_SDK)
            if registered is None:
                return None
            create: Callable[[], CallObserver] = registered.load()
            self._telemetry = create()
        return self._telemetry.watch(context)


@cache
def _find_registered(sdk: str) -> "EntryPoint | None":
    """Return the observer registered for a library; only Spindle's own, not those of other installed packages."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  takes long to import

    try:
        registered = distribution("spindle").entry_points.select(group=_OBSERVERS, name=sdk)
    except PackageNotFoundError:  # copied into a program instead of installed
        return None
    return next(iter(registered), None)


def split_observers(
    given: Iterable[Interceptor | CallObserver],
) -> tuple[tuple[Interceptor, ...], tuple[CallObserver, ...]]:
    """Split the list into interceptors and observers; add `AutoTelemetry` unless it holds a telemetry observer.

    Raises:
        UsageError: An item is neither.
    """
    if not isinstance(untyped(given), Iterable):
        raise UsageError("interceptors must be a list of async (call, ctx, next)", field="interceptors")
    interceptors: list[Interceptor] = []
    observers: list[CallObserver] = []
    for one in given:
        # Checked on the class: some instances, such as mocks, have every attribute.
        if hasattr(type(one), "watch"):
            observers.append(cast("CallObserver", one))
        elif is_callback(one):
            interceptors.append(cast("Interceptor", one))
        else:
            kind = type(untyped(one)).__name__
            raise UsageError(f"Expected an interceptor, async (call, ctx, next), got {kind}.", field="interceptors")
    if not any(getattr(type(one), "is_telemetry", False) for one in observers):
        observers.insert(0, AutoTelemetry())
    return tuple(interceptors), tuple(observers)


def start_observers(observers: Sequence[CallObserver], context: ToolContext) -> tuple[BatchObserver, ...]:
    """Start the observers of a batch; an observer that raises is skipped with a warning."""
    started: tuple[BatchObserver, ...] = ()
    for observer in observers:
        try:
            watch = observer.watch(context)
        except Exception as error:  # noqa: BLE001  an observer must not fail a batch
            _warn(context.events, error)
        else:
            if watch is not None:
                started += (watch,)
    return started


def finish_observers(observers: Sequence[BatchObserver], states: Sequence[CallState], events: Events) -> None:
    """Notify the observers of a batch of the results of its calls."""
    for watch in observers:
        notify_observer(events, watch.close, states)


def notify_observer(events: Events, notify: Callable[[T], None], argument: T) -> None:
    """Call a method of an observer; an exception only emits a warning."""
    try:
        notify(argument)
    except Exception as error:  # noqa: BLE001  an observer must not fail a batch
        _warn(events, error)


def _warn(events: Events, error: Exception) -> None:
    events.warn(f"a call observer raised {type(error).__name__}", source="observer", error=error)
