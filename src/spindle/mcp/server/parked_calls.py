"""Calls that run in their own task, and are parked while their questions wait for the client's answer.

On the older protocol a server sends requests to its client during a call. On the newer one it cannot: the response to
the call is the question, and the client calls again with the answer. So a call that may ask runs in its own task and is
parked while no request waits for it; it is never started twice.
"""

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from secrets import token_urlsafe
from typing import Any, Final, TypeAlias

import anyio
from anyio.abc import TaskGroup

from spindle.calls import Call, CallOutcome, Err
from spindle.execution.call_state import compute_call_checksum
from spindle.mcp.client_requests import Round
from spindle.mcp.server.peer import CallClient
from spindle.turns.gates import Gate

Execute: TypeAlias = Callable[[], Awaitable[CallOutcome]]
CallEvent: TypeAlias = Round | CallOutcome


class Late(Enum):
    """Says that nothing happened in time."""

    LATE = "late"


LATE: Final = Late.LATE
MAX_PARKED: Final = 1_000
MAX_PARKED_PER_CLIENT: Final = 100
"""Limit for one client."""
MAX_PARKED_SECONDS: Final = 900
"""Longer than the sealed state of a client is valid."""


class ResumableCall:
    """One call in its own task: `news` returns the questions it waits for, or its outcome."""

    def __init__(self, client: CallClient, *, owner: str = "") -> None:
        self.client = client
        """The client behind the call."""
        self.owner = owner
        """Key of the client that made the call; answers of other clients are ignored."""
        self.ticket = ""
        """The token with which the client resumes the call; new for each question, so that no answer counts twice."""
        self.parked_at = 0.0
        self.scope = anyio.CancelScope()
        self.questions: Round = ()
        """The gates it waits for now."""
        self._send, self._receive = anyio.create_memory_object_stream[CallEvent](math.inf)

    async def run(self, execute: Execute) -> None:
        """Run the call to its end."""
        self.client.ask_parked = self._ask
        try:
            with self._send, self.scope, suppress(anyio.BrokenResourceError):
                self._send.send_nowait(await execute())
        finally:
            self.client.ask_parked = None  # breaks the reference cycle

    async def _ask(self, gates: Sequence[Gate]) -> list[Any]:
        self._send.send_nowait(tuple(gates))
        return await self.client.wait_for_all(gates)

    async def next_event(self) -> CallEvent | None:
        """Wait for the next questions or the outcome; return `None` if the call was cancelled.

        Cancelling this wait cancels the call.
        """
        try:
            return await self._receive_event()
        except anyio.get_cancelled_exc_class():
            self.cancel()
            raise

    async def next_event_within(self, seconds: float) -> CallEvent | Late | None:
        """Wait for the next event for some time; return `LATE` if there is none, and the call goes on.

        Cancelling this wait cancels the call.
        """
        event: CallEvent | Late | None = LATE
        try:
            with anyio.move_on_after(seconds):
                event = await self._receive_event()
        except anyio.get_cancelled_exc_class():
            self.cancel()
            raise
        return event

    async def _receive_event(self) -> CallEvent | None:
        try:
            received = await self._receive.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._receive.close()
            return None
        if isinstance(received, tuple):
            self.questions = received
        else:
            self._receive.close()
        return received

    def cancel(self) -> None:
        """Cancel the call if it still runs; it is recorded as cancelled."""
        self.scope.cancel()
        self._receive.close()


class ParkedCalls:
    """The calls that wait for an answer from their client."""

    def __init__(self) -> None:
        self._parked: OrderedDict[str, ResumableCall] = OrderedDict()
        self._running: set[ResumableCall] = set()

    def start(self, tasks: TaskGroup, execute: Execute, client: CallClient, *, owner: str = "") -> ResumableCall:
        """Start a call in its own task."""
        running = ResumableCall(client, owner=owner)
        self._running.add(running)
        tasks.start_soon(self._run, running, execute)
        return running

    async def _run(self, running: ResumableCall, execute: Execute) -> None:
        try:
            await running.run(execute)
        finally:
            self._running.discard(running)

    def park(self, running: ResumableCall) -> str:
        """Keep a call that waits for an answer and return its ticket; expired and excess calls are cancelled.

        A client over its own limit loses its oldest calls first, not those of other clients.
        """
        running.parked_at = anyio.current_time()
        running.ticket = token_urlsafe(16)
        self._parked[running.ticket] = running
        while self._parked and self._oldest() < running.parked_at - MAX_PARKED_SECONDS:
            self._parked.popitem(last=False)[1].cancel()
        own = [each for each in self._parked.values() if each.owner == running.owner]
        for each in own[: max(0, len(own) - MAX_PARKED_PER_CLIENT)]:
            self._parked.pop(each.ticket).cancel()
        while len(self._parked) > MAX_PARKED:
            self._parked.popitem(last=False)[1].cancel()
        return running.ticket

    def _oldest(self) -> float:
        return next(iter(self._parked.values())).parked_at

    def take(self, ticket: str, *, owner: str = "") -> ResumableCall | None:
        """Remove and return a parked call, or `None` unless the ticket belongs to this client."""
        running = self._parked.get(ticket)
        if running is None or running.owner != owner:
            return None
        return self._parked.pop(ticket)

    def cancel_parked(self) -> None:
        """Cancel every parked call."""
        for running in self._parked.values():
            running.cancel()
        self._parked.clear()

    def cancel_all(self) -> None:
        """Cancel every call, parked or running."""
        self.cancel_parked()
        for running in tuple(self._running):
            running.cancel()


_MAX_WAITING = 1_000


class WaitingCalls:
    """The ids of calls that wait for approval in the journal.

    A client that cannot be asked makes the same call again to get its result. Another id would make it another call,
    which waits again; so an equal call of the same client gets the id of the one that waits.
    """

    def __init__(self) -> None:
        self._ids: OrderedDict[tuple[str, str], str] = OrderedDict()

    def reuse_id(self, conversation: str, call: Call) -> Call:
        """Return the call with the id of an equal one that waits, if there is one."""
        known = self._ids.get((conversation, compute_call_checksum(call))) if self._ids else None
        return call if known is None else Call(known, call.name, call.args)

    def keep(self, conversation: str, call: Call, outcome: CallOutcome) -> CallOutcome:
        """Keep the id of a call that waits, until its outcome is returned; tell the client what to do."""
        result = outcome.result
        if isinstance(result, Err) and result.ticket is not None:
            self._ids[conversation, compute_call_checksum(call)] = call.tool_call_id
            while len(self._ids) > _MAX_WAITING:
                self._ids.popitem(last=False)
            approval = result.ticket.partition("-")[0]
            text = f"{result.error} Make the same call again after that to get its result. Approval: {approval}."
            return replace(outcome, result=replace(result, error=text))
        is_running = isinstance(result, Err) and result.retryable and not outcome.attempts
        if self._ids and not is_running:
            self._ids.pop((conversation, compute_call_checksum(call)), None)
        return outcome
