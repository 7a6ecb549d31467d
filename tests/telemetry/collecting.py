"""What the tests of telemetry share: an SDK of their own that keeps everything in memory; never the global one."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData, ResourceMetrics
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spindle.telemetry.instrumentation import telemetry
from spindle.telemetry.instruments import Telemetry


class Collected:
    """An SDK and what it recorded."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])

    def telemetry(self, **settings: Any) -> Telemetry:
        return telemetry(tracer_provider=self.tracers, meter_provider=self.meters, **settings)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    @property
    def span(self) -> ReadableSpan:
        (one,) = self.spans
        return one

    def named(self, name: str) -> ReadableSpan:
        (one,) = [span for span in self.spans if span.name == name]
        return one

    def of_call(self, call_id: str) -> ReadableSpan:
        (one,) = [span for span in self.spans if attributes(span).get("gen_ai.tool.call.id") == call_id]
        return one

    def points(self, metric: str) -> list[Any]:
        data: MetricsData | None = self._reader.get_metrics_data()
        every: Sequence[ResourceMetrics] = () if data is None else data.resource_metrics
        found = [each for one in every for scope in one.scope_metrics for each in scope.metrics if each.name == metric]
        return [point for each in found for point in each.data.data_points]

    def counted(self, metric: str, *keys: str) -> dict[tuple[Any, ...], Any]:
        return {tuple(point.attributes.get(key) for key in keys): point.value for point in self.points(metric)}

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id
