"""Events and their payloads, and the dispatcher that notifies observers; observers cannot influence the work."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable
from weakref import ref

import anyio

from spindle.concurrency import BackgroundTask, ThreadsafeEvent, is_cancelled, spawn_background
from spindle.errors import UnknownEventError, UsageError
from spindle.json_types import JsonObject, JsonValue, is_callback
from spindle.text import PayloadRedactor, did_you_mean

Observer: TypeAlias = Callable[[Any], Awaitable[object] | object]
Audience: TypeAlias = Literal["internal", "user", "dashboard"]

EVENT_NAMES = (
    *("turn_start", "turn_end", "dispatch_start", "dispatch_end", "iteration_start", "iteration_end"),
    *("tool_execution_start", "tool_execution_end", "tool_progress", "turn_gate_open", "turn_gate_closed"),
    *("message", "thought", "tool_call", "log", "warning", "error"),
)

_delivering: ContextVar[frozenset["Events"]] = ContextVar("delivering", default=frozenset())
"""The dispatchers whose async observer is running here: waiting for them would never end."""

_log = logging.getLogger("spindle")
_LAST_WORDS_SECONDS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolExecutionStart:
    """A handler is about to run."""

    tool_name: str
    turn_id: str | None
    tool_call_id: str | None
    checksum: str
    args: JsonValue
    """The validated arguments, with secret fields masked."""
    started_at: datetime
    caller: JsonObject | None = None


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
    caller: JsonObject | None = None


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
    caller: JsonObject | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnEnd:
    """A turn ended; emitted exactly once for each turn, also on failure."""

    turn_id: str
    status: str
    started_at: datetime
    ended_at: datetime
    duration_ms: float
    error: BaseException | None = None
    caller: JsonObject | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchStart:
    """A turn's model loop started."""

    dispatch_id: str
    turn_id: str
    started_at: datetime
    caller: JsonObject | None = None


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
    caller: JsonObject | None = None


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
    args: JsonValue
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
    payload: JsonValue = None
    tool_name: str | None = None
    """Set if a tool wrote the line."""
    tool_call_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A turn failed; it still ends with a report."""

    turn_id: str
    error: BaseException
    stage: str


@runtime_checkable
class EventSource(Protocol):
    """An object whose events can be observed: `Events` or a `TurnRunner`."""

    def on(self, name: str, fn: Observer, /) -> Callable[[], None]:
        """Call `fn` with each event `name`; return a function that unsubscribes it."""
        ...


class Events:
    """A dispatcher of events to observers; an observer that raises causes a `warning` event, never a failure.

    What async observers return is awaited one after the other, in the order of the events, by a background task that
    starts with the first of them: an observer sees an event while the work goes on, and a slow one does not hold it up.
    """

    __slots__ = (
        "_delivered",
        "_delivery",
        "_observers",
        "_pending",
        "_queued",
        "_redactors",
        "_waiters",
        "has_observer",
    )

    def __init__(self) -> None:
        self._observers: dict[str, tuple[Observer, ...]] = {}
        self.has_observer: Callable[[str], bool] = self._observers.__contains__
        """Whether the event has an observer; if not, its payload need not be built."""
        self._pending: deque[tuple[str, Awaitable[object]]] = deque()
        self._delivery: BackgroundTask | None = None
        self._queued = self._delivered = 0
        self._waiters: deque[tuple[int, ThreadsafeEvent]] = deque()
        self._redactors: tuple[ref[PayloadRedactor], ...] = ()

    def redact_with(self, redactor: PayloadRedactor) -> None:
        """Mask the secrets of a redactor in every payload from now on, as long as the redactor exists."""
        if not any(each() is redactor for each in self._redactors):
            self._redactors = (*(each for each in self._redactors if each() is not None), ref(redactor))

    def redact(self, payload: Any) -> Any:
        """Return a payload with the secrets masked that observers must not see."""
        for redactor in [each() for each in self._redactors]:
            payload = payload if redactor is None else redactor.redact_value(payload)
        return payload

    def on(self, name: str, fn: Observer) -> Callable[[], None]:
        """Call `fn` with the payload of each event `name`; return the function that unsubscribes it.

        Raises:
            UnknownEventError: No event has that name.
            UsageError: `fn` is not a function, sync or async.
        """
        if name not in EVENT_NAMES:
            hint = did_you_mean(name, EVENT_NAMES, f"the events are: {', '.join(EVENT_NAMES)}")
            raise UnknownEventError(f"Unknown event {name!r}; {hint}", field="name")
        if not is_callback(fn):
            raise UsageError(
                f"Expected a function as the observer of {name!r}, not a class or a generator, got {fn!r:.80}.",
                field="fn",
            )

        # A separate wrapper each time, so that a function subscribed twice is also unsubscribed twice.
        def observe(payload: object) -> Awaitable[object] | object:
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
        """Call the observers of `name`; what async observers return is awaited in the background, in order."""
        answers = self._call_observers(name, payload)
        if answers:
            self._queue(name, answers)

    async def flush(self) -> None:
        """Wait until the async observers notified so far have returned; inside such an observer, return at once."""
        if self._is_idle or self in _delivering.get():
            return
        self._start_delivery()
        delivered = ThreadsafeEvent()
        self._waiters.append((self._queued, delivered))
        await delivered.wait()

    async def emit(self, name: str, payload: object) -> None:
        """Notify every observer of `name` and wait for the async ones."""
        if self._is_idle or self in _delivering.get():
            await self.emit_now(name, payload)
        else:
            self._queue(name, self._call_observers(name, payload))
            await self.flush()

    async def emit_now(self, name: str, payload: object) -> None:
        """Notify every observer of `name` and await the async ones here, ahead of events still being delivered."""
        for answer in self._call_observers(name, payload):
            await self._await_answer(name, answer)

    async def emit_last(self, name: str, payload: object) -> None:
        """Emit an event even while the caller is being cancelled; async observers get a few seconds."""
        if not self._observers.get(name) and self._is_idle:
            return
        with anyio.move_on_after(_LAST_WORDS_SECONDS, shield=True) as scope:
            await self.emit(name, payload)
        if scope.cancelled_caught and self._delivery is not None:
            self._delivery.cancel()

    @property
    def is_delivering(self) -> bool:
        """Whether async observers are still being awaited."""
        return self._delivered != self._queued

    @property
    def _is_idle(self) -> bool:
        return self._delivered == self._queued

    def _call_observers(self, name: str, payload: object) -> list[Awaitable[object]]:
        answers: list[Awaitable[object]] = []
        observers = self._observers.get(name, ())
        if observers and self._redactors:
            payload = self.redact(payload)
        for observer in observers:
            try:
                answer = observer(payload)
            except BaseException as error:  # noqa: BLE001  an observer must never end the work
                self._observer_failed(name, error)
            else:
                if isinstance(answer, Awaitable):
                    answers.append(cast("Awaitable[object]", answer))
        return answers

    def _queue(self, name: str, answers: list[Awaitable[object]]) -> None:
        self._pending.extend((name, answer) for answer in answers)
        self._queued += len(answers)
        with suppress(RuntimeError):  # no event loop in this thread: the next flush delivers
            self._start_delivery()

    def _start_delivery(self) -> None:
        if self._delivery is None or self._delivery.is_done:
            self._delivery = spawn_background(self._deliver, name="spindle-observers")

    async def _deliver(self) -> None:
        _delivering.set(_delivering.get() | {self})
        while self._pending:
            name, answer = self._pending.popleft()
            try:
                await self._await_answer(name, answer)
            finally:
                self._delivered += 1
                while self._waiters and self._waiters[0][0] <= self._delivered:
                    self._waiters.popleft()[1].set()

    async def _await_answer(self, name: str, answer: Awaitable[object]) -> None:
        try:
            await answer
        except BaseException as error:
            if _is_cancellation(error):
                raise
            self._observer_failed(name, error)

    def warn(self, message: str, *, source: str, error: BaseException | None = None) -> None:
        """Report a problem that does not stop the work: as a `warning` event, or in the log if that has no observer."""
        if self.has_observer("warning"):
            self.notify("warning", Warned(message=message, source=source, error=error))
        else:
            message, error = self.redact((message, error))
            _log.warning("%s", message, exc_info=error if isinstance(error, BaseException) else None)

    def _observer_failed(self, name: str, error: BaseException) -> None:
        message = f"an observer of {name!r} raised {type(error).__name__}"
        if name == "warning":  # a failing observer of warnings would otherwise be notified of itself endlessly
            _log.warning("%s", message, exc_info=error)
        else:
            self.warn(message, source="observer", error=error)


def _is_cancellation(error: BaseException) -> bool:
    """Return whether an observer is cancelled from outside; it may raise such an exception by itself."""
    try:
        return isinstance(error, anyio.get_cancelled_exc_class()) and is_cancelled()
    except anyio.NoEventLoopError:  # its coroutine is being closed
        return True
