"""Whether anybody listens: our tracer and our instruments, or `None` as long as no SDK is set up."""

from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from opentelemetry import metrics, trace
from opentelemetry.metrics import Meter, MeterProvider
from opentelemetry.trace import Tracer, TracerProvider

from spindle.telemetry import names

ASK_AGAIN_SECONDS = 0.1
"""While nobody listens, the global providers are asked for only so often: it takes longer than all else here."""

_API = (trace.__name__, metrics.__name__)


Instruments = TypeVar("Instruments")


class Listeners(Generic[Instruments]):
    """Who is told: the providers given, or the global ones as soon as the program sets them up."""

    __slots__ = ("_ask_at", "_make", "_wants_instruments", "_wants_tracer", "instruments", "tracer")

    def __init__(
        self, tracers: TracerProvider | None, meters: MeterProvider | None, make: Callable[[Meter], Instruments]
    ) -> None:
        self._make = make
        self.tracer = None if tracers is None else _tracer_of(tracers)
        self.instruments = None if meters is None else self._instruments_of(meters)
        self._wants_tracer = tracers is None
        self._wants_instruments = meters is None
        self._ask_at = 0.0

    def are_there(self) -> bool:
        """Whether there is anybody; looks again from time to time."""
        if (self._wants_tracer or self._wants_instruments) and (now := monotonic()) >= self._ask_at:
            self._ask_at = now + ASK_AGAIN_SECONDS
            self._look()
        return self.tracer is not None or self.instruments is not None

    def _look(self) -> None:
        """Take the global ones; they are set at most once in the life of a program."""
        if self._wants_tracer:
            self.tracer = _tracer_of(trace.get_tracer_provider())
            self._wants_tracer = self.tracer is None
        if self._wants_instruments:
            self.instruments = self._instruments_of(metrics.get_meter_provider())
            self._wants_instruments = self.instruments is None

    def _instruments_of(self, provider: MeterProvider) -> Instruments | None:
        return self._make(provider.get_meter(names.SCOPE)) if _listens(provider) else None


def _tracer_of(provider: TracerProvider) -> Tracer | None:
    return provider.get_tracer(names.SCOPE) if _listens(provider) else None


def _listens(provider: object) -> bool:
    """Whether it is more than one of those that come with the API, which do nothing."""
    return not type(provider).__module__.startswith(_API)
