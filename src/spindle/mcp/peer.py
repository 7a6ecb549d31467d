"""The client behind one call: what it can be asked, how it is asked, and what it is told meanwhile.

On the newer protocol each request of a client stands alone, so a call that was parked is waited for by another request
than the one that began it. Whatever concerns the client goes by the request that waits now.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import ClientCapabilities, ElicitationCapability
from pydantic import ValidationError

from spindle.calls import Call
from spindle.errors import ClientCapabilityError, UsageError
from spindle.events import Events
from spindle.mcp.asking import Capability
from spindle.mcp.questions import capability_of, request_of, result_type, settle
from spindle.mcp.rounds import AskAll, open_all
from spindle.mcp.sessions import Session
from spindle.mcp.telling import Context, Telling
from spindle.trust.envelope import one_line
from spindle.turns.gate import Gate
from spindle.turns.waits import GateDesk

_REJECTED = -1
"""What clients answer when their user did not want a model to be asked."""
_TASKS = {"elicitation": "ask its user", "sampling": "ask its model", "roots": "give its roots"}


class Peer:
    """The client of one call."""

    def __init__(self, request: Context, session: Session, call: Call, events: Events) -> None:
        self.request = request
        """The one that waits for the call now."""
        self.ask_by: AskAll | None = None
        """How it is asked while the call is parked; `None` where it is asked in the middle of the call."""
        self._session, self._call, self._events = session, call, events
        self._desk = GateDesk()
        self._telling = Telling(events)

    @asynccontextmanager
    async def waiting(self, request: Context) -> AsyncGenerator[None]:
        """Have a request of the client wait for the call."""
        self.request = request
        async with self._telling.to(request, self._session):
            yield

    def can(self, capability: Capability) -> bool:
        """Whether the client has declared a capability."""
        declared = self.request.session.client_capabilities or ClientCapabilities()
        if capability == "elicitation":
            return _shows_forms(declared.elicitation)
        return (declared.sampling if capability == "sampling" else declared.roots) is not None

    @property
    def can_be_asked(self) -> bool:
        """Whether the client can be asked anything."""
        return self.can("elicitation") or self.can("sampling") or self.can("roots")

    async def ask(self, gates: Sequence[Gate]) -> list[Any]:
        """Ask everything at once, and give the answers in the same order.

        Raises:
            ClientCapabilityError: The client has not declared that it can be asked one of them; nothing was sent.
            UsageError: The protocol cannot ask one of them; nothing was sent.
        """
        for gate in gates:
            self._check(gate)
        if self.ask_by is not None:
            return await self.ask_by(gates)
        return await open_all(partial(self._ask_now, self.request), gates)

    def _check(self, gate: Gate) -> None:
        needed = capability_of(gate)
        if not self.can(needed):
            raise ClientCapabilityError(
                f"the tool {self._call.name!r} needs a client that can {_TASKS[needed]}, and this one has not declared "
                f"the capability {needed!r}: use one that has, or do without the tool",
                capability=needed,
                tool=self._call.name,
            )
        try:
            request_of(gate)
        except Exception as error:
            # Now, while somebody hears of it: once the call is parked, nobody would come back for it.
            raise UsageError(f"a client cannot be asked {gate.reason!r}: {error}", tool=self._call.name) from error

    async def open_gate(self, gate: Gate) -> Any:
        """Ask one thing."""
        [answer] = await self.ask([gate])
        return answer

    async def wait_for_all(self, gates: Sequence[Gate]) -> list[Any]:
        """Wait until all gates are settled by somebody else."""
        return await open_all(self._wait, gates)

    async def _wait(self, gate: Gate) -> Any:
        return await self._desk.wait(gate, turn_id=self._call.tool_call_id, events=self._events)

    async def _ask_now(self, request: Context, gate: Gate) -> Any:
        """Ask while the request waits, as the older protocol can."""
        value: Any = None
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_put, request, gate)
            try:
                value = await self._wait(gate)
            except Exception as error:  # noqa: BLE001  raised below as it is, not as one of a group
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return value


async def _put(request: Context, gate: Gate) -> None:
    """Send the question with the call's own request, and settle the gate with the answer."""
    about = ServerMessageMetadata(related_request_id=request.request_id)
    try:
        answered = await request.session.send_request(request_of(gate), result_type(gate), metadata=about)
    except MCPError as error:
        if error.code == _REJECTED and capability_of(gate) == "sampling":
            gate.reject(PermissionError("the user declined"))
            return
        said = one_line(str(error), 500)
        gate.reject(UsageError(f"the client could not {_TASKS[capability_of(gate)]}: {said}"))
    except ValidationError:
        gate.reject(
            UsageError(f"the client was to {_TASKS[capability_of(gate)]}, and what it sent is no answer to that")
        )
    else:
        settle(gate, answered)


def _shows_forms(elicitation: ElicitationCapability | None) -> bool:
    # A client that names no mode can show forms.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
