"""The state of one turn (`TurnContext`) and of its model loop (`DispatchContext`)."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from secrets import token_hex
from typing import Any

from spindle.artifacts.spool import Spool
from spindle.calls import ToolCallRecord
from spindle.errors import InvalidDispatchContextError
from spindle.events import Events
from spindle.journal.journal import Journal
from spindle.stash import Stash
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.turns.gate_desk import Gate, GateDesk
from spindle.turns.record_types import Retrievable
from spindle.turns.records import (
    Records,
    TurnRecords,
    check_call_id,
    check_retrievable,
    initial_retrievables,
    spool_retrievable,
)
from spindle.turns.signals import AbortSignal, Signals


class TurnContext:
    """The state of one turn: its own registry, stash and records, shared only with its dispatch."""

    def __init__(
        self,
        *,
        id: str | None = None,
        session_id: str | None = None,
        system_prompt: str = "",
        tools: ToolRegistry | Iterable[Tool] = (),
        messages: Iterable[Any] = (),
        tool_calls: Iterable[ToolCallRecord] = (),
        retrievables: Iterable[Retrievable] = (),
        events: Events | None = None,
        stash: Stash | Mapping[str, Any] | None = None,
        spool: Spool | None = None,
        journal: Journal | None = None,
        records: Records | None = None,
        gates: GateDesk | None = None,
    ) -> None:
        self.id = id or token_hex(16)
        self.session_id = session_id or self.id
        self.system_prompt = system_prompt
        self.tools = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
        self.events = events or Events()
        self.stash = stash if isinstance(stash, Stash) else Stash(stash)
        self.spool = spool
        self.journal = journal
        self.gates = gates or GateDesk()
        calls = tuple(tool_calls)
        found = initial_retrievables(retrievables, calls)
        self.records = TurnRecords(records, turn_id=self.id, messages=messages, tool_calls=calls, retrievables=found)
        self.abort_signal = AbortSignal()
        # Not a bound method of this turn: that reference cycle would keep the turn alive until garbage collection.
        self.abort_signal.on_abort(partial(self.gates.abort_turn, self.id))

    @property
    def messages(self) -> tuple[Any, ...]:
        """The turn's messages, in order."""
        return self.records.message.all()

    @property
    def tool_calls(self) -> tuple[ToolCallRecord, ...]:
        """The turn's completed calls, in order."""
        return self.records.tool_call.all()

    @property
    def retrievables(self) -> tuple[Retrievable, ...]:
        """The turn's retrievables, in order."""
        return self.records.retrievable.all()

    @property
    def aborted(self) -> bool:
        """Whether the turn was aborted."""
        return self.abort_signal.aborted

    def abort(self) -> None:
        """Abort the turn: release its gates and cancel its running calls."""
        self.abort_signal.abort()

    async def wait_for(self, gate: Gate) -> Any:
        """Wait until `gate` is settled and return its value."""
        return await self.gates.wait(gate, turn_id=self.id, events=self.events)

    async def store_tool_call(self, call: ToolCallRecord) -> ToolCallRecord:
        """Store a tool call; it is shown only after it was stored.

        Raises:
            ArtifactIdCollisionError: A retrievable of the turn has its id.
        """
        check_call_id(getattr(call, "id", ""), self.records)
        return await self.records.tool_call.store(call)

    async def store_retrievable(self, found: Retrievable) -> Retrievable:
        """Store a retrievable and return it as it is shown.

        A text that is not inline is written to the turn's spool and shown as a handle; reader tools accept its id.

        Raises:
            ArtifactIdCollisionError: A call of the turn has its id.
            SpoolError: The text could not be spooled; nothing is shown.
        """
        return await self.records.retrievable.store(found, shown=await self._spool_retrievable(found))

    async def mutate_retrievable(self, found: Retrievable) -> Retrievable:
        """Replace all retrievables with the same id by this one and return it as it is shown.

        Raises:
            ArtifactIdCollisionError: A call of the turn has its id.
            SpoolError: The text could not be spooled; the shown records stay unchanged.
        """
        return await self.records.retrievable.mutate(found, shown=await self._spool_retrievable(found))

    async def delete_retrievable(self, id: str) -> None:
        """Delete the first retrievable with this id, and its spool entry if no other has the id."""
        await self.records.retrievable.delete(id)
        if self.spool is not None and all(other.id != id for other in self.retrievables):
            await self.spool.delete(self._get_spool_id(id))

    async def _spool_retrievable(self, found: Retrievable) -> Retrievable:
        check_retrievable(found, self.records)
        shown = await spool_retrievable(found, self.spool, spool_id=self._get_spool_id(found.id), turn_id=self.id)
        # A call with this id may have been stored while the text was written.
        check_retrievable(found, self.records)
        return shown

    def _get_spool_id(self, id: str) -> str:
        return f"{self.session_id}/{self.id}/{id}"


class DispatchContext:
    """The state of one model loop; shares the turn's registry, stash and records, and carries its ack or nack.

    Raises:
        InvalidDispatchContextError: An argument is invalid.
    """

    def __init__(
        self,
        *,
        turn_id: str | None = None,
        system_prompt: str = "",
        tools: ToolRegistry | Iterable[Tool] = (),
        events: Events | None = None,
        stash: Stash | Mapping[str, Any] | None = None,
        tool_calls: Iterable[ToolCallRecord] = (),
        messages: Iterable[Any] = (),
        retrievables: Iterable[Retrievable] = (),
        spool: Spool | None = None,
        journal: Journal | None = None,
        turn: TurnContext | None = None,
        session_id: str | None = None,
        working_dir: Any = None,
        dry_run: bool = False,
    ) -> None:
        calls = tuple(tool_calls)
        _check_arguments(system_prompt, turn_id, calls)
        self.turn = turn or TurnContext(
            id=turn_id,
            session_id=session_id,
            system_prompt=system_prompt,
            tools=tools,
            messages=messages,
            tool_calls=calls,
            retrievables=retrievables,
            events=events,
            stash=stash,
            spool=spool,
            journal=journal,
        )
        self.id = token_hex(16)
        self.dispatch_id = self.id
        self.iteration = 0
        self.usage: dict[str, Any] = {}
        """Usage totals so far."""
        self.working_dir = working_dir
        self.dry_run = dry_run
        self.filter: ToolFilter | None = None
        """The tools that the model may see and run; set it to the filter used for the tool definitions."""
        self._has_turn = turn is not None or turn_id is not None
        self._signals = Signals()
        self.abort_signal = AbortSignal(parent=self.turn.abort_signal)
        self._tool_context: ToolContext | None = None

    @property
    def turn_id(self) -> str:
        """The id of the turn, which all its events carry."""
        return self.turn.id

    @property
    def session_id(self) -> str:
        """The id of the conversation the turn belongs to."""
        return self.turn.session_id

    @property
    def system_prompt(self) -> str:
        """The system prompt of the turn."""
        return self.turn.system_prompt

    @property
    def tools(self) -> ToolRegistry:
        """The turn's own registry."""
        return self.turn.tools

    @property
    def stash(self) -> Stash:
        """The turn's scratch store."""
        return self.turn.stash

    @property
    def events(self) -> Events:
        """The event registry of the turn."""
        return self.turn.events

    @property
    def messages(self) -> tuple[Any, ...]:
        """The turn's messages, in order."""
        return self.turn.messages

    @property
    def tool_calls(self) -> tuple[ToolCallRecord, ...]:
        """The turn's completed calls, in order."""
        return self.turn.tool_calls

    @property
    def retrievables(self) -> tuple[Retrievable, ...]:
        """The turn's retrievables, in order."""
        return self.turn.retrievables

    @property
    def gates(self) -> GateDesk:
        """The desk that lists open gates and settles them by id."""
        return self.turn.gates

    @property
    def is_acked(self) -> bool:
        """Whether the dispatch was acked."""
        return self._signals.is_acked

    @property
    def is_signalled(self) -> bool:
        """Whether the dispatch was acked or nacked."""
        return self._signals.is_signalled

    @property
    def nack_error(self) -> BaseException | None:
        """The error of the nack, or `None`."""
        return self._signals.nack_error

    @property
    def aborted(self) -> bool:
        """Whether the dispatch or its turn was aborted."""
        return self.abort_signal.aborted

    def ack(self) -> None:
        """End the dispatch successfully; `on_ack` callbacks run now, in order."""
        self._signals.ack()

    def nack(self, err: BaseException | str | None = None) -> None:
        """End the dispatch with an error, or a text with the reason."""
        self._signals.nack(err)

    def on_ack(self, fn: Callable[[], object]) -> Callable[[], None]:
        """Register a callback for the ack and return a function that removes it."""
        return self._signals.on_ack(fn)

    def abort(self) -> None:
        """Abort this dispatch; the turn continues with its output pipeline."""
        self.abort_signal.abort()

    async def wait_for(self, gate: Gate) -> Any:
        """Wait until `gate` is settled and return its value."""
        return await self.turn.wait_for(gate)

    async def store_tool_call(self, call: ToolCallRecord) -> ToolCallRecord:
        """Store a tool call; it is shown only after it was stored.

        Raises:
            ArtifactIdCollisionError: A retrievable of the turn has its id.
        """
        return await self.turn.store_tool_call(call)

    async def store_retrievable(self, found: Retrievable) -> Retrievable:
        """Store a retrievable; see `TurnContext.store_retrievable`."""
        return await self.turn.store_retrievable(found)

    async def mutate_retrievable(self, found: Retrievable) -> Retrievable:
        """Replace all retrievables with the same id; see `TurnContext.mutate_retrievable`."""
        return await self.turn.mutate_retrievable(found)

    async def delete_retrievable(self, id: str) -> None:
        """Delete the first retrievable with this id, and its spool entry if no other has the id."""
        await self.turn.delete_retrievable(id)

    def tool_call_count(self, checksum: str) -> int:
        """Return the number of calls of this turn with this checksum."""
        return self.turn.records.tool_call.count(checksum)

    def tool_context(self) -> ToolContext:
        """Return the `ToolContext` for handlers; it shares stash, events and turn id."""
        if self._tool_context is None:
            self._tool_context = ToolContext(
                self.session_id,
                turn_id=self.turn_id,
                events=self.events,
                stash=self.stash,
                working_dir=self.working_dir,
                dry_run=self.dry_run,
                open_gate=self.wait_for,
                turn=self,
            )
        self._tool_context.turn_count = self.iteration
        strangers = any(found.trust_tier != "first-party" for found in self.retrievables)
        self._tool_context.tainted = strangers or any(not call.trusted for call in self.tool_calls)
        return self._tool_context

    @staticmethod
    def is_dispatch_context(value: object) -> bool:
        """Return whether `value` is a dispatch context."""
        return isinstance(value, DispatchContext)


def _check_arguments(system_prompt: object, turn_id: object, calls: tuple[object, ...]) -> None:
    if not isinstance(system_prompt, str):
        raise InvalidDispatchContextError("system_prompt must be text", field="system_prompt")
    if turn_id is not None and not isinstance(turn_id, str):
        raise InvalidDispatchContextError("turn_id must be text, or None for a new one", field="turn_id")
    if not all(isinstance(call, ToolCallRecord) for call in calls):
        raise InvalidDispatchContextError("tool_calls must be ToolCallRecords", field="tool_calls")
