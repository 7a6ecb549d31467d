"""A sink that keeps what observers are told, for tests to look at and to wait for."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import anyio

from spindle.errors import UnknownEventError, UsageError
from spindle.events import EVENT_NAMES, Events, Observer


@runtime_checkable
class Observable(Protocol):
    """What can be observed: `Events`, or a `TurnRunner`."""

    def on(self, name: str, fn: Observer, /) -> Callable[[], None]:
        """Call `fn` with each event `name`; gives back the function that stops it."""
        ...


@runtime_checkable
class HasEvents(Protocol):
    """A context: its calls and its turn tell what happens through its events."""

    @property
    def events(self) -> Events:
        """Whom it tells."""
        ...


@dataclass(frozen=True, slots=True)
class Told:
    """One event: its kind, and what came with it."""

    kind: str
    payload: Any


class RecordingSink:
    """Keeps every event of what it is attached to, in order: of `Events`, a `TurnRunner`, or a context.

    Raises:
        UsageError: Something given cannot be observed.
    """

    def __init__(self, *sources: Observable | HasEvents) -> None:
        self.told: list[Told] = []
        """Everything so far, oldest first."""
        self._waiting: set[anyio.Event] = set()
        for source in sources:
            self.attach(source)

    def attach(self, source: Observable | HasEvents) -> Callable[[], None]:
        """Keep the events of `source` too; gives back the function that stops it.

        Raises:
            UsageError: It cannot be observed.
        """
        observed = _observable(source)
        stops = [observed.on(kind, partial(self._keep, kind)) for kind in EVENT_NAMES]

        def stop() -> None:
            for each in stops:
                each()

        return stop

    def of(self, kind: str) -> list[Any]:
        """Give what came with the events of a kind so far, oldest first.

        Raises:
            UnknownEventError: No such event is ever told.
        """
        if kind not in EVENT_NAMES:  # or a slip of the pen would look like silence
            raise UnknownEventError(f"no event is called {kind!r}; they are: {', '.join(EVENT_NAMES)}", field="kind")
        return [told.payload for told in self.told if told.kind == kind]

    async def wait_for(self, kind: str, count: int = 1, timeout_seconds: float | None = 5) -> list[Any]:
        """Wait until `count` events of a kind were told, earlier ones included, and give what came with those first.

        Raises:
            UnknownEventError: No such event is ever told.
            UsageError: `count` is not a whole number above 0.
            TimeoutError: They did not come in time; it says what did.
        """
        if type(count) is not int or count < 1:
            raise UsageError(f"wait_for(count=…) takes a whole number above 0, got {count!r:.80}", field="count")
        with anyio.move_on_after(timeout_seconds):
            while len(self.of(kind)) < count:
                await self._next()
        found = self.of(kind)
        if len(found) < count:
            raise TimeoutError(self._missing(kind, count, len(found)))
        return found[:count]

    async def _next(self) -> None:
        more = anyio.Event()
        self._waiting.add(more)
        try:
            await more.wait()
        finally:
            self._waiting.discard(more)

    def _keep(self, kind: str, payload: Any) -> None:
        self.told.append(Told(kind, payload))
        for each in self._waiting:
            each.set()

    def _missing(self, kind: str, count: int, found: int) -> str:
        others = ", ".join(f"{times} of {each!r}" for each, times in Counter(told.kind for told in self.told).items())
        return f"{found} of {count} {kind!r} came in time; told so far: {others or 'nothing'}"


def _observable(source: object) -> Observable:
    if isinstance(source, Observable):
        return source
    if isinstance(source, HasEvents):
        return source.events
    message = f"expected Events, a TurnRunner or a context, got {type(source).__name__}; an Executor tells its context"
    raise UsageError(message, field="source")
