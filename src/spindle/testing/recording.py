"""A sink that records events, for tests to inspect and wait for."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import anyio

from spindle.errors import UnknownEventError, UsageError
from spindle.events import EVENT_NAMES, Events, EventSource


@runtime_checkable
class HasEvents(Protocol):
    """A context, whose calls and turn emit to its events."""

    @property
    def events(self) -> Events:
        """The events that calls of this context emit to."""
        ...


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One recorded event: its kind and payload."""

    kind: str
    payload: Any


class RecordingSink:
    """A recorder of every event of its sources, in order; a source is an `Events`, a `TurnRunner` or a context.

    Raises:
        UsageError: A source cannot be observed.
    """

    def __init__(self, *sources: EventSource | HasEvents) -> None:
        self.recorded: list[RecordedEvent] = []
        """All recorded events, oldest first."""
        self._waiting: set[anyio.Event] = set()
        for source in sources:
            self.attach(source)

    def attach(self, source: EventSource | HasEvents) -> Callable[[], None]:
        """Record the events of `source` too; return a function that detaches it.

        Raises:
            UsageError: `source` cannot be observed.
        """
        observed = _to_event_source(source)
        stops = [observed.on(kind, partial(self._record, kind)) for kind in EVENT_NAMES]

        def stop() -> None:
            for each in stops:
                each()

        return stop

    def of(self, kind: str) -> list[Any]:
        """Return the payloads of the recorded events of a kind, oldest first.

        Raises:
            UnknownEventError: `kind` is not the name of an event.
        """
        if kind not in EVENT_NAMES:  # a misspelled name would look like no events
            raise UnknownEventError(f"unknown event {kind!r}; events are: {', '.join(EVENT_NAMES)}", field="kind")
        return [event.payload for event in self.recorded if event.kind == kind]

    async def wait_for(self, kind: str, count: int = 1, timeout_seconds: float | None = 5) -> list[Any]:
        """Wait until `count` events of a kind are recorded, earlier ones included; return the first `count` payloads.

        Raises:
            UnknownEventError: `kind` is not the name of an event.
            UsageError: `count` is not a positive integer.
            TimeoutError: Fewer events arrived in time; the message lists what was recorded.
        """
        if type(count) is not int or count < 1:
            raise UsageError(f"wait_for(count=…) expects a positive integer, got {count!r:.80}", field="count")
        with anyio.move_on_after(timeout_seconds):
            while len(self.of(kind)) < count:
                await self._next()
        found = self.of(kind)
        if len(found) < count:
            raise TimeoutError(self._describe_missing(kind, count, len(found)))
        return found[:count]

    async def _next(self) -> None:
        more = anyio.Event()
        self._waiting.add(more)
        try:
            await more.wait()
        finally:
            self._waiting.discard(more)

    def _record(self, kind: str, payload: object) -> None:
        self.recorded.append(RecordedEvent(kind, payload))
        for each in self._waiting:
            each.set()

    def _describe_missing(self, kind: str, count: int, found: int) -> str:
        others = ", ".join(
            f"{times} of {each!r}" for each, times in Counter(event.kind for event in self.recorded).items()
        )
        return f"only {found} of {count} {kind!r} events arrived in time; recorded so far: {others or 'nothing'}"


def _to_event_source(source: object) -> EventSource:
    if isinstance(source, EventSource):
        return source
    if isinstance(source, HasEvents):
        return source.events
    message = (
        f"expected Events, a TurnRunner or a context, got {type(source).__name__}; "
        "an Executor emits to the events of its context"
    )
    raise UsageError(message, field="source")
