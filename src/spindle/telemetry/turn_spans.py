"""The spans of turns that are under way; imported only where OpenTelemetry is installed."""

from contextvars import Token
from dataclasses import dataclass
from typing import TypeAlias

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.metrics import Meter, MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, set_span_in_context

from spindle.errors import SpindleError
from spindle.events import DispatchEnd, DispatchStart, IterationEnd, IterationStart, TurnEnd, TurnStart
from spindle.telemetry import names
from spindle.telemetry.facts import Attributes, shortened
from spindle.telemetry.providers import Listeners

_MAX_CLASS_NAME = 100


class TurnInstruments:
    """What is measured of turns."""

    def __init__(self, meter: Meter) -> None:
        self.duration = meter.create_histogram(
            names.AGENT_DURATION,
            unit="s",
            description="The end-to-end duration of a single agent invocation.",
            explicit_bucket_boundaries_advisory=names.AGENT_DURATION_BUCKETS,
        )


Key: TypeAlias = tuple[str, str | None, int | None]
"""A turn, a dispatch of it, an iteration of that."""


@dataclass(frozen=True, slots=True, eq=False)
class _Open:
    span: Span
    context: Context
    token: Token[Context]


class TurnSpans:
    """Opens a span when something starts, makes it current in the task that tells, and ends it in that task."""

    def __init__(
        self,
        agent_name: str | None,
        provider_name: str | None,
        tracers: TracerProvider | None,
        meters: MeterProvider | None,
    ) -> None:
        self._listeners = Listeners(tracers, meters, TurnInstruments)
        self._agent: Attributes = {} if agent_name is None else {names.AGENT_NAME: agent_name}
        self._facts: Attributes = {names.OPERATION_NAME: names.INVOKE_AGENT} | self._agent
        if provider_name is not None:
            self._facts[names.PROVIDER_NAME] = provider_name
        self._name = names.INVOKE_AGENT if agent_name is None else f"{names.INVOKE_AGENT} {agent_name}"
        self._open: dict[str, dict[Key, _Open]] = {}

    def turn_started(self, event: TurnStart) -> None:
        """Open a turn's span."""
        self._start((event.turn_id, None, None), self._name, self._facts | {names.TURN_ID: event.turn_id})

    def dispatch_started(self, event: DispatchStart) -> None:
        """Open a dispatch's span."""
        facts: Attributes = {names.TURN_ID: event.turn_id, names.DISPATCH_ID: event.dispatch_id}
        self._start((event.turn_id, event.dispatch_id, None), names.DISPATCH, facts)

    def iteration_started(self, event: IterationStart) -> None:
        """Open an iteration's span."""
        facts: Attributes = {names.TURN_ID: event.turn_id, names.ITERATION_NUMBER: event.iteration}
        self._start((event.turn_id, event.dispatch_id, event.iteration), names.ITERATION, facts)

    def turn_ended(self, event: TurnEnd) -> None:
        """End a turn's span, and whatever is left open inside."""
        failed = _failure(event.error)
        self._end((event.turn_id, None, None), {names.TURN_STATUS: event.status}, failed)
        instruments = self._listeners.instruments if self._listeners.are_there() else None
        if instruments is not None:
            facts = self._agent if failed is None else self._agent | {names.ERROR_TYPE: failed}
            instruments.duration.record(event.duration_ms / 1000, facts)

    def dispatch_ended(self, event: DispatchEnd) -> None:
        """End a dispatch's span, and that of an iteration that failed."""
        facts: Attributes = {names.TURN_STATUS: event.status, names.ITERATIONS: event.iterations}
        self._end((event.turn_id, event.dispatch_id, None), facts, _failure(event.error))

    def iteration_ended(self, event: IterationEnd) -> None:
        """End an iteration's span."""
        self._end((event.turn_id, event.dispatch_id, event.iteration), {}, None)

    def _start(self, key: Key, name: str, facts: Attributes) -> None:
        tracer = self._listeners.tracer if self._listeners.are_there() else None
        if tracer is None:
            return
        span = tracer.start_span(name, kind=SpanKind.INTERNAL, attributes=facts)
        context = set_span_in_context(span)
        self._open.setdefault(key[0], {})[key] = _Open(span, context, attach(context))

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
        _leave(closing)
        for each in closing:
            if failed is not None:
                each.span.set_attribute(names.ERROR_TYPE, failed)
                each.span.set_status(Status(StatusCode.ERROR))
            each.span.end()


def _is_inside(key: Key, outer: Key) -> bool:
    return all(part is None or part == own for own, part in zip(key, outer, strict=True))


def _leave(closing: list[_Open]) -> None:
    """Make current what was before the outermost; unless another task tells, whose context we never changed."""
    current = get_current()
    if any(each.context is current for each in closing):
        detach(closing[-1].token)


def _failure(error: BaseException | None) -> str | None:
    """Name a failure by our code, or by its class; never by its message, which may hold anything."""
    if error is None:
        return None
    return error.code if isinstance(error, SpindleError) else shortened(type(error).__qualname__, _MAX_CLASS_NAME)
