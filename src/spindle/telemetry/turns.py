"""Turns, dispatches and iterations as spans, so that calls and trips to the model have a place in the trace."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from spindle.events import Observer
from spindle.extras import needs_extra

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


class Observable(Protocol):
    """What tells of turns: a `TurnRunner`, or `Events`."""

    def on(self, name: str, fn: Observer, /) -> Callable[[], None]:
        """Call `fn` with each event `name`; gives back the function that stops it."""
        ...


def trace_turns(
    source: Observable,
    *,
    agent_name: str | None = None,
    provider_name: str | None = None,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
) -> Callable[[], None]:
    """Make each turn of a runner an `invoke_agent` span, with its dispatch and its iterations inside; gives the stop.

    The spans are current while they last: what the executor callback and the tools trace by themselves is inside too.

    Raises:
        MissingExtraError: OpenTelemetry is not installed.
    """
    with needs_extra("telemetry"):
        from spindle.telemetry.turn_spans import TurnSpans  # noqa: PLC0415

        spans = TurnSpans(agent_name, provider_name, tracer_provider, meter_provider)
    observers: dict[str, Callable[[Any], None]] = {
        "turn_start": spans.turn_started,
        "turn_end": spans.turn_ended,
        "dispatch_start": spans.dispatch_started,
        "dispatch_end": spans.dispatch_ended,
        "iteration_start": spans.iteration_started,
        "iteration_end": spans.iteration_ended,
    }
    stops = [source.on(name, fn) for name, fn in observers.items()]

    def stop() -> None:
        for each in stops:
            each()

    return stop
