"""Tells OpenTelemetry of every call, once the program has set up an SDK; until then it costs next to nothing.

An executor does so by itself; `Executor(registry, interceptors=[telemetry(…)])` is for own providers, or for contents.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from spindle.errors import UsageError
from spindle.events import Observer
from spindle.extras import needs_extra

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from spindle.telemetry.instruments import Telemetry

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


def telemetry(
    *,
    contents: bool = False,
    max_content_chars: int = 4_096,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
) -> "Telemetry":
    """Make an executor's calls spans and metrics; put it among its `interceptors`.

    Every call has a span, those too that were refused before anything ran. Arguments and results are told only with
    `contents=True`: masked by the tool's `secret_fields`, and shortened. Without providers the global ones are used,
    also when they are set up later.

    Raises:
        MissingExtraError: OpenTelemetry is not installed.
        UsageError: `max_content_chars` is less than 1.
    """
    if max_content_chars < 1:
        raise UsageError(f"max_content_chars must be at least 1, got {max_content_chars}", field="max_content_chars")
    with needs_extra("telemetry"):
        from spindle.telemetry.instruments import Telemetry  # noqa: PLC0415

        return Telemetry(
            max_content_chars=max_content_chars if contents else None,
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
        )


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
        from spindle.telemetry.instruments import TurnSpans  # noqa: PLC0415

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
