"""What happens to the calls of a batch, recorded for the journal: instants, waits and events.

Instants are read from the clock of the event loop and written as whole microseconds since the start of the batch, in a
line of text: every call with a journal comes here, and an object of numbers takes ten times as long to encode.
`call_timing.py` reads it back. Nothing here refers to a call or a batch, which refer to it, so that a call leaves no
reference cycle behind.
"""

import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from secrets import token_hex
from typing import Any, Final, Literal, TypeAlias

from spindle.json_types import JsonObject, JsonValue
from spindle.text import shorten

WaitKind: TypeAlias = Literal["approval", "journal", "locks", "media", "reconcile", "retry", "slot"]
"""For a person; for its own intent to be written; for resources; for its media to be spooled; for the tool to say what
became of an interrupted call; for the next attempt; for a slot of the executor."""

GRAIN_SECONDS: Final = 0.0001
"""Shorter parts are not recorded separately: each instant costs a call a part of a microsecond."""
MAX_WAITS: Final = 16
MAX_RESOURCES: Final = 4
MAX_RESOURCE_CHARS: Final = 100
FIRST_EVENTS: Final = 10
LAST_EVENTS: Final = 10
"""Of a call that emits more, the first and the last events are kept."""
MAX_EVENT_CHARS: Final = 300
MAX_KEPT_CHARS: Final = 1 << 14
"""Of a longer text only the length is kept: it is redacted whole, before it is shortened, when the call has ended."""
MAX_DETAIL_CHARS: Final = 20

_Wait: TypeAlias = tuple[WaitKind, float, float, Sequence[str]]
_Event: TypeAlias = tuple[str, str, object, float]
_Redact: TypeAlias = Callable[[str], str]

_numbers = count(1)
_process = token_hex(4)


def _renew_process() -> None:
    global _process  # noqa: PLW0603  a forked process must not repeat the ids of its parent
    _process = token_hex(4)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_process)


class BatchTrace:
    """The instants that all calls of a batch share."""

    __slots__ = ("_facts", "began", "clock", "fitting", "intents", "limit", "share", "shared", "written")

    def __init__(self, calls: int, clock: Callable[[], float], deadline: float, *, is_asyncio: bool) -> None:
        self.clock = clock if is_asyncio else _find_trio_clock(clock)
        """The clock of the event loop, readable in any thread."""
        self.began = self.clock()
        self.intents: tuple[float, float] | None = None
        """When the intents of those calls were written that no check or person could still refuse."""
        self.fitting: tuple[float, float] | None = None
        """When the results were reduced and fitted into the budget."""
        self._facts = f"batch={_process}-{next(_numbers):x} calls={calls}"
        if deadline != math.inf:
            self._facts += f" batch_deadline={self.at(deadline)}"
        self.written = self.limit = -1.0
        self.share: int | None = None
        self.shared = ""
        """The last answer of `format`, and what it was given."""

    def end_admission(self) -> None:
        """Record that all calls were admitted or refused."""
        self._facts += f" admitted={self.at(self.clock())}"

    def format(self, now: float, share: int | None, time_limit: float) -> str:
        """Return what the timings of calls whose outcomes are written now have in common.

        That is also the share and the time limit, from when a task takes a call to its deadline: most calls of a batch
        have the same ones.
        """
        if now != self.written or share != self.share or abs(time_limit - self.limit) >= GRAIN_SECONDS:
            self.written, self.share, self.limit = now, share, time_limit
            self.shared = f"{self._facts}{'' if share is None else f' share={share}'}"
            if 0 <= time_limit < math.inf:
                self.shared += f" limit={int(time_limit * 1e6)}"
            for name, span in (("intent", self.intents), ("fit", self.fitting)):
                if span is not None:
                    self.shared += f" {name}={self.at(span[0])}..{self.at(span[1])}"
            self.shared += f" written={self.at(now)}"
        return self.shared

    def at(self, instant: float) -> int:
        """Return an instant of the clock as microseconds since the start of the batch."""
        return int((instant - self.began) * 1e6)


class CallTrace:
    """What happened to one call; an instant is below 0 until it is known."""

    __slots__ = ("_waits", "answered", "batch", "began", "ended", "events", "position", "started")

    def __init__(self, batch: BatchTrace, position: int) -> None:
        self.batch = batch
        self.position = position
        self.began = self.started = self.ended = self.answered = -1.0
        """When a task took the call, its handler was first started and last ended, and its result was complete."""
        self.events: _Events | None = None
        self._waits: list[_Wait] | None = None

    def wait(self, kind: WaitKind, began: float, ended: float, names: Sequence[str] = ()) -> None:
        """Record that the call waited."""
        if self._waits is None:
            self._waits = []
        if len(self._waits) < MAX_WAITS:
            self._waits.append((kind, began, ended, names))

    def record(self, kind: str, text: object, detail: object = None, *, seconds_ago: float = 0.0) -> None:
        """Keep an event of the call; safe to use from any thread."""
        if self.events is None:
            self.events = _Events()
        self.events.add((kind, to_event_text(text), detail, self.batch.clock() - seconds_ago))

    def write(self, content: JsonObject, now: float, share: int | None, deadline: float) -> bool:
        """Add what was recorded to the outcome of the call, which is written now; return whether `write_rest` must."""
        batch, began, ended = self.batch, self.began, self.ended
        base = batch.began
        # In one step, because most calls come here; a limit that is infinite, or of a call that no task took, is not
        # written.
        if ended >= 0 and deadline >= began:
            limit = deadline - began
            is_same = (
                now == batch.written and share == batch.share and -GRAIN_SECONDS < limit - batch.limit < GRAIN_SECONDS
            )
            shared = batch.shared if is_same else batch.format(now, share, limit)
            text = (
                f"{shared} position={self.position} began={int((began - base) * 1e6)} ended={int((ended - base) * 1e6)}"
            )
        else:
            text = f"{batch.format(now, share, -1.0)} position={self.position}{self._format_known(deadline)}"
        if self.started - began > GRAIN_SECONDS:
            text += f" started={int((self.started - base) * 1e6)}"
        if self.answered - ended > GRAIN_SECONDS:
            text += f" answered={int((self.answered - base) * 1e6)}"
        content["timing"] = text
        return self._waits is not None or self.events is not None

    def _format_known(self, deadline: float) -> str:
        """Return what is known of a call that was refused or did not run, or whose deadline was before its start."""
        known = {"began": self.began, "ended": self.ended, "deadline": deadline}
        return "".join(f" {name}={self.batch.at(at)}" for name, at in known.items() if 0 <= at < math.inf)

    def write_rest(self, content: JsonObject, redact: _Redact) -> None:
        """Add waits and events, which few calls have."""
        if self._waits is not None:
            content["waits"] = [_serialize_wait(self.batch, redact, each) for each in self._waits]
        if self.events is not None:
            content["events"] = [_serialize_event(self.batch, redact, each) for each in self.events.list()]


def to_event_text(text: object) -> str:
    """Return what is kept of the text of an event; handlers may pass anything."""
    if not isinstance(text, str):
        return "" if text is None else f"({type(text).__name__})"
    return f"({len(text)} characters)" if len(text) > MAX_KEPT_CHARS else str.__str__(text)


class _Events:
    """The first and the last events of a call, and how many are missing between them."""

    __slots__ = ("_first", "_last", "_skipped")

    def __init__(self) -> None:
        self._first: list[_Event] = []
        self._last: deque[_Event] = deque(maxlen=LAST_EVENTS)
        self._skipped = 0

    def add(self, event: _Event) -> None:
        if len(self._first) < FIRST_EVENTS:
            self._first.append(event)
        else:
            self._skipped += len(self._last) == LAST_EVENTS
            self._last.append(event)

    def list(self) -> list[_Event]:
        last = self._last.copy()  # an abandoned thread may still emit
        if self._skipped:
            last[0] = "skipped", f"{self._skipped + 1} events were not kept", None, last[0][3]
        return [*self._first, *last]


def _serialize_wait(batch: BatchTrace, redact: _Redact, waited: _Wait) -> JsonObject:
    kind, began, ended, names = waited
    wait: JsonObject = {"kind": kind, "from": batch.at(began), "to": batch.at(ended)}
    if names:
        wait["names"] = [shorten(redact(name), MAX_RESOURCE_CHARS) for name in names[:MAX_RESOURCES]]
    return wait


def _serialize_event(batch: BatchTrace, redact: _Redact, event: _Event) -> JsonValue:
    kind, text, detail, instant = event
    if type(detail) in {int, float}:
        text = f"{detail:g} % {text}"
    elif isinstance(detail, str):
        detail = shorten(str.__str__(detail), MAX_DETAIL_CHARS)
        text = f"{detail}: {text}" if text else detail
    return {"kind": kind, "at": batch.at(instant), "text": shorten(redact(text), MAX_EVENT_CHARS)}


def find_clock(task: Any) -> Callable[[], float]:
    """Return the clock of the event loop of an asyncio task, which each call reads several times.

    The loops of asyncio read `time.monotonic` in a method of Python, which takes twice as long as the clock itself.
    """
    loop: Any = task.get_loop()
    base: Any = getattr(sys.modules.get("asyncio"), "BaseEventLoop", None)
    is_plain = base is not None and getattr(loop.time, "__func__", None) is base.time
    return time.monotonic if is_plain else loop.time


def _find_trio_clock(clock: Callable[[], float]) -> Callable[[], float]:
    """Return the clock of the running event loop as a function that works in every thread."""
    trio: Any = sys.modules.get("trio")
    return clock if trio is None else trio.lowlevel.current_clock().current_time
