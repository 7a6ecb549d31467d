"""Metrics in the text format of Prometheus: calls of an executor, and numbers that a page collects when it is read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from spindle.execution.call_state import AdmittedCall, CallState
from spindle.execution.interceptors import BatchObserver
from spindle.extras import needs_extra
from spindle.telemetry import attributes
from spindle.text import to_printable
from spindle.tools.context import ToolContext

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MAX_TOOLS: Final = 500
"""An upstream server chooses the names of its tools: beyond this many, further ones share one label."""
_MAX_NAME: Final = 128
_PURPOSE: Final = "/metrics"


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """One metric and its values."""

    name: str
    """Without `_total`, which a counter gets."""
    help: str
    kind: Literal["gauge", "counter"] = "gauge"
    values: Sequence[tuple[Mapping[str, str], float]] = ()
    """The labels of each value; every value has the same label names."""


class CallMetrics:
    """An interceptor that counts an executor's calls by tool and outcome, and measures their durations.

    Raises:
        MissingExtraError: prometheus-client is not installed.
    """

    def __init__(self) -> None:
        with needs_extra("metrics", purpose=_PURPOSE):
            from prometheus_client import CollectorRegistry, Counter, Histogram  # noqa: PLC0415

        self.registry: CollectorRegistry = CollectorRegistry()
        self._calls = Counter(
            "spindle_tool_calls", "Calls by tool and outcome.", ("tool", "code"), registry=self.registry
        )
        self._seconds = Histogram(
            "spindle_tool_duration_seconds",
            "Duration of calls that were run.",
            ("tool",),
            buckets=attributes.TOOL_DURATION_BUCKETS,
            registry=self.registry,
        )
        self._trims = Counter("spindle_tool_results_truncated", "Results cut by the budget.", registry=self.registry)
        self._bytes = Counter(
            "spindle_tool_result_bytes", "Bytes of full results, where known.", registry=self.registry
        )
        self._tools: set[str] = set()

    def watch(self, context: ToolContext) -> BatchObserver:  # noqa: ARG002  every batch is counted
        """Return the observer of one batch."""
        return self

    def begin(self, state: AdmittedCall) -> None:
        """Do nothing: calls are counted when their batch ends."""

    def end(self, state: AdmittedCall) -> None:
        """Do nothing: calls are counted when their batch ends."""

    def close(self, states: Sequence[CallState]) -> None:
        """Count the calls of a batch, including refused ones."""
        for state in states:
            tool = self._get_label(state)
            self._calls.labels(tool, attributes.get_outcome_code(state)).inc()
            if isinstance(state, AdmittedCall):
                self._seconds.labels(tool).observe(state.duration_ms / 1000)
            if state.is_truncated:
                self._trims.inc()
            if size := attributes.measure_result(state):
                self._bytes.inc(size)

    def _get_label(self, state: CallState) -> str:
        if state.entry is None:  # a client could invent any number of names
            return attributes.OTHER
        name = to_printable(state.entry.tool.name, _MAX_NAME)
        if name not in self._tools:
            if len(self._tools) >= MAX_TOOLS:
                return attributes.OTHER
            self._tools.add(name)
        return name


def render_metrics(families: Iterable[Family], calls: CallMetrics | None = None) -> bytes:
    """Return the page: the given families and, if there are any, the metrics of calls.

    Raises:
        MissingExtraError: prometheus-client is not installed.
    """
    with needs_extra("metrics", purpose=_PURPOSE):
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry() if calls is None else calls.registry
    listed = _Families(tuple(families))
    registry.register(listed)
    try:
        return generate_latest(registry)
    finally:
        registry.unregister(listed)


@dataclass(frozen=True, eq=False)  # the registry hashes it
class _Families:
    """A collector of families, as prometheus-client calls it."""

    families: tuple[Family, ...]

    def describe(self) -> "list[Metric]":
        """Return nothing: the names need not be checked against others."""
        return []

    def collect(self) -> "Iterator[Metric]":
        """Yield the families."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - an extra

        for family in self.families:
            names = tuple(family.values[0][0]) if family.values else ()
            make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = make(family.name, family.help, labels=names)
            for labels, value in family.values:
                metric.add_metric([to_printable(labels[name], _MAX_NAME) for name in names], value)
            yield cast("Metric", metric)
