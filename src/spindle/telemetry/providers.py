"""Whether anybody listens: the tracer and the meter of an SDK, or `None` where there is only the API."""

from collections.abc import Callable
from typing import Generic, TypeVar

from opentelemetry import metrics, trace
from opentelemetry.metrics import Meter, MeterProvider
from opentelemetry.trace import Tracer, TracerProvider

from spindle.telemetry import names

_API = ("opentelemetry.trace", "opentelemetry.metrics")

Provider = TypeVar("Provider")
Made = TypeVar("Made")


class Source(Generic[Provider, Made]):
    """What is made from a provider once, and anew when the program sets up another one."""

    __slots__ = ("_find", "_from", "_made", "_make")

    def __init__(self, find: Callable[[], Provider], make: Callable[[Provider], Made]) -> None:
        self._find = find
        self._make = make
        self._from: Provider | None = None
        self._made: Made | None = None

    def get(self) -> Made | None:
        """Give it, or `None` as long as there is only the API, whose own providers do nothing."""
        provider = self._find()
        if provider is not self._from:
            self._made = None if _does_nothing(provider) else self._make(provider)
            self._from = provider
        return self._made


def tracers(given: TracerProvider | None) -> Source[TracerProvider, Tracer]:
    """Give the source of our tracer: of this provider, or of the global one."""
    return Source(
        trace.get_tracer_provider if given is None else lambda: given,
        lambda provider: provider.get_tracer(names.SCOPE),
    )


def meters(given: MeterProvider | None, make: Callable[[Meter], Made]) -> Source[MeterProvider, Made]:
    """Give the source of what is made with our meter: of this provider, or of the global one."""
    return Source(
        metrics.get_meter_provider if given is None else lambda: given,
        lambda provider: make(provider.get_meter(names.SCOPE)),
    )


def _does_nothing(provider: object) -> bool:
    return type(provider).__module__.startswith(_API)
