"""The events of a running turn as an async generator: a buffer that never holds up the turn (`stream_turn`)."""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import anyio

from spindle.concurrency import BackgroundTask, ThreadsafeEvent, spawn_background
from spindle.events import EVENT_NAMES, Events, TextDelta, ToolCallDelta

_LEAVE_SECONDS = 5
"""How long a cancelled reader waits for a turn that does not let itself be cancelled."""


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """One event of a turn: its name and payload."""

    name: str
    payload: Any


@dataclass(slots=True)
class _Text:
    """The text of one message or thought so far, shared by its buffered deltas."""

    full: str = ""


@dataclass(slots=True)
class _BufferedText:
    """A buffered delta: a part of a text by position, because a copy of the text in each would grow quadratically."""

    name: str
    payload: TextDelta
    text: _Text
    start: int
    end: int

    def to_event(self) -> StreamedEvent:
        full = self.text.full[: self.end]
        return StreamedEvent(self.name, replace(self.payload, delta=full[self.start :], full=full))


class EventBuffer:
    """The events that the reader has not taken yet, in order; any thread may add one.

    While the reader is slow, deltas of one message or thought that follow each other are merged, and of the argument
    text of a call only the newest is kept; no other event is dropped. So the size is bounded by the number of events
    and the length of the texts.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._events: deque[StreamedEvent | _BufferedText | None] = deque()
        """`None` in the place of the argument text of a call that a newer one replaced."""
        self._places: dict[tuple[str, str], int] = {}
        """Positions of the text deltas since the last other event."""
        self._calls: dict[str, int] = {}
        """Positions of the newest argument texts of calls."""
        self._texts: dict[tuple[str, str], _Text] = {}
        self._taken = 0
        self._is_closed = False
        self._changed = ThreadsafeEvent()

    def put(self, name: str, payload: object) -> None:
        """Add an event; never waits."""
        with self._lock:
            if isinstance(payload, TextDelta):
                self._put_text(name, payload)
            elif isinstance(payload, ToolCallDelta) and _is_partial(payload):
                self._put_call(name, payload)
            else:
                self._places.clear()
                self._events.append(StreamedEvent(name, payload))
        self._changed.set()

    def _put_text(self, name: str, payload: TextDelta) -> None:
        key, end = (name, payload.id), len(payload.full)
        start, text = end - len(payload.delta), self._texts.get(key)
        if text is None or len(text.full) != start:  # an id that is used again starts a new text
            text = self._texts[key] = _Text()
            self._places.pop(key, None)
        text.full = payload.full
        place = self._places.get(key, -1) - self._taken
        waiting = self._events[place] if place >= 0 else None
        stripped = replace(payload, delta="", full="")
        if isinstance(waiting, _BufferedText):
            waiting.payload, waiting.end = stripped, end
        else:
            self._places[key] = self._taken + len(self._events)
            self._events.append(_BufferedText(name, stripped, text, start, end))
        if payload.is_complete:
            del self._texts[key]

    def _put_call(self, name: str, payload: ToolCallDelta) -> None:
        key, event = (name, payload.id), StreamedEvent(name, payload)
        place = self._places.get(key, -1) - self._taken
        if place >= 0:
            self._events[place] = event
            return
        former = self._calls.get(payload.id, -1) - self._taken
        if former >= 0:
            self._events[former] = None
        self._places[key] = self._calls[payload.id] = self._taken + len(self._events)
        self._events.append(event)

    def close(self) -> None:
        """End the iteration once the buffered events were taken."""
        self._is_closed = True
        self._changed.set()

    async def take(self) -> StreamedEvent | None:
        """Wait for the next event and remove it; `None` after the last one."""
        while True:
            changed = self._changed = ThreadsafeEvent()
            is_closed = self._is_closed  # read first: an event put before the end is still taken
            event = self._pop()
            if event is not None or is_closed:
                return event
            await changed.wait()

    def _pop(self) -> StreamedEvent | None:
        with self._lock:
            while self._events:
                event = self._events.popleft()
                self._taken += 1
                if event is not None:
                    return event.to_event() if isinstance(event, _BufferedText) else event
        return None


def _is_partial(payload: ToolCallDelta) -> bool:
    return isinstance(payload.args, str) and payload.results is None and not payload.is_complete


def forward_events(buffer: EventBuffer, to: Events) -> Events:
    """Create the events of one streamed turn: each goes into the buffer at once, and to the observers of `to`."""
    events = Events()
    for name in EVENT_NAMES:
        events.on(name, partial(_forward, name, buffer, to))
    return events


def _forward(name: str, buffer: EventBuffer, to: Events, payload: object) -> Awaitable[None] | None:
    buffer.put(name, payload)
    if not to.has_observer(name):
        return None
    to.notify(name, payload)
    return to.flush() if to.is_delivering else None


async def stream_turn(
    run: Callable[[], Awaitable[object]], buffer: EventBuffer, abort: Callable[[], None]
) -> AsyncGenerator[StreamedEvent, None]:
    """Run a turn in the background and yield its events; the last one, `report`, has the value `run` returned.

    Leaving the generator aborts the turn and waits for its end.
    """

    has_ended = False

    async def body() -> None:
        nonlocal has_ended
        try:
            report = await run()
            has_ended = True
            buffer.put("report", report)
        finally:
            buffer.close()

    task = spawn_background(body, name="spindle-turn")
    try:
        while (event := await buffer.take()) is not None:
            yield event
    finally:
        if not has_ended and not task.is_done:
            abort()
            await _wait_for_end(task)
    if task.error is not None:
        raise task.error


async def _wait_for_end(task: BackgroundTask) -> None:
    """Wait for the end of an aborted turn; a reader that is being cancelled cancels it, as it would cancel `run`."""
    try:
        await task.wait()
    except anyio.get_cancelled_exc_class():
        task.cancel()
        with anyio.move_on_after(_LEAVE_SECONDS, shield=True):
            await task.wait()
        raise
