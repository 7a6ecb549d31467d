"""The registry of open gates: waiting for a gate, and settling gates by id.

A handler waits for a `Gate` (see `gates.py`); any holder of the gate, or of the desk and the gate's id, can settle it.
"""

import time
from copy import deepcopy
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

from anyio import create_task_group, current_time, move_on_after
from anyio.lowlevel import checkpoint

from spindle.concurrency import ThreadsafeEvent
from spindle.errors import InvalidGateError, UnknownGateError
from spindle.events import Events
from spindle.text import quote_name
from spindle.tools.schema.base import describe_kind
from spindle.turns.gates import Gate, GateClosed, GateInfo, Settlement

_MAX_CLOSED_IDS = 1_000
_OBSERVER_GRACE_SECONDS = 5


@dataclass(slots=True)
class _OpenGate:
    """A gate with at least one waiter."""

    gate: Gate
    turn_id: str
    payload: object
    """A copy made when the gate was opened."""
    deadline: float | None
    waiters: int = 0
    is_close_emitted: bool = False
    """Whether the close event was emitted."""

    @classmethod
    def of(cls, gate: Gate, turn_id: str) -> "_OpenGate":
        seconds = gate.timeout_seconds
        deadline = None if seconds is None else time.monotonic() + seconds
        return cls(gate, turn_id, _copy(gate.payload), deadline)

    def seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def info(self) -> GateInfo:
        gate = self.gate
        return GateInfo(
            id=gate.id,
            turn_id=self.turn_id,
            reason=gate.reason,
            payload=_copy(self.payload),
            created_at=gate.created_at,
        )


class GateWatch(Protocol):
    """Follows the gates of a turn."""

    async def gate_opened(self, gate: Gate) -> None:
        """Follow a gate that was opened, before observers are notified; must not raise."""
        ...

    def gate_closed(self, gate: Gate) -> None:
        """Follow a gate that was settled."""
        ...


class GateDesk:
    """The registry of open gates; settles them by id, from any thread.

    To settle gates from another process, send it the `turn_gate_open` event (or `pending()`), and call `resolve`,
    `reject` or `abort` here with its answer.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[str, _OpenGate] = {}
        self._settled: dict[str, None] = {}
        """Ids of the most recently closed gates, so that a late answer does not raise."""
        self._aborted: set[str] = set()
        self._watches: dict[str, GateWatch] = {}

    def watch_turn(self, turn_id: str, watch: GateWatch) -> None:
        """Let `watch` follow the gates of a turn, until `forget_turn`."""
        self._watches[turn_id] = watch

    def pending(self) -> list[GateInfo]:
        """Return the open gates, oldest first."""
        with self._lock:
            waiting = list(self._open.values())
        return [opened.info() for opened in waiting if not opened.gate.is_settled]

    def resolve(self, id: str, value: object = None) -> None:
        """Resolve a gate with a value; do nothing if it is settled.

        Raises:
            UnknownGateError: There is no gate with this id.
            InvalidGateResolutionError: The value does not match the gate's schema; it stays open.
        """
        gate = self._find(id)
        if gate is not None:
            gate.resolve(value)

    def reject(self, id: str, error: Exception) -> None:
        """Reject a gate with an exception that its waiters raise; do nothing if it is settled.

        Raises:
            UnknownGateError: There is no gate with this id.
        """
        gate = self._find(id)
        if gate is not None:
            gate.reject(error)

    def abort(self, id: str) -> None:
        """Abort a gate; do nothing if it is settled.

        Raises:
            UnknownGateError: There is no gate with this id.
        """
        gate = self._find(id)
        if gate is not None:
            gate.abort()

    def abort_turn(self, turn_id: str) -> None:
        """Abort every gate of a turn, including gates it opens later, until `forget_turn`."""
        with self._lock:
            self._aborted.add(turn_id)
            gates = [opened.gate for opened in self._open.values() if opened.turn_id == turn_id]
        for gate in gates:
            gate.abort()

    def resume_turn(self, turn_id: str) -> None:
        """Let a turn open gates again after `abort_turn`."""
        with self._lock:
            self._aborted.discard(turn_id)

    def forget_turn(self, turn_id: str) -> None:
        """Abort the open gates of a turn that has ended, and drop its state."""
        if self._open:
            self.abort_turn(turn_id)
        self.resume_turn(turn_id)
        self._watches.pop(turn_id, None)

    async def wait(self, gate: Gate, *, turn_id: str, events: Events) -> Any:
        """Wait until `gate` is settled and return its value; several tasks may wait for one gate.

        Emits an event when the gate opens and when it closes. A gate that is already settled is not opened, and this
        returns at once. A gate whose last waiter is cancelled is aborted.

        Raises:
            GateAbortedError: The gate or the turn was aborted.
            GateTimeoutError: The gate was not settled in time.
            InvalidGateError: It is not a gate, belongs to another turn, or another open gate has its id.
        """
        opened, is_first = self._enter(gate, turn_id)
        if opened is None:
            await checkpoint()
            return gate.outcome()
        wakeup = ThreadsafeEvent()
        forget = gate.watch(wakeup.set)
        try:
            with move_on_after(opened.seconds_left()):
                if is_first and (watch := self._watches.get(turn_id)) is not None:
                    await watch.gate_opened(gate)
                if is_first:
                    await _announce_and_wait(opened, wakeup, events)
                else:
                    await wakeup.wait()
            gate.settle(Settlement(result="timeout"))
        finally:
            forget()
            await self._leave(opened, events)
        return gate.outcome()

    async def offer(self, gate: Gate, *, turn_id: str, events: Events) -> bool:
        """Open `gate` for as long as its observers are notified; return whether it was settled by then.

        A gate that was not settled is closed as `suspended`: its answer is expected later, in a resumed turn.

        Raises:
            InvalidGateError: Another open gate has its id.
        """
        opened, is_first = self._enter(gate, turn_id)
        if opened is None:
            await checkpoint()
            return True
        wakeup = ThreadsafeEvent()
        forget = gate.watch(wakeup.set)
        try:
            with move_on_after(opened.seconds_left()):
                if is_first and (watch := self._watches.get(turn_id)) is not None:
                    await watch.gate_opened(gate)
                if is_first:
                    await _announce_and_wait(opened, wakeup, events, once=True)
                else:
                    await wakeup.wait()
            gate.settle(Settlement(result="suspended"))
        finally:
            forget()
            await self._leave(opened, events)
        return gate.settlement is None or gate.settlement.result != "suspended"

    def _enter(self, gate: Gate, turn_id: str) -> tuple[_OpenGate | None, bool]:
        """Add a waiter, opening the gate for the first one; return `None` if there is nothing to wait for."""
        _check(gate)
        mine = _OpenGate.of(gate, turn_id)
        with self._lock:
            is_over = turn_id in self._aborted
            if not is_over and not gate.is_settled:
                opened = self._open.get(gate.id)
                if opened is None or (opened.gate is not gate and opened.gate.is_settled):
                    opened = self._open[gate.id] = mine
                    self._settled.pop(gate.id, None)
                _check_same(opened, mine)
                opened.waiters += 1
                return opened, opened is mine
        if is_over:
            gate.abort()
        return None, False

    async def _leave(self, opened: _OpenGate, events: Events) -> None:
        gate = opened.gate
        with self._lock:
            opened.waiters -= 1
            is_last = not opened.waiters
        if is_last:
            gate.abort()  # has an effect only if the last waiter was cancelled
        settlement = gate.settlement
        if settlement is None:
            return
        with self._lock:
            if opened.is_close_emitted:
                return
            opened.is_close_emitted = True
            if self._open.get(gate.id) is opened:
                del self._open[gate.id]
                self._remember(gate.id)
        if (watch := self._watches.get(opened.turn_id)) is not None:
            watch.gate_closed(gate)
        closed = GateClosed(gate_id=gate.id, turn_id=opened.turn_id, result=settlement.result, settled_at=settlement.at)
        await events.emit_last("turn_gate_closed", closed)

    def _remember(self, id: str) -> None:
        self._settled[id] = None
        if len(self._settled) > _MAX_CLOSED_IDS:
            del self._settled[next(iter(self._settled))]

    def _find(self, id: str) -> Gate | None:
        with self._lock:
            opened = self._open.get(id)
            if opened is not None:
                return opened.gate
            if id in self._settled:
                return None
            ids = list(self._open)
        raise UnknownGateError(
            f"There is no gate {quote_name(str(id))}: it was never opened here, or was settled long ago; "
            f"{len(ids)} are open, and pending() lists them.",
            gate_id=str(id),
        )


async def _announce_and_wait(
    opened: _OpenGate, settled: ThreadsafeEvent, events: Events, *, once: bool = False
) -> None:
    """Emit the open event and wait until the gate is settled; a slow observer does not delay the waiter.

    With `once`, wait at most until every observer has returned.
    """

    async def announce() -> None:
        await events.emit_now("turn_gate_open", opened.info())
        if once:
            settled.set()

    async with create_task_group() as observers:
        observers.start_soon(announce)
        await settled.wait()
        settlement = opened.gate.settlement
        is_answered = settlement is not None and settlement.result in ("resolved", "rejected")
        # The observer that answered gets time to finish; others are cancelled at once.
        observers.cancel_scope.deadline = current_time() + (_OBSERVER_GRACE_SECONDS if is_answered else 0)


def _check(gate: object) -> None:
    if not isinstance(gate, Gate):
        raise InvalidGateError(
            f"Expected a Gate, such as Gate(reason, timeout_seconds=…), got {describe_kind(gate)}.",
            field="gate",
        )


def _check_same(opened: _OpenGate, mine: _OpenGate) -> None:
    name = quote_name(mine.gate.id)
    if opened.gate is not mine.gate:
        raise InvalidGateError(f"Another gate with the id {name} is open; omit id, or use a unique one.", field="id")
    if opened.turn_id != mine.turn_id:
        owner = quote_name(opened.turn_id)
        raise InvalidGateError(
            f"The gate {name} belongs to the turn {owner}; create a gate for this turn.", field="gate"
        )


def _copy(payload: object) -> object:
    try:
        return deepcopy(payload)
    except Exception:  # noqa: BLE001  a value that cannot be copied is shown itself
        return payload
