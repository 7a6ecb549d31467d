"""The state of one turn (`TurnContext`) and of its model loop (`DispatchContext`)."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.artifacts.spool import Spool
from spindle.calls import ToolCallRecord
from spindle.events import Events
from spindle.json_types import JsonObject, JsonValue
from spindle.stash import Stash
from spindle.text import new_token
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter, validate_filter
from spindle.tools.identity import parse_caller, serialize_caller
from spindle.tools.registry import ToolRegistry
from spindle.turns import flow_parts
from spindle.turns.gate_desk import Gate, GateDesk
from spindle.turns.record_list import TurnRecords
from spindle.turns.record_types import MessageLike, Retrievable, check_attachments, check_dispatch_arguments
from spindle.turns.retrieved_texts import check_call_id, check_retrievable, initial_retrievables, spool_retrievable
from spindle.turns.signals import AbortSignal, LoopBound, LoopRunner, Signals

if TYPE_CHECKING:
    from spindle.artifacts.forge import ArtifactIndex
    from spindle.journal.journal import Journal
    from spindle.media import Media
    from spindle.trust.flow.ledger import FlowLedger
    from spindle.turns.flow_feed import FlowFeed
    from spindle.turns.records import Records


class TurnContext(LoopBound):
    """The state of one turn: its own registry, stash and records, shared only with its dispatch."""

    def __init__(
        self,
        *,
        id: str | None = None,
        session_id: str | None = None,
        system_prompt: str = "",
        tools: ToolRegistry | Iterable[Tool] = (),
        messages: Iterable[MessageLike] = (),
        tool_calls: Iterable[ToolCallRecord] = (),
        retrievables: Iterable[Retrievable] = (),
        events: Events | None = None,
        stash: Stash | Mapping[str, object] | None = None,
        spool: Spool | None = None,
        journal: "Journal | None" = None,
        records: "Records | None" = None,
        gates: GateDesk | None = None,
        working_dir: str | Path | None = None,
        dry_run: bool = False,
        filter: ToolFilter | None = None,
        attachments: "Iterable[Media]" = (),
        caller: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.id = id or new_token()
        self.session_id = session_id or self.id
        self.system_prompt = system_prompt
        self._tools = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
        self._on_tools_replaced: list[Callable[[], object]] = []
        self.working_dir = working_dir
        """The working folder of the calls; a change holds from the next batch on."""
        self.dry_run = dry_run
        """Whether calls are described instead of run; a change holds from the next batch on."""
        self.filter = validate_filter(filter)
        """The tools that the model may see and run; pass it to the tool definitions."""
        self.given_attachments = check_attachments(attachments)
        self._caller = serialize_caller(caller)
        self.events = events or Events()
        self.stash = stash if isinstance(stash, Stash) else Stash(stash)
        self.spool = spool
        self.journal = journal
        self.gates = gates or GateDesk()
        calls = tuple(tool_calls)
        found = initial_retrievables(retrievables, calls)
        self.records = TurnRecords(records, turn_id=self.id, messages=messages, tool_calls=calls, retrievables=found)
        self.flow_feed: FlowFeed | None = None
        """What tells the ledger of the session about the turn; `None` until a flow policy needs it."""
        # Not a bound method of this turn: that reference cycle would keep the turn alive until garbage collection.
        self.abort_signal = AbortSignal(partial(self.gates.abort_turn, self.id))

    @property
    def tools(self) -> ToolRegistry:
        """The turn's own registry; assigning a registry, or tools, replaces it by a copy, for this turn only."""
        return self._tools

    @tools.setter
    def tools(self, tools: ToolRegistry | Iterable[Tool]) -> None:
        # Copied: the loop registers reader tools here, which must not appear in a registry that turns share.
        self._tools = tools.copy() if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
        for listener in list(self._on_tools_replaced):
            listener()

    def on_tools_replaced(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` after each assignment of `tools`; return the function that removes it."""
        self._on_tools_replaced.append(listener)
        return partial(self._on_tools_replaced.remove, listener)

    @property
    def attachments(self) -> "tuple[Media, ...]":
        """The media that tools may read: those passed to the turn, then those of the user's messages."""
        return self.records.collect_attachments(self.given_attachments)

    @property
    def caller(self) -> JsonObject | None:
        """Who asked for the turn; each access returns a copy."""
        return parse_caller(self._caller)

    @property
    def messages(self) -> tuple[MessageLike, ...]:
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

    def tool_context(self) -> ToolContext:
        """Return the `ToolContext` for handlers; it shares stash, events and turn id, and has the current settings."""
        loop = self.bound_loop
        return DispatchContext(turn=self).tool_context() if loop is None else loop.tool_context()

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


class DispatchContext(Signals, LoopBound):
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
        stash: Stash | Mapping[str, object] | None = None,
        tool_calls: Iterable[ToolCallRecord] = (),
        messages: Iterable[MessageLike] = (),
        retrievables: Iterable[Retrievable] = (),
        spool: Spool | None = None,
        journal: "Journal | None" = None,
        turn: TurnContext | None = None,
        session_id: str | None = None,
        working_dir: str | Path | None = None,
        dry_run: bool = False,
        caller: Mapping[str, JsonValue] | None = None,
    ) -> None:
        super().__init__()
        calls = tuple(tool_calls)
        check_dispatch_arguments(system_prompt, turn_id, calls)
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
            caller=caller,
        )
        # The turn holds these settings, so that its middleware and the dispatch's change the same ones.
        self.turn.working_dir = self.turn.working_dir if working_dir is None else working_dir
        self.turn.dry_run = self.turn.dry_run or dry_run
        self.turn_id = self.turn.id
        """The id of the turn, which all its events carry."""
        self.session_id = self.turn.session_id
        """The id of the conversation the turn belongs to."""
        self.events = self.turn.events
        """The event registry of the turn."""
        self.gates = self.turn.gates
        """The desk that lists open gates and settles them by id."""
        self.id = new_token()
        self.dispatch_id = self.id
        self.iteration = 0
        self.usage: JsonObject = {}
        """Usage totals so far."""
        self.abort_signal = AbortSignal(partial(self.gates.abort_turn, self.turn_id), parent=self.turn.abort_signal)
        self._tool_context: ToolContext | None = None

    def bind_loop(self, loop: LoopRunner | None) -> None:
        """Set the loop that runs this dispatch and its turn."""
        if self.turn.bound_loop is self.bound_loop:  # another dispatch inside the turn does not take its place
            self.turn.bind_loop(loop)
        super().bind_loop(loop)
        if self._tool_context is not None:
            self._tool_context.attach(loop)

    @property
    def system_prompt(self) -> str:
        """The system prompt of the turn."""
        return self.turn.system_prompt

    @property
    def tools(self) -> ToolRegistry:
        """The turn's own registry; assigning a registry, or tools, replaces it by a copy, for this turn only."""
        return self.turn.tools

    @tools.setter
    def tools(self, tools: ToolRegistry | Iterable[Tool]) -> None:
        self.turn.tools = tools

    @property
    def filter(self) -> ToolFilter | None:
        """The tools that the model may see and run; set it to the filter used for the tool definitions."""
        return self.turn.filter

    @filter.setter  # noqa: A003  the name is public
    def filter(self, filter: ToolFilter | None) -> None:
        self.turn.filter = filter

    @property
    def dry_run(self) -> bool:
        """Whether calls are described instead of run; a change holds from the next batch on."""
        return self.turn.dry_run

    @dry_run.setter
    def dry_run(self, dry_run: bool) -> None:
        self.turn.dry_run = dry_run

    @property
    def working_dir(self) -> str | Path | None:
        """The working folder of the calls; a change holds from the next batch on."""
        return self.turn.working_dir

    @working_dir.setter
    def working_dir(self, working_dir: str | Path | None) -> None:
        self.turn.working_dir = working_dir

    @property
    def attachments(self) -> "tuple[Media, ...]":
        """The media that tools may read: those passed to the turn, then those of the user's messages."""
        return self.turn.attachments

    @property
    def caller(self) -> JsonObject | None:
        """Who asked for the turn; each access returns a copy."""
        return self.turn.caller

    @property
    def stash(self) -> Stash:
        """The turn's scratch store."""
        return self.turn.stash

    @property
    def messages(self) -> tuple[MessageLike, ...]:
        """The turn's messages, in order."""
        return self.turn.messages

    @property
    def tool_calls(self) -> tuple[ToolCallRecord, ...]:
        """The turn's completed calls, in order."""
        return self.turn.tool_calls

    @property
    def artifact_index(self) -> "ArtifactIndex":
        """The artifacts of the turn's calls, which reader tools look up."""
        return self.turn.records.artifacts

    @property
    def retrievables(self) -> tuple[Retrievable, ...]:
        """The turn's retrievables, in order."""
        return self.turn.retrievables

    @property
    def aborted(self) -> bool:
        """Whether the dispatch or its turn was aborted."""
        return self.abort_signal.aborted

    def abort(self) -> None:
        """Abort this dispatch; the turn continues with its output pipeline."""
        self.abort_signal.abort()

    async def wait_for(self, gate: Gate) -> Any:
        """Wait until `gate` is settled and return its value."""
        return await self.turn.wait_for(gate)

    async def store_tool_call(self, call: ToolCallRecord) -> ToolCallRecord:
        """Store a tool call; see `TurnContext.store_tool_call`."""
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

    async def feed_flow(self, ledger: "FlowLedger") -> None:
        """Tell the ledger of the session what the turn has received since the last time."""
        await flow_parts.get_feed(self.turn).feed(ledger, self.tools)

    def tool_call_count(self, checksum: str) -> int:
        """Return the number of calls of this turn with this checksum."""
        return self.turn.records.tool_call.count(checksum)

    def tool_context(self) -> ToolContext:
        """Return the `ToolContext` for handlers; it shares stash, events and turn id, and has the current settings."""
        ctx = self._tool_context
        # Created anew after a change, because a batch that is already running keeps the settings it started with.
        is_tainted = ctx is not None and ctx.tainted
        if ctx is None or (ctx.working_dir, ctx.dry_run, ctx.stash) != (self.working_dir, self.dry_run, self.stash):
            ctx = self._tool_context = ToolContext(
                self.session_id,
                turn_id=self.turn_id,
                events=self.events,
                stash=self.stash,
                working_dir=self.working_dir,
                dry_run=self.dry_run,
                open_gate=self.wait_for,
                turn=self,
                caller=self.caller,
            )
            ctx.attach(self.bound_loop)
        ctx.turn_count = self.iteration
        ctx.tainted = is_tainted or self.turn.records.has_foreign_content
        return ctx

    @staticmethod
    def is_dispatch_context(value: object) -> bool:
        """Return whether `value` is a dispatch context."""
        return isinstance(value, DispatchContext)
