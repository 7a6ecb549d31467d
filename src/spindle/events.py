"""Events and their payloads, and the dispatcher that notifies observers; observers cannot influence the work."""

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
    """The validated arguments, with secret fields masked."""
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
    """A running handler reported progress."""

    tool_name: str | None
    turn_id: str | None
    tool_call_id: str | None
    message: str
    percent: float | None
    audience: Audience


@dataclass(frozen=True, kw_only=True, slots=True)
class Warned:
    """A problem that did not stop the work."""

    message: str
    source: str
    """The component that failed: an observer, a guard, a tool's `is_available`."""
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnStart:
    """A turn started."""

    turn_id: str
    started_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnEnd:
    """A turn ended; emitted exactly once for each turn, also on failure."""

    turn_id: str
    status: str
    started_at: datetime
    ended_at: datetime
    duration_ms: float
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchStart:
    """A turn's model loop started."""

    dispatch_id: str
    turn_id: str
    started_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchEnd:
    """A turn's model loop ended."""

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
    """An iteration of the model loop started."""

    dispatch_id: str
    turn_id: str
    iteration: int


@dataclass(frozen=True, kw_only=True, slots=True)
class IterationEnd:
    """An iteration of the model loop ended, including its calls and its middleware."""

    dispatch_id: str
    turn_id: str
    iteration: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TextDelta:
    """A fragment of a message or a thought that is being streamed."""

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
    """A fragment of a call that the model is still streaming, or its result."""

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
    """A log line written by the executor callback or by a tool."""

    level: str
    message: str
    turn_id: str
    dispatch_id: str
    iteration: int
    emitted_at: datetime
    payload: Any = None
    tool_name: str | None = None
    """Set if a tool wrote the line."""
    tool_call_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A turn failed; it still ends with a report."""

    turn_id: str
    error: BaseException
    stage: str


class Events:
    """A dispatcher of events to observers; an observer that raises causes a `warning` event, never a failure."""

    __slots__ = ("_observers", "_pending", "heard")

    def __init__(self) -> None:
        self._observers: dict[str, tuple[Observer, ...]] = {}
        self.heard: Callable[[str], bool] = self._observers.__contains__
        """Whether the event has an observer; if not, its payload need not be built."""
        self._pending: deque[tuple[str, Awaitable[object]]] = deque()

    def on(self, name: str, fn: Observer) -> Callable[[], None]:
        """Call `fn` with the payload of each event `name`; return the function that unsubscribes it.

        Raises:
            UnknownEventError: No event has that name.
            UsageError: `fn` is not callable.
        """
        if name not in EVENT_NAMES:
            near = difflib.get_close_matches(str(name), EVENT_NAMES, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Event names: {', '.join(EVENT_NAMES)}."
            raise UnknownEventError(f"Unknown event {name!r}. {hint}", field="name")
        if not callable(cast("object", fn)):
            raise UsageError(
                f"Expected a callable observer of {name!r}, got {type(fn).__name__}. Use on(name, fn).", field="fn"
            )

        # A separate wrapper each time, so that a function subscribed twice is also unsubscribed twice.
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
        """Call the observers of `name`; what async observers return is awaited by the next `flush`."""
        for observer in self._observers.get(name, ()):
            try:
                answer = observer(payload)
            except Exception as error:  # noqa: BLE001  an observer must never end the work
                self._observer_failed(name, error)
            else:
                if isinstance(answer, Awaitable):
                    self._pending.append((name, cast("Awaitable[object]", answer)))

    async def flush(self) -> None:
        """Await the async observers notified so far."""
        while self._pending:
            name, answer = self._pending.popleft()
            try:
                await answer
            except Exception as error:  # noqa: BLE001
                self._observer_failed(name, error)

    async def emit(self, name: str, payload: object) -> None:
        """Notify every observer of `name` and await the async ones."""
        self.notify(name, payload)
        if self._pending:
            await self.flush()

    async def emit_last(self, name: str, payload: object) -> None:
        """Emit an event even while the caller is being cancelled; async observers get a few seconds."""
        self.notify(name, payload)
        if self._pending:
            with anyio.move_on_after(_LAST_WORDS_SECONDS, shield=True):
                await self.flush()

    def warn(self, message: str, *, source: str, error: BaseException | None = None) -> None:
        """Report a problem that does not stop the work: as a `warning` event, or in the log if that has no observer."""
        if self.heard("warning"):
            self.notify("warning", Warned(message=message, source=source, error=error))
        else:
            _log.warning("%s", message, exc_info=error)

    def _observer_failed(self, name: str, error: Exception) -> None:
        message = f"an observer of {name!r} raised {type(error).__name__}"
        if name == "warning":  # a failing observer of warnings would otherwise be notified of itself endlessly
            _log.warning("%s", message, exc_info=error)
        else:
            self.warn(message, source="observer", error=error)
