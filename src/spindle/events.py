"""What observers are told, and how; observers cannot change anything."""

import difflib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

import anyio

from spindle.errors import UnknownEventError, UsageError

Observer: TypeAlias = Callable[[Any], Awaitable[object] | object]
Audience: TypeAlias = Literal["internal", "user", "dashboard"]

EVENT_NAMES = (
    "turn_start",
    "turn_end",
    "dispatch_start",
    "dispatch_end",
    "iteration_start",
    "iteration_end",
    "tool_execution_start",
    "tool_execution_end",
    "tool_progress",
    "turn_gate_open",
    "turn_gate_closed",
    "message",
    "thought",
    "tool_call",
    "log",
    "warning",
    "error",
)

_log = logging.getLogger("spindle")
_LAST_WORDS_SECONDS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolExecutionStart:
    """A handler is about to run."""

    tool_name: str
    turn_id: str | None
    tool_call_id: str | None
    checksum: str
    args: Any
    """After validation."""
    started_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolExecutionEnd:
    """A handler has returned, raised or been cancelled."""

    tool_name: str
    turn_id: str | None
    tool_call_id: str | None
    checksum: str
    started_at: datetime
    ended_at: datetime
    duration_ms: float
    is_error: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolProgress:
    """A running handler says how far it is."""

    tool_name: str | None
    turn_id: str | None
    tool_call_id: str | None
    message: str
    percent: float | None
    audience: Audience


@dataclass(frozen=True, kw_only=True, slots=True)
class Warned:
    """Something went wrong beside the work itself, and the work went on."""

    message: str
    source: str
    """What raised it: an observer, a guard, a tool's `is_available`."""
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnStart:
    """A turn begins."""

    turn_id: str
    started_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnEnd:
    """A turn is over; told exactly once, whatever happened."""

    turn_id: str
    status: str
    started_at: datetime
    ended_at: datetime
    duration_ms: float
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchStart:
    """A turn's model loop begins."""

    dispatch_id: str
    turn_id: str
    started_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchEnd:
    """A turn's model loop is over."""

    dispatch_id: str
    turn_id: str
    status: str
    iterations: int
    started_at: datetime
    ended_at: datetime
    duration_ms: float
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class IterationStart:
    """A trip to the model begins."""

    dispatch_id: str
    turn_id: str
    iteration: int


@dataclass(frozen=True, kw_only=True, slots=True)
class IterationEnd:
    """A trip to the model is over, its calls and its middleware included."""

    dispatch_id: str
    turn_id: str
    iteration: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TextDelta:
    """A piece of a message or a thought that is being written."""

    id: str
    turn_id: str
    delta: str
    full: str
    is_complete: bool
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCallDelta:
    """A piece of a call that the model is still writing, or what became of it."""

    id: str
    turn_id: str
    tool: str
    args: Any
    checksum: str
    is_complete: bool
    is_error: bool
    created_at: datetime
    updated_at: datetime
    results: Any = None
    completed_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Logged:
    """A line that the executor callback or a tool wrote to the log."""

    level: str
    message: str
    turn_id: str
    dispatch_id: str
    iteration: int
    emitted_at: datetime
    payload: Any = None
    tool_name: str | None = None
    """Of a line that a tool wrote."""
    tool_call_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A turn failed; it still ends with a report."""

    turn_id: str
    error: BaseException
    stage: str


class Events:
    """Tells observers what happens; a failing observer becomes a `warning`, never a failure."""

    __slots__ = ("_observers", "_pending", "heard")

    def __init__(self) -> None:
        self._observers: dict[str, tuple[Observer, ...]] = {}
        self.heard: Callable[[str], bool] = self._observers.__contains__
        """Whether anyone observes that event; if not, its payload need not be made."""
        self._pending: deque[tuple[str, Awaitable[object]]] = deque()

    def on(self, name: str, fn: Observer) -> Callable[[], None]:
        """Call `fn` with each event `name`; gives back the function that stops it.

        Raises:
            UnknownEventError: No such event is ever emitted.
            UsageError: `fn` cannot be called.
        """
        if name not in EVENT_NAMES:
            near = difflib.get_close_matches(str(name), EVENT_NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the events are: {', '.join(EVENT_NAMES)}"
            raise UnknownEventError(f"no event is called {name!r}; {hint}", field="name")
        if not callable(cast("object", fn)):
            raise UsageError(f"{name!r} is told to a function, got {type(fn).__name__}; give on(name, fn)", field="fn")

        # A wrapper of its own, so that the same function observed twice is unsubscribed once each.
        def observe(payload: Any) -> Awaitable[object] | object:
            return fn(payload)

        self._observers[name] = (*self._observers.get(name, ()), observe)
        return lambda: self._forget(name, observe)

    def _forget(self, name: str, observer: Observer) -> None:
        left = tuple(each for each in self._observers.get(name, ()) if each is not observer)
        if left:
            self._observers[name] = left
        else:
            self._observers.pop(name, None)

    def notify(self, name: str, payload: object) -> None:
        """Tell sync observers at once; async ones are awaited by the next `flush`."""
        for observer in self._observers.get(name, ()):
            try:
                answer = observer(payload)
            except Exception as error:  # noqa: BLE001  an observer must never end the work
                self._observer_failed(name, error)
            else:
                if isinstance(answer, Awaitable):
                    self._pending.append((name, cast("Awaitable[object]", answer)))

    async def flush(self) -> None:
        """Await the async observers told so far."""
        while self._pending:
            name, answer = self._pending.popleft()
            try:
                await answer
            except Exception as error:  # noqa: BLE001
                self._observer_failed(name, error)

    async def emit(self, name: str, payload: object) -> None:
        """Tell every observer of `name`, and wait for the async ones."""
        self.notify(name, payload)
        if self._pending:
            await self.flush()

    async def emit_last(self, name: str, payload: object) -> None:
        """Like `emit`, also while the caller is being cancelled; async observers have a few seconds."""
        self.notify(name, payload)
        if self._pending:
            with anyio.move_on_after(_LAST_WORDS_SECONDS, shield=True):
                await self.flush()

    def warn(self, message: str, *, source: str, error: BaseException | None = None) -> None:
        """Report what went wrong beside the work: a `warning` event, or the log when nobody observes it."""
        if self.heard("warning"):
            self.notify("warning", Warned(message=message, source=source, error=error))
        else:
            _log.warning("%s", message, exc_info=error)

    def _observer_failed(self, name: str, error: Exception) -> None:
        message = f"an observer of {name!r} raised {type(error).__name__}"
        if name == "warning":  # or a broken observer of warnings would be told of itself for ever
            _log.warning("%s", message, exc_info=error)
        else:
            self.warn(message, source="observer", error=error)
