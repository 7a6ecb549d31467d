"""The calls of a turn that is saved while it runs, and the gates at which they wait.

Before the calls of a reply run, the turn is saved with them. So a process that dies leaves a turn that another one can
continue: the journal answers the calls that have ended, and the model is not asked again for what it has said.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import anyio

from spindle.calls import Call, CallOutcome, Err, ToolCallRecord
from spindle.errors import (
    InvalidGateError,
    InvalidGateResolutionError,
    JournalError,
)
from spindle.execution.admission import read_call
from spindle.execution.call_state import compute_call_checksum
from spindle.execution.failures import suspend_handler
from spindle.json_types import JsonValue
from spindle.text import escape_surrogates, quote_name
from spindle.tools.context import ToolContext
from spindle.tools.identity import idempotency_key
from spindle.turns.call_progress import CallProgress, WaitingGate
from spindle.turns.callback_reports import LoopCalls
from spindle.turns.context import DispatchContext
from spindle.turns.gates import Gate
from spindle.turns.retrieved_texts import check_call_id
from spindle.turns.turn_saver import TurnSaver

_FIRST_WAIT_SECONDS: Final = 0.02
_MAX_WAIT_SECONDS: Final = 1.0
_MADE_AGAIN: Final = ("expired", "already_answered")
"""Refusals of a ticket after which the call is made again: it gets a new ticket, or the recorded outcome."""

_CallKey: TypeAlias = tuple[str, str]
"""The tool and the checksum of a call."""


class GateKeeper:
    """Opens the gates of the calls of a loop: a gate that can be opened again suspends its call, others wait."""

    def __init__(self, ctx: DispatchContext) -> None:
        self._ctx = ctx
        self._calls: dict[_CallKey, list[CallProgress]] = {}
        self.waiting: dict[_CallKey, WaitingGate] = {}
        """The gates at which calls of the current batch were suspended."""

    def begin(self, calls: Sequence[CallProgress]) -> None:
        """Set the calls of the current batch."""
        self._calls, self.waiting = {}, {}
        for item in calls:
            args = item.call.args if item.decision is None or item.decision.args is None else item.decision.args
            key = item.call.name, compute_call_checksum(replace(item.call, args=args))
            self._calls.setdefault(key, []).append(item)

    async def open_in_call(self, gate: Gate, ctx: ToolContext) -> Any:
        """Return the answer of a gate, or end the handler, which is started again once the answer is there."""
        key = (ctx.tool_name or "", ctx.checksum or "")
        items, tool = self._calls.get(key, ()), self._ctx.tools.get(key[0])
        # The id of a call inside another one differs: the outer one might not be safe to start again.
        is_own = any(item.call.tool_call_id == ctx.tool_call_id for item in items)
        is_repeatable = tool is not None and (tool.idempotent or tool.read_only)
        if not is_own or not is_repeatable or not getattr(gate, "has_own_id", False):
            return await self._ctx.wait_for(gate)
        problem = _use_answer(gate, items)
        turn = self._ctx.turn
        if await turn.gates.offer(gate, turn_id=turn.id, events=turn.events):
            return gate.outcome()
        self._add(key, gate, problem)
        return suspend_handler()

    def _add(self, key: _CallKey, gate: Gate, problem: str | None) -> None:
        if any(other.id == gate.id and place != key for place, other in self.waiting.items()):
            raise InvalidGateError(
                f"Another call of this turn waits at a gate with the id {quote_name(gate.id)}; use a unique one.",
                field="id",
            )
        self.waiting[key] = WaitingGate(gate.id, gate.reason, _to_json(gate.payload), problem)


class DurableCalls:
    """Runs the calls of a loop that is saved, and finds out which of them wait for an answer."""

    def __init__(self, ctx: DispatchContext, calls: LoopCalls, saver: TurnSaver, *, suspends: bool) -> None:
        self._ctx = ctx
        self._calls = calls
        self._saver = saver
        self._keeper = GateKeeper(ctx) if suspends else None
        if self._keeper is not None:
            ctx.gate_opener = self._keeper
        self.waiting: list[CallProgress] | None = None
        """All calls of the batch if one of them waits, so that the turn is to be suspended."""

    async def start(self) -> None:
        """Save a new turn before its model is asked.

        Raises:
            TurnConflictError: The journal has a turn with this id.
        """
        await self._saver.checkpoint([])

    async def run(self, calls: Sequence[Call | Mapping[str, JsonValue]]) -> None:
        """Save the turn with the calls of a reply, run them, and store their records, unless one of them waits.

        Raises:
            TurnConflictError: Another process has continued the turn; nothing was run.
            ArtifactIdCollisionError: A retrievable of the turn has the id of a call.
            LimitError: A call was repeated too often.
        """
        self._calls.check(calls)
        items = [await self._build_item(given) for given in calls]
        await self._saver.checkpoint(items)
        await self._finish(items, is_resumed=False)

    async def _build_item(self, given: Call | Mapping[str, JsonValue]) -> CallProgress:
        call, problem = read_call(given)
        item = CallProgress(call, self._get_fingerprint(call))
        if problem is not None:  # the executor refuses it, whatever its tool is
            [refused] = await self._calls.run([given])
            self._settle(item, refused)
        return item

    async def resume(self, items: list[CallProgress]) -> None:
        """Run the calls of a saved turn that have not finished; those that still wait are left alone."""
        await self._finish(items, is_resumed=True)

    async def _finish(self, items: list[CallProgress], *, is_resumed: bool) -> None:
        if self._keeper is not None:
            self._keeper.begin(items)
        for item in items:
            if item.gate is not None and item.fingerprint != self._get_fingerprint(item.call):
                self._settle(item, _build_changed(item))
        decided = [item for item in items if item.record is None and item.decision is not None]
        async with anyio.create_task_group() as tasks:
            for item in decided:
                tasks.start_soon(self._answer_ticket, item)
        left = [item for item in items if item not in decided or item.decision is None]
        await self._run_calls([item for item in left if _is_runnable(item)], is_resumed=is_resumed)
        if any(item.record is None for item in items):
            if not self._ctx.aborted:
                self.waiting = items
                return
            for item in items:
                if item.record is None and item.outcome is not None:
                    item.record = item.outcome.to_record()
        for item in items:
            if item.record is not None:
                await self._store(item.record, items if is_resumed else ())

    async def _store(self, record: ToolCallRecord, resumed: Sequence[CallProgress]) -> None:
        """Store a record; one that a process stored before it died, after it had saved the turn, is replaced."""
        records = self._ctx.turn.records
        taken = sum(item.call.tool_call_id == record.id for item in resumed)
        if taken == 1 and all(each.id != record.id for each in records.tool_call):
            check_call_id(record.id, records)
            await records.tool_call.mutate(record)
        else:
            await self._ctx.store_tool_call(record)

    async def _answer_ticket(self, item: CallProgress) -> None:
        """Hand a person's answer to the executor, which runs the call in this turn."""
        decision, ctx = item.decision, self._ctx
        if decision is None or item.ticket is None:
            return
        answer, allowed, attachments = self._calls.executor.resume, ctx.filter, ctx.attachments
        try:
            outcome = await answer(item.ticket, *decision, ctx=ctx, filter=allowed, attachments=attachments)
        except JournalError as error:
            item.decision, item.problem = None, str(error)  # the answer may be given again
            return
        result = outcome.result
        if isinstance(result, Err) and result.reason in _MADE_AGAIN:
            item.decision = None
            ctx.events.warn(f"an answer was not used: {result.error}", source="resume")
        elif isinstance(result, Err) and result.code == "input_invalid" and decision.args is not None:
            item.decision, item.problem = None, result.error  # the ticket is still valid
        else:
            self._settle(item, outcome)

    async def _run_calls(self, items: list[CallProgress], *, is_resumed: bool) -> None:
        wait = _FIRST_WAIT_SECONDS
        while items:
            outcomes = await self._calls.run([item.call for item in items])
            busy = [
                item
                for item, outcome in zip(items, outcomes, strict=True)
                if is_resumed and await self._runs_elsewhere(outcome)
            ]
            for item, outcome in zip(items, outcomes, strict=True):
                if item not in busy:
                    self._settle(item, outcome)
            items = busy
            if busy:  # the process that ran the turn before is still alive
                await anyio.sleep(wait)
                wait = min(wait * 2, _MAX_WAIT_SECONDS)

    async def _runs_elsewhere(self, outcome: CallOutcome) -> bool:
        result, ctx = outcome.result, self._ctx
        if not isinstance(result, Err) or result.code != "not_available" or not result.retryable or ctx.aborted:
            return False
        call_id = escape_surrogates(outcome.tool_call_id)
        key = idempotency_key(ctx.session_id, ctx.turn_id, call_id, outcome.checksum)
        entry = await self._saver.store.journal.find(key)
        return entry is not None and entry.state == "started"

    def _settle(self, item: CallProgress, outcome: CallOutcome) -> None:
        item.outcome, item.gate = outcome, None
        result, keeper = outcome.result, self._keeper
        if (
            keeper is not None
            and isinstance(result, Err)
            and result.code == "needs_approval"
            and result.by == "spindle"
        ):
            item.gate = keeper.waiting.get((outcome.name, outcome.checksum))
            if item.gate is not None:
                return
            if result.ticket is not None:
                item.problem = None if item.ticket != result.ticket else item.problem
                item.ticket = result.ticket
                return
        item.record = outcome.to_record()
        self._calls.add_cost(outcome)

    def _get_fingerprint(self, call: Call) -> str | None:
        tool = self._ctx.tools.get(call.name)
        return None if tool is None else tool.fingerprint


def _use_answer(gate: Gate, items: Sequence[CallProgress]) -> str | None:
    """Resolve a gate whose answer is there; return why the answer is not valid, or `None`."""
    problem: str | None = None
    for item in items:
        if gate.id in item.answers:
            try:
                gate.resolve(item.answers[gate.id])
            except InvalidGateResolutionError as error:
                del item.answers[gate.id]
                problem = str(error)
    return problem


def _is_runnable(item: CallProgress) -> bool:
    """Return whether there is a reason to run a call: it did not run yet, or its answer may be there."""
    if item.record is not None or item.problem is not None:
        return False
    return item.gate is None or item.gate.id in item.answers


def _build_changed(item: CallProgress) -> CallOutcome:
    call = item.call
    text = f"The tool {call.name!r} has changed since the call waited, or is gone; the call must be made again."
    refused = Err("denied", text, "gate", by="spindle", reason="tool_changed")
    args = call.args if isinstance(call.args, Mapping) else None
    return CallOutcome(call.tool_call_id, call.name, compute_call_checksum(call), refused, attempts=0, args=args)


def _to_json(payload: object) -> JsonValue:
    try:
        return json.loads(json.dumps(payload, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
