"""A call of an MCP client while it runs, and the questions it asks on its way.

On the older protocol a server asks its client in the middle of a call. On the newer one it cannot: the call is answered
with the question, and the client calls again with what its user said. So a call that may ask runs in a task of its own
and is parked while nobody waits for it; it is never started twice.
"""

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from secrets import token_urlsafe
from typing import Any, Final, TypeAlias

import anyio
from anyio.abc import TaskGroup

from spindle.calls import CallOutcome
from spindle.mcp.client_requests import Round
from spindle.mcp.server.peer import Peer
from spindle.turns.gates import Gate

Execute: TypeAlias = Callable[[], Awaitable[CallOutcome]]
News: TypeAlias = Round | CallOutcome

MAX_PARKED: Final = 1_000
MAX_PARKED_OF_ONE: Final = 100
"""Of one client."""
MAX_PARKED_SECONDS: Final = 900
"""Longer than the seal on what a client sends back holds."""


class RunningCall:
    """One call in a task of its own: `news` gives the questions it waits for, or its outcome."""

    def __init__(self, peer: Peer, *, owner: str = "") -> None:
        self.peer = peer
        """The client, by the request that waits for this call now."""
        self.owner = owner
        """The client it was made for; nobody else's answer counts."""
        self.ticket = ""
        """What its client comes back with: another one for each time it is asked, so that no answer counts twice."""
        self.parked_at = 0.0
        self.scope = anyio.CancelScope()
        self.questions: Round = ()
        """What it waits for now."""
        self._send, self._receive = anyio.create_memory_object_stream[News](math.inf)

    async def run(self, execute: Execute) -> None:
        """Run the call to its end."""
        self.peer.ask_by = self._ask
        try:
            with self._send, self.scope, suppress(anyio.BrokenResourceError):
                self._send.send_nowait(await execute())
        finally:
            self.peer.ask_by = None  # or each would keep the other alive

    async def _ask(self, gates: Sequence[Gate]) -> list[Any]:
        self._send.send_nowait(tuple(gates))
        return await self.peer.wait_for_all(gates)

    async def news(self) -> News | None:
        """Wait for the next questions or the outcome; `None` when the call was cancelled. Who leaves cancels it."""
        try:
            told = await self._receive.receive()
        except anyio.EndOfStream:
            self._receive.close()
            return None
        except anyio.get_cancelled_exc_class():
            self.cancel()
            raise
        if isinstance(told, tuple):
            self.questions = told
        else:
            self._receive.close()
        return told

    def cancel(self) -> None:
        """End the call, if it still runs; it is recorded as cancelled."""
        self.scope.cancel()
        self._receive.close()


class ParkedCalls:
    """The calls that wait for their client to come back with an answer."""

    def __init__(self) -> None:
        self._parked: OrderedDict[str, RunningCall] = OrderedDict()
        self._running: set[RunningCall] = set()

    def start(self, tasks: TaskGroup, execute: Execute, peer: Peer, *, owner: str = "") -> RunningCall:
        """Start a call in a task of its own."""
        running = RunningCall(peer, owner=owner)
        self._running.add(running)
        tasks.start_soon(self._run, running, execute)
        return running

    async def _run(self, running: RunningCall, execute: Execute) -> None:
        try:
            await running.run(execute)
        finally:
            self._running.discard(running)

    def park(self, running: RunningCall) -> str:
        """Keep a call that waits for an answer, and give its ticket; who waited too long, or too many, are given up.

        A client that leaves many open gives up its own first, not those of others.
        """
        running.parked_at = anyio.current_time()
        running.ticket = token_urlsafe(16)
        self._parked[running.ticket] = running
        while self._parked and self._oldest() < running.parked_at - MAX_PARKED_SECONDS:
            self._parked.popitem(last=False)[1].cancel()
        own = [each for each in self._parked.values() if each.owner == running.owner]
        for each in own[: max(0, len(own) - MAX_PARKED_OF_ONE)]:
            self._parked.pop(each.ticket).cancel()
        while len(self._parked) > MAX_PARKED:
            self._parked.popitem(last=False)[1].cancel()
        return running.ticket

    def _oldest(self) -> float:
        return next(iter(self._parked.values())).parked_at

    def take(self, ticket: str, *, owner: str = "") -> RunningCall | None:
        """Give the call a client came back for, once, and only to the client it was made for."""
        running = self._parked.get(ticket)
        if running is None or running.owner != owner:
            return None
        return self._parked.pop(ticket)

    def cancel_parked(self) -> None:
        """Give up every call that waits for its client."""
        for running in self._parked.values():
            running.cancel()
        self._parked.clear()

    def cancel_all(self) -> None:
        """Give up every call, waiting or not."""
        self.cancel_parked()
        for running in tuple(self._running):
            running.cancel()
