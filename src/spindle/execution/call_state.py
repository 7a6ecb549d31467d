"""The mutable state of one call while the executor runs it, its journal state, and the slot it holds."""

import math
import time
from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from spindle.calls import Call, CallOutcome, Err, Ok
from spindle.concurrency import ThreadsafeEvent
from spindle.errors import InvalidToolArgsError
from spindle.execution.results import HandlerResult
from spindle.json_types import JsonObject
from spindle.text import escape_surrogates
from spindle.tools.arguments import read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.entry import Entry
from spindle.tools.identity import checksum, idempotency_key
from spindle.tools.invocation import Runnable

if TYPE_CHECKING:
    from spindle.execution.call_trace import CallTrace
    from spindle.execution.resource_locks import LockRequest
    from spindle.journal.entries import JournalEntry
    from spindle.trust.labels import Label


class Slots:
    """A FIFO semaphore for tasks of any event loop and thread; acquiring a free slot does not switch tasks."""

    __slots__ = ("_free", "_waiting", "lock")

    def __init__(self, count: int) -> None:
        self.lock = Lock()
        self._free = count
        self._waiting: deque[ThreadsafeEvent] = deque()

    def acquire_nowait(self) -> bool:
        """Acquire a slot if one is free and no task waits; return whether it was acquired."""
        with self.lock:
            if not self._free or self._waiting:
                return False
            self._free -= 1
            return True

    def hold_nowait(self) -> "HeldSlot | None":
        """Acquire a slot like `acquire_nowait` and return it, or `None`."""
        with self.lock:
            if not self._free or self._waiting:
                return None
            self._free -= 1
        return HeldSlot(self)

    async def acquire(self) -> None:
        """Acquire a slot, waiting if none is free."""
        mine = ThreadsafeEvent()
        with self.lock:
            if self._free and not self._waiting:
                self._free -= 1
                return
            self._waiting.append(mine)
        try:
            await mine.wait()
        except BaseException:
            with self.lock:
                is_assigned = mine not in self._waiting
                if not is_assigned:
                    self._waiting.remove(mine)
            if is_assigned:  # while this task was being cancelled
                self.release()
            raise

    def release(self) -> None:
        """Release the slot, or pass it to the task that has waited longest."""
        with self.lock:
            following = self.give_back()
        for event in following:
            event.set()

    def give_back(self) -> Sequence[ThreadsafeEvent]:
        """Release the slot under the caller's `lock`; return the events of those who get one, to set after it."""
        if self._waiting:
            return (self._waiting.popleft(),)
        self._free += 1
        return ()


class HeldSlot:
    """A slot that a running call holds, and lends to the calls that its handler waits for."""

    __slots__ = ("_borrowers", "_is_closed", "_is_held", "slots")

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self._is_held = True
        self._is_closed = False
        self._borrowers = 0

    def lend(self) -> None:
        """Release the slot until `take_back`; batches that run at the same time share one loan."""
        with self.slots.lock:
            self._borrowers += 1
            is_lent, self._is_held = self._is_held, False
        if is_lent:
            self.slots.release()

    async def take_back(self) -> None:
        """Acquire the slot again after the last borrower, unless the call has ended."""
        with self.slots.lock:
            self._borrowers -= 1
            if self._borrowers or self._is_closed or self._is_held:
                return
        await self.slots.acquire()
        with self.slots.lock:
            is_wanted = not (self._borrowers or self._is_closed or self._is_held)
            self._is_held = self._is_held or is_wanted
        if not is_wanted:
            self.slots.release()

    def close(self) -> None:
        """Release the slot at the end of the call; a second call does nothing."""
        with self.slots.lock:
            is_held, self._is_held, self._is_closed = self._is_held, False, True
            following = self.slots.give_back() if is_held else ()
        for event in following:
            event.set()


held_slot: ContextVar[HeldSlot | None] = ContextVar("held_slot", default=None)
"""In a handler: the slot of its call."""


@dataclass(slots=True, eq=False)
class JournalState:
    """The journal state of one call."""

    key: str
    interrupted_entry: "JournalEntry | None" = None
    """Entry left by a crashed process: the call was started and its outcome is unknown."""
    answer: HandlerResult | None = None
    """The recorded result of an earlier run of the same call."""
    is_begun: bool = False
    """Whether the intent was written; the outcome must then be written too."""
    is_recorded: bool = False
    """Whether nothing is left to write for this call."""
    media: list[JsonObject] | None = None
    """JSON descriptions of its media; `None` until they were built."""

    def for_duplicate(self) -> "JournalState":
        """Return the state for a duplicate call that shares this result; it is not written again."""
        return JournalState(self.key, answer=self.answer, is_recorded=True)


EntryT = TypeVar("EntryT", bound=Entry | None)
ArgumentsT = TypeVar("ArgumentsT", bound=JsonObject | None)


@dataclass(slots=True, eq=False)
class _CallState(Generic[EntryT, ArgumentsT]):
    """What admitted and refused calls have in common: the call and its result."""

    call: Call
    started: float
    entry: EntryT
    arguments: ArgumentsT
    """The arguments as the model sent them, parsed."""
    known_checksum: str | None
    handled: HandlerResult | None = field(default=None, init=False)
    reduced: Ok | Err | None = field(default=None, init=False)
    is_truncated: bool = field(default=False, init=False)
    """Whether the budget truncated the text."""
    duration_ms: float = field(default=0.0, init=False)
    attempts: int = field(default=0, init=False)
    raw_args: str | None = field(default=None, init=False)
    """The redacted arguments of a call whose arguments could not be read."""
    is_closed: bool = field(default=False, init=False)
    """Whether the result is given: what an abandoned handler does later changes nothing."""
    trace: "CallTrace | None" = field(default=None, init=False)
    """What the journal keeps of its way through the batch; `None` without a journal."""
    journal_state: JournalState | None = field(default=None, init=False)
    """`None` without a journal, and until the journal was asked about the call."""

    @property
    def needs_full_copy(self) -> bool:
        """Whether the full result is kept even if the text fits: for an artifact class, or as the text is lossy."""
        handled = self.handled
        if handled is None:
            return False
        if self.has_artifact_class:
            return True
        return self.reduced is not handled.result or (handled.full_bytes is not None and handled.is_lossy)

    @property
    def has_artifact_class(self) -> bool:
        """Whether the result is text for the tool's own artifact class."""
        return False

    @property
    def max_chars(self) -> int | None:
        """The most characters that the tool allows its results; `None` for no limit."""
        return None if self.entry is None else self.entry.tool.max_result_chars

    @property
    def is_from_record(self) -> bool:
        """Whether the result was read from the journal; it is then returned unchanged."""
        return (
            self.journal_state is not None
            and self.journal_state.answer is not None
            and self.handled is self.journal_state.answer
        )

    @property
    def checksum(self) -> str:
        """The call's checksum; arguments that cannot be parsed are hashed as text."""
        if self.known_checksum is None:
            self.known_checksum = _checksum(self.call, self.arguments)
        return self.known_checksum

    def finish(self, handled: HandlerResult) -> None:
        """Store the result of the call and its duration, unless the call is closed."""
        if self.is_closed:
            return
        self.handled = handled
        self.reduced = handled.result
        self.duration_ms = (time.perf_counter() - self.started) * 1000

    def close(self, handled: HandlerResult) -> None:
        """Store the final result of the call."""
        self.is_closed = False
        self.finish(handled)
        self.is_closed = True

    def outcome(self) -> CallOutcome:
        """Return the outcome of the call."""
        result = self.reduced
        if result is None:  # pragma: no cover - every path through the executor finishes the call
            result = Err("execution_failed", "The call ended without a result; report this as a bug.", by="spindle")
        return CallOutcome(
            self.call.tool_call_id,
            self.call.name,
            self.known_checksum or partial(_checksum, self.call, self.arguments),
            result,
            self.duration_ms,
            self.attempts,
            self.entry is not None and self.entry.tool.is_artifact_reader,
            self.arguments or {},
            self.raw_args,
        )


@dataclass(slots=True, eq=False)
class RefusedCall(_CallState[Entry | None, JsonObject | None]):
    """A call that admission refused, with what was known of it by then."""

    is_unknown: bool = field(default=False, kw_only=True)
    """Whether it was refused because no tool has that name."""

    def replace_refusal(self, refusal: HandlerResult) -> None:
        """Store another reason for the refusal; the call took no longer for it."""
        self.handled, self.reduced = refusal, refusal.result


@dataclass(slots=True, eq=False)
class AdmittedCall(_CallState[Entry, JsonObject]):
    """A call that may run."""

    runnable: Runnable
    value: Any
    """The validated arguments as the handler receives them."""
    ctx: ToolContext
    needs_approval: bool
    """Whether approval is required, by the tool, by the flow policy, or by an interceptor or a check."""
    reasons: tuple[str, ...] = field(default=(), init=False)
    """Why approval is required, in sentences for a person."""
    input_label: "Label | None" = field(default=None, init=False)
    """The label that its arguments leave its result; `None` without a flow policy."""
    flow_facts: JsonObject | None = field(default=None, init=False)
    """What the journal keeps of the decision of the flow policy."""
    lock_request: "LockRequest | None" = field(default=None, init=False)
    """The locks on the tool's resources; `None` if it uses none."""
    slot: HeldSlot | None = field(default=None, init=False)
    """The slot it runs in."""
    deadline: float = field(default=-math.inf, init=False)
    """When its time is over, on the clock of the event loop; it moves while the call waits for a person or a turn."""
    overdue_until: float | None = field(default=None, init=False)
    """Set when the deadline has passed and the call was cancelled: when it is abandoned."""
    used_seconds: float = field(default=0.0, init=False)
    """How much of its time was used before it ran, while its intent was written."""
    is_answered: bool = field(default=False, init=False)
    """Whether its result is complete: interceptors have seen it, secrets are redacted."""

    def warn(self, message: str, *, source: str, error: BaseException | None = None) -> None:
        """Report a problem of the call that does not stop it: to the observers, and to the journal with its outcome."""
        self.ctx.events.warn(message, source=source, error=error)
        if self.trace is not None:
            self.trace.record("warning", message if error is None else f"{message} ({type(error).__name__})")

    def get_whole_result(self) -> "Ok | Err | None":
        """Return all that the handler returned; `None` if that cannot be read."""
        return None if self.handled is None else self.handled.result

    @property
    def is_intent_deferred(self) -> bool:
        """Whether a check, an approval or the cache may still answer; the intent is then written later."""
        tool = self.entry.tool
        return bool(tool.checks or self.needs_approval or tool.cache is not None)

    @property
    def has_artifact_class(self) -> bool:
        """Whether the result is text for the tool's own artifact class."""
        if self.entry.tool.artifact_constructor is None or self.handled is None or self.ctx.dry_run:
            return False
        result = self.handled.result
        return isinstance(result, Ok) and bool(result.value) and not result.media and result.artifact is None

    @property
    def spool_id(self) -> str:
        """The spool id of the full result."""
        return f"{self.ctx.session_id}/{self.ctx.turn_id}/{escape_surrogates(self.call.tool_call_id)}"


CallState: TypeAlias = AdmittedCall | RefusedCall
"""The state of one call of a batch, filled in step by step by execution and truncation."""


def compute_call_checksum(call: Call) -> str:
    """Return the checksum of a call that was not admitted yet."""
    try:
        arguments = read_arguments(call.args, tool=call.name, empty_ok=True)
    except InvalidToolArgsError:
        arguments = None
    return _checksum(call, arguments)


def compute_identity(call: Call, arguments: JsonObject, context: ToolContext) -> tuple[str, str]:
    """Return a call's checksum and idempotency key.

    Takes no `CallState`: the context keeps this function, and a state would make a reference cycle with it.
    """
    found = _checksum(call, arguments)
    return found, idempotency_key(context.session_id, context.turn_id, escape_surrogates(call.tool_call_id), found)


def _checksum(call: Call, arguments: JsonObject | None) -> str:
    """Hash the parsed arguments, of which handlers, reducers and transports get copies, or else what was sent."""
    given = call.args if arguments is None else arguments
    try:
        return checksum(call.name, given)
    except Exception:  # noqa: BLE001  a call without canonical JSON is refused, but its outcome needs a checksum
        return checksum(call.name, _to_ascii(given))


def _to_ascii(given: object) -> str:
    try:
        return ascii(given)
    except Exception:  # noqa: BLE001
        return type(given).__name__
