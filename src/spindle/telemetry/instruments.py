"""Spans and metrics of calls and turns; imported only if OpenTelemetry is installed."""

from collections.abc import Callable, Sequence
from contextvars import Token
from dataclasses import dataclass
from time import monotonic, perf_counter, time_ns
from typing import ClassVar, Generic, TypeAlias, TypeVar

from opentelemetry import metrics, trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.metrics import Meter, MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider, set_span_in_context

from spindle.errors import SpindleError
from spindle.events import DispatchEnd, DispatchStart, IterationEnd, IterationStart, TurnEnd, TurnStart
from spindle.execution.call_state import CallState
from spindle.execution.interceptors import BatchObserver
from spindle.telemetry import attributes
from spindle.telemetry.attributes import Attributes, Contents, truncate
from spindle.telemetry.metrics import CallInstruments
from spindle.tools.context import ToolContext

LOOKUP_INTERVAL_SECONDS = 0.1
"""Minimum time between lookups of the global providers, which is the slowest step while no SDK is set up."""

_API = (trace.__name__, metrics.__name__)


_T = TypeVar("_T")


class ActiveProviders(Generic[_T]):
    """The tracer and instruments to use: of the given providers, or of the global ones once they are set up."""

    __slots__ = ("_lookup_at", "_make", "_wants_instruments", "_wants_tracer", "instruments", "tracer")

    def __init__(
        self, tracers: TracerProvider | None, meters: MeterProvider | None, make: Callable[[Meter], _T]
    ) -> None:
        self._make = make
        self.tracer = None if tracers is None else _get_tracer(tracers)
        self.instruments = None if meters is None else self._instruments_of(meters)
        self._wants_tracer = tracers is None
        self._wants_instruments = meters is None
        self._lookup_at = 0.0

    def is_active(self) -> bool:
        """Return whether any provider is active; looks up the global ones again from time to time."""
        if (self._wants_tracer or self._wants_instruments) and (now := monotonic()) >= self._lookup_at:
            self._lookup_at = now + LOOKUP_INTERVAL_SECONDS
            self._look_up_global()
        return self.tracer is not None or self.instruments is not None

    def _look_up_global(self) -> None:
        """Look up the global providers; a program sets them at most once."""
        if self._wants_tracer:
            self.tracer = _get_tracer(trace.get_tracer_provider())
            self._wants_tracer = self.tracer is None
        if self._wants_instruments:
            self.instruments = self._instruments_of(metrics.get_meter_provider())
            self._wants_instruments = self.instruments is None

    def _instruments_of(self, provider: MeterProvider) -> _T | None:
        return self._make(provider.get_meter(attributes.SCOPE)) if _is_real_provider(provider) else None


def _get_tracer(provider: TracerProvider) -> Tracer | None:
    return provider.get_tracer(attributes.SCOPE) if _is_real_provider(provider) else None


def _is_real_provider(provider: object) -> bool:
    """Return whether a provider is not one of the API's no-op providers."""
    return not type(provider).__module__.startswith(_API)


class Telemetry:
    """The interceptor that `telemetry()` returns; observes every call of an executor."""

    is_telemetry: ClassVar = True
    """Marks it for the executor, which then adds no telemetry of its own."""

    def __init__(
        self,
        *,
        max_content_chars: int | None,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
    ) -> None:
        self._max_content_chars = max_content_chars
        self._providers = ActiveProviders(tracer_provider, meter_provider, CallInstruments)

    def watch(self, context: ToolContext) -> BatchObserver | None:  # noqa: ARG002
        """Return an observer of one batch, or `None` if no SDK is set up."""
        listeners = self._providers
        if not listeners.is_active():
            return None
        return _BatchTelemetry(listeners.tracer, listeners.instruments, self._max_content_chars)


@dataclass(slots=True, eq=False)
class _CallTelemetry:
    """The telemetry state of one call."""

    began: float
    arguments_bytes: int | None
    ended: float | None = None
    span: Span | None = None
    token: Token[Context] | None = None
    contents: Contents | None = None


class _BatchTelemetry:
    """The spans of one batch: children of the span current at its start, and current while their call runs.

    A span gets the duration of its call, but is ended after the batch: only then is it known how much of its result is
    shown.
    """

    def __init__(
        self, tracer: Tracer | None, instruments: CallInstruments | None, max_content_chars: int | None
    ) -> None:
        self._tracer = tracer
        self._instruments = instruments
        self._max_content_chars = max_content_chars
        self._parent = get_current()
        # Durations come from the monotonic clock, offset to the wall-clock time at the start of the batch.
        self._zero_ns = time_ns() - _nanoseconds(perf_counter())
        self._calls: dict[CallState, _CallTelemetry] = {}

    def begin(self, state: CallState) -> None:
        """Start a span and make it current."""
        seen = self._calls[state] = self._start_call(state, perf_counter())
        if seen.span is not None:
            seen.token = attach(set_span_in_context(seen.span, self._parent))

    def end(self, state: CallState) -> None:
        """Record when the call ended, and restore the previous context."""
        seen = self._calls.get(state)
        if seen is None:
            return
        seen.ended = perf_counter()
        if seen.token is not None:
            detach(seen.token)
            seen.token = None

    def close(self, states: Sequence[CallState]) -> None:
        """End every span and record every call; calls that never ran get the time of their refusal."""
        failed: Exception | None = None
        for state in states:
            try:
                self._close(state)
            except Exception as error:  # noqa: BLE001  an error in one call must not lose the spans of the others
                failed = error
        if failed is not None:
            raise failed

    def _close(self, state: CallState) -> None:
        seen = self._calls.get(state)
        if seen is None:
            seen = self._start_call(state, state.started)
            seen.ended = state.started + state.duration_ms / 1000
        ended = seen.ended or perf_counter()
        try:
            if self._instruments is not None:
                self._instruments.record(state, seconds=ended - seen.began, arguments_bytes=seen.arguments_bytes)
            if seen.span is not None and seen.span.is_recording():
                self._describe(seen.span, state, seen)
        finally:
            if seen.span is not None:
                seen.span.end(self._zero_ns + _nanoseconds(ended))

    def _start_call(self, state: CallState, began: float) -> _CallTelemetry:
        seen = _CallTelemetry(began, attributes.measure_arguments(state))
        if self._tracer is not None:
            seen.span = self._tracer.start_span(
                attributes.build_span_name(state),
                context=self._parent,
                kind=SpanKind.INTERNAL,
                attributes=attributes.start_attributes(state, seen.arguments_bytes),
                start_time=self._zero_ns + _nanoseconds(began),
            )
            if self._max_content_chars is not None and seen.span.is_recording():
                seen.contents = attributes.capture_contents(state)
        return seen

    def _describe(self, span: Span, state: CallState, seen: _CallTelemetry) -> None:
        span.set_attributes(attributes.end_attributes(state))
        if seen.contents is not None and self._max_content_chars is not None:
            span.set_attributes(seen.contents.attributes(state, self._max_content_chars))
        if not attributes.get_result(state).ok:
            # Without a description: an error's text may contain arguments.
            span.set_status(Status(StatusCode.ERROR))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


_MAX_CLASS_NAME = 100


class TurnInstruments:
    """The instruments of one meter for turns."""

    def __init__(self, meter: Meter) -> None:
        self.duration = meter.create_histogram(
            attributes.AGENT_DURATION,
            unit="s",
            description="The end-to-end duration of a single agent invocation.",
            explicit_bucket_boundaries_advisory=attributes.AGENT_DURATION_BUCKETS,
        )


Key: TypeAlias = tuple[str, str | None, int | None]
"""Turn id, dispatch id and iteration number."""


@dataclass(frozen=True, slots=True, eq=False)
class _OpenSpan:
    span: Span
    context: Context
    token: Token[Context]


class TurnSpans:
    """The spans of turns, dispatches and iterations; each is current in the task that emits its events."""

    def __init__(
        self,
        agent_name: str | None,
        provider_name: str | None,
        tracers: TracerProvider | None,
        meters: MeterProvider | None,
    ) -> None:
        self._providers = ActiveProviders(tracers, meters, TurnInstruments)
        self._agent: Attributes = {} if agent_name is None else {attributes.AGENT_NAME: agent_name}
        self._facts: Attributes = {attributes.OPERATION_NAME: attributes.INVOKE_AGENT} | self._agent
        if provider_name is not None:
            self._facts[attributes.PROVIDER_NAME] = provider_name
        self._name = attributes.INVOKE_AGENT if agent_name is None else f"{attributes.INVOKE_AGENT} {agent_name}"
        self._open: dict[str, dict[Key, _OpenSpan]] = {}

    def turn_started(self, event: TurnStart) -> None:
        """Start a turn's span."""
        self._start((event.turn_id, None, None), self._name, self._facts | {attributes.TURN_ID: event.turn_id})

    def dispatch_started(self, event: DispatchStart) -> None:
        """Start a dispatch's span."""
        facts: Attributes = {attributes.TURN_ID: event.turn_id, attributes.DISPATCH_ID: event.dispatch_id}
        self._start((event.turn_id, event.dispatch_id, None), attributes.DISPATCH, facts)

    def iteration_started(self, event: IterationStart) -> None:
        """Start an iteration's span."""
        facts: Attributes = {attributes.TURN_ID: event.turn_id, attributes.ITERATION_NUMBER: event.iteration}
        self._start((event.turn_id, event.dispatch_id, event.iteration), attributes.ITERATION, facts)

    def turn_ended(self, event: TurnEnd) -> None:
        """End a turn's span, and all spans still open inside."""
        failed = _failure(event.error)
        self._end((event.turn_id, None, None), {attributes.TURN_STATUS: event.status}, failed)
        instruments = self._providers.instruments if self._providers.is_active() else None
        if instruments is not None:
            facts = self._agent if failed is None else self._agent | {attributes.ERROR_TYPE: failed}
            instruments.duration.record(event.duration_ms / 1000, facts)

    def dispatch_ended(self, event: DispatchEnd) -> None:
        """End a dispatch's span, and that of a failed iteration."""
        facts: Attributes = {attributes.TURN_STATUS: event.status, attributes.ITERATIONS: event.iterations}
        self._end((event.turn_id, event.dispatch_id, None), facts, _failure(event.error))

    def iteration_ended(self, event: IterationEnd) -> None:
        """End an iteration's span."""
        self._end((event.turn_id, event.dispatch_id, event.iteration), {}, None)

    def _start(self, key: Key, name: str, facts: Attributes) -> None:
        tracer = self._providers.tracer if self._providers.is_active() else None
        if tracer is None:
            return
        span = tracer.start_span(name, kind=SpanKind.INTERNAL, attributes=facts)
        context = set_span_in_context(span)
        self._open.setdefault(key[0], {})[key] = _OpenSpan(span, context, attach(context))

    def _end(self, key: Key, facts: Attributes, failed: str | None) -> None:
        of_turn = self._open.get(key[0])
        if of_turn is None:
            return
        closing = [of_turn.pop(one) for one in reversed(tuple(of_turn)) if _is_inside(one, key)]
        if not of_turn:
            del self._open[key[0]]
        if not closing:
            return
        closing[-1].span.set_attributes(facts)
        _restore_context(closing)
        for each in closing:
            if failed is not None:
                each.span.set_attribute(attributes.ERROR_TYPE, failed)
                each.span.set_status(Status(StatusCode.ERROR))
            each.span.end()


def _is_inside(key: Key, outer: Key) -> bool:
    return all(part is None or part == own for own, part in zip(key, outer, strict=True))


def _restore_context(closing: list[_OpenSpan]) -> None:
    """Restore the context before the outermost span, unless the event comes from another task."""
    current = get_current()
    if any(each.context is current for each in closing):
        detach(closing[-1].token)


def _failure(error: BaseException | None) -> str | None:
    """Return the code or class name of an error; never its message, which may contain anything."""
    if error is None:
        return None
    return error.code if isinstance(error, SpindleError) else truncate(type(error).__qualname__, _MAX_CLASS_NAME)
