"""Sees every call of an executor, and tells OpenTelemetry; imported only where that is installed."""

from collections.abc import Sequence
from contextvars import Token
from dataclasses import dataclass
from time import perf_counter, time_ns
from typing import ClassVar

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider, set_span_in_context

from spindle.execution.job import Job
from spindle.execution.witnesses import Watch
from spindle.telemetry import facts
from spindle.telemetry.facts import Contents
from spindle.telemetry.metrics import Instruments
from spindle.telemetry.providers import Listeners
from spindle.tools.context import ToolContext


class Telemetry:
    """What `telemetry()` gives: stands among an executor's interceptors and sees every call."""

    is_telemetry: ClassVar = True
    """An executor that has been given one makes none of its own."""

    def __init__(
        self,
        *,
        max_content_chars: int | None,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
    ) -> None:
        self._max_content_chars = max_content_chars
        self._listeners = Listeners(tracer_provider, meter_provider, Instruments)

    def watch(self, context: ToolContext) -> Watch | None:  # noqa: ARG002
        """Watch one batch, if an SDK has been set up."""
        listeners = self._listeners
        if not listeners.are_there():
            return None
        return _Watch(listeners.tracer, listeners.instruments, self._max_content_chars)


@dataclass(slots=True, eq=False)
class _Seen:
    """One call on its way."""

    began: float
    arguments_bytes: int | None
    ended: float | None = None
    span: Span | None = None
    token: Token[Context] | None = None
    contents: Contents | None = None


class _Watch:
    """The spans of one batch: children of what was current when it was handed over, current while their call runs.

    A span is ended with the time its call took, but not before the batch is over: only then is it known what of its
    result is shown.
    """

    def __init__(self, tracer: Tracer | None, instruments: Instruments | None, max_content_chars: int | None) -> None:
        self._tracer = tracer
        self._instruments = instruments
        self._max_content_chars = max_content_chars
        self._parent = get_current()
        # Durations by the clock that never jumps, placed where the batch began on the one everybody reads.
        self._zero_ns = time_ns() - _nanoseconds(perf_counter())
        self._seen: dict[Job, _Seen] = {}

    def begin(self, job: Job) -> None:
        """Open a span and make it current."""
        seen = self._seen[job] = self._opened(job, perf_counter())
        if seen.span is not None:
            seen.token = attach(set_span_in_context(seen.span, self._parent))

    def end(self, job: Job) -> None:
        """Take down when the call ended, and make current what was before."""
        seen = self._seen.get(job)
        if seen is None:
            return
        seen.ended = perf_counter()
        if seen.token is not None:
            detach(seen.token)
            seen.token = None

    def close(self, jobs: Sequence[Job]) -> None:
        """End every span and count every call; those that never ran have the time their refusal took."""
        failed: Exception | None = None
        for job in jobs:
            try:
                self._close(job)
            except Exception as error:  # noqa: BLE001  one call's values must not cost its siblings their spans
                failed = error
        if failed is not None:
            raise failed

    def _close(self, job: Job) -> None:
        seen = self._seen.get(job)
        if seen is None:
            seen = self._opened(job, job.begun)
            seen.ended = job.begun + job.duration_ms / 1000
        ended = seen.ended or perf_counter()
        try:
            if self._instruments is not None:
                self._instruments.count(job, seconds=ended - seen.began, arguments_bytes=seen.arguments_bytes)
            if seen.span is not None and seen.span.is_recording():
                self._describe(seen.span, job, seen)
        finally:
            if seen.span is not None:
                seen.span.end(self._zero_ns + _nanoseconds(ended))

    def _opened(self, job: Job, began: float) -> _Seen:
        seen = _Seen(began, facts.arguments_bytes(job))
        if self._tracer is not None:
            seen.span = self._tracer.start_span(
                facts.span_name(job),
                context=self._parent,
                kind=SpanKind.INTERNAL,
                attributes=facts.opening(job, seen.arguments_bytes),
                start_time=self._zero_ns + _nanoseconds(began),
            )
            if self._max_content_chars is not None and seen.span.is_recording():
                seen.contents = facts.contents_of(job)
        return seen

    def _describe(self, span: Span, job: Job, seen: _Seen) -> None:
        span.set_attributes(facts.closing(job))
        if seen.contents is not None and self._max_content_chars is not None:
            span.set_attributes(seen.contents.attributes(job, self._max_content_chars))
        if not facts.result_of(job).ok:
            # Without words: an error's text may hold what a tool was given.
            span.set_status(Status(StatusCode.ERROR))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
