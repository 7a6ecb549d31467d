"""Tells OpenTelemetry of every call, once the program has set up an SDK; until then it costs next to nothing.

An executor does so by itself; `Executor(registry, interceptors=[telemetry(…)])` is for own providers, or for contents.
"""

from typing import TYPE_CHECKING

from spindle.errors import UsageError
from spindle.extras import needs_extra

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from spindle.telemetry.witness import Telemetry


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
        from spindle.telemetry.witness import Telemetry  # noqa: PLC0415

        return Telemetry(
            max_content_chars=max_content_chars if contents else None,
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
        )
