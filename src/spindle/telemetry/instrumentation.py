"""OpenTelemetry instrumentation of calls and turns; it has almost no cost until an SDK is set up.

An executor enables it by itself; use `Executor(registry, interceptors=[telemetry(…)])` to set providers or to export
contents.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spindle.errors import UsageError
from spindle.events import EventSource
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
    """Return an interceptor that exports an executor's calls as spans and metrics.

    Every call has a span, including calls that were refused. Arguments and results are exported only with
    `contents=True`: redacted by the tool's `secret_fields`, and truncated. Without providers the global ones are used,
    even if they are set up later.

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


def trace_turns(
    source: EventSource,
    *,
    agent_name: str | None = None,
    provider_name: str | None = None,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
) -> Callable[[], None]:
    """Export each turn as an `invoke_agent` span with its dispatch and iterations inside; return a function to stop.

    The spans are current while they are open, so spans of the executor callback and of tools become their children.

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
