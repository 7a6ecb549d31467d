"""Metrics: duration, outcome and size of calls, truncated results, and abandoned threads."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from weakref import ref

from spindle.execution.call_state import CallState
from spindle.execution.executor import Executor
from spindle.extras import needs_extra
from spindle.telemetry import attributes

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation


class CallInstruments:
    """The instruments of one meter for tool calls."""

    def __init__(self, meter: "Meter") -> None:
        self._duration = meter.create_histogram(
            attributes.TOOL_DURATION,
            unit="s",
            description="The duration of a single tool execution.",
            explicit_bucket_boundaries_advisory=attributes.TOOL_DURATION_BUCKETS,
        )
        self._outcomes = meter.create_counter(attributes.OUTCOMES, unit="{call}", description="Calls by outcome.")
        self._in = meter.create_counter(attributes.BYTES_IN, unit="By", description="Bytes of arguments.")
        self._out = meter.create_counter(attributes.BYTES_OUT, unit="By", description="Bytes of full results.")
        self._trims = meter.create_counter(
            attributes.TRIMS, unit="{result}", description="Results truncated by the budget."
        )

    def record(self, state: CallState, *, seconds: float, arguments_bytes: int | None) -> None:
        """Record one finished call; calls to unknown tools share one name."""
        entry, code = state.entry, attributes.get_outcome_code(state)
        tool = {attributes.TOOL_NAME: attributes.OTHER if entry is None else entry.tool.name}
        kind = tool | {
            attributes.OPERATION_NAME: attributes.EXECUTE_TOOL,
            attributes.TOOL_TYPE: attributes.get_tool_type(state),
        }
        self._duration.record(seconds, kind if code == "ok" else kind | {attributes.ERROR_TYPE: code})
        self._outcomes.add(1, tool | {attributes.OUTCOME: code})
        if arguments_bytes:
            self._in.add(arguments_bytes, tool)
        if whole := attributes.measure_result(state):
            self._out.add(whole, tool)
        if state.is_truncated:
            self._trims.add(1, tool)


def observe_threads(executor: Executor, *, meter_provider: "MeterProvider | None" = None) -> None:
    """Register a gauge of the executor's abandoned threads; it does not keep the executor alive.

    Raises:
        MissingExtraError: OpenTelemetry is not installed.
    """
    with needs_extra("telemetry"):
        from opentelemetry import metrics  # noqa: PLC0415

    meter = (meter_provider or metrics.get_meter_provider()).get_meter(attributes.SCOPE)
    meter.create_observable_up_down_counter(
        attributes.ABANDONED_THREADS,
        callbacks=[_build_reader(ref(executor), metrics.Observation)],
        unit="{thread}",
        description="Threads that still run an abandoned call.",
    )


def _build_reader(
    executor: "ref[Executor]", observation: "type[Observation]"
) -> "Callable[[CallbackOptions], Iterable[Observation]]":
    def read(options: "CallbackOptions") -> "Iterable[Observation]":  # noqa: ARG001
        alive = executor()
        return [] if alive is None else [observation(alive.abandoned_threads)]

    return read
