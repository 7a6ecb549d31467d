"""Resuming a turn: find its newest state, apply the answers, and rebuild the turn that goes on."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from spindle.artifacts.spool import Spool
from spindle.errors import (
    InvalidAnswersError,
    InvalidTurnStateError,
    LimitError,
    NackError,
    RunError,
    SpindleError,
    TurnConflictError,
    TurnFailedError,
    UnsavableTurnError,
)
from spindle.events import Events
from spindle.execution.tickets import StoredTicket
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.stash import Stash
from spindle.text import quote_name
from spindle.tools.registry import ToolRegistry
from spindle.turns.call_progress import CallProgress, Decision
from spindle.turns.context import DispatchContext, TurnContext
from spindle.turns.engine import MAX_STARTS, EngineRun
from spindle.turns.flow_feed import get_feed
from spindle.turns.gate_desk import GateDesk
from spindle.turns.record_list import TurnRecords
from spindle.turns.report import Advance, Status, TurnReport
from spindle.turns.state_content import ContentReader, to_plain_json
from spindle.turns.turn_saver import TurnSaver
from spindle.turns.turn_state import SavedTurn, read_state, restore_turn
from spindle.turns.turn_store import StoredTurn, TurnStore

if TYPE_CHECKING:
    from spindle.journal.journal import Journal
    from spindle.turns.records import Records


class TurnParts(NamedTuple):
    """The parts of a runner that a resumed turn uses."""

    tools: ToolRegistry
    spool: Spool
    journal: "Journal | None"
    records: "Records | None"
    gates: GateDesk
    callback: object


class ResumedTurn(NamedTuple):
    """A turn that goes on."""

    ctx: DispatchContext
    calls: list[CallProgress]
    saver: TurnSaver


class Resumption:
    """The resuming of one turn."""

    def __init__(self, store: TurnStore, parts: TurnParts, events: Events) -> None:
        self._store = store
        self._parts = parts
        self._events = events

    async def open(
        self,
        state: object,
        answers: Mapping[str, JsonValue] | None,
        turn_id: str | None,
        *,
        on_engine: bool = False,
    ) -> ResumedTurn | TurnReport:
        """Return the turn to run, or its report if there is nothing to do.

        With `on_engine`, the turn goes on there; one that is running is left alone, which is a conflict.

        Raises:
            InvalidTurnStateError: The state is invalid, or the journal does not know the turn.
            InvalidAnswersError: An answer is unknown or invalid, or there is none.
            TurnConflictError: Another process resumes the turn at the same time.
            JournalError: The journal cannot be read or written.
        """
        own = None if state is None else read_state(state, self._store.key)
        current, is_new = await self._find(own, turn_id)
        given = dict(answers or {})
        _check_known(given, current.saved.waiting | (set() if own is None else own.waiting))
        turn, calls = await self._restore(current.saved)
        if current.status == "finished":
            return build_saved_report(turn, calls, current.saved)
        if current.status == "running" and on_engine:
            raise TurnConflictError("The turn is running.", turn_id=current.saved.turn_id)
        is_answered = _apply_answers(given, calls)
        if current.status == "suspended":
            is_settled = await self._check_tickets(calls)
            if not is_answered and not is_settled:
                if own is not None and own.step < current.saved.step:
                    return build_saved_report(turn, calls, current.saved)
                _refuse_missing(current.saved)
        saver = TurnSaver(
            turn,
            self._store,
            self._parts.callback,
            version=current.version,
            is_new=is_new,
            was_suspended=current.status == "suspended" or own is not None,
            engine=EngineRun.resume(current.saved.state, current.status) if on_engine else None,
        )
        await saver.claim(calls)
        return ResumedTurn(turn, calls, saver)

    async def take(self, turn_id: str, *, is_cancelled: bool) -> ResumedTurn | Advance:
        """Return a turn on an engine for its next iteration, or how far it is if it cannot go on.

        Raises:
            InvalidTurnStateError: The journal does not have the turn, or it cannot be read here.
            TurnConflictError: Another worker takes the turn at the same time.
            JournalError: The journal cannot be read or written.
        """
        stored, _ = await self._find(None, turn_id)
        if stored.status in {"finished", "failed"}:
            return Advance("ended", stored.version)
        if stored.status == "suspended" and not is_cancelled:
            return Advance("suspended", stored.version)
        turn, calls = await self._restore(stored.saved)
        engine = EngineRun.read(stored.saved.state) or EngineRun.create(turn_id, stage="dispatch")
        engine = replace(engine, starts=engine.starts + 1)
        saver = TurnSaver(turn, self._store, self._parts.callback, version=stored.version, is_new=False, engine=engine)
        await saver.claim(calls)
        if engine.starts <= MAX_STARTS:
            return ResumedTurn(turn, calls, saver)
        problem = TurnFailedError(f"{MAX_STARTS} workers died in the same iteration of the turn, or were stopped.")
        await saver.fail("error", problem)
        return Advance("ended", saver.step)

    async def read_report(self, stored: StoredTurn) -> TurnReport:
        """Build the report of a turn that was suspended, or has ended, on an engine.

        Raises:
            InvalidTurnStateError: The state cannot be read here.
        """
        return build_saved_report(*await self._restore(stored.saved), stored.saved)

    async def _find(self, own: SavedTurn | None, turn_id: str | None) -> tuple[StoredTurn, bool]:
        """Return the newest state of the turn, and whether only the caller has it."""
        wanted = turn_id if own is None else own.turn_id
        if wanted is None or (turn_id is not None and turn_id != wanted):
            raise InvalidTurnStateError("Pass the state of a suspended turn, or a turn_id.", reason="invalid")
        stored = await self._store.get(wanted)
        if stored is not None and (own is None or stored.version >= own.step):
            return stored, False
        if stored is None and own is not None and own.state["status"] == "suspended":
            return StoredTurn(own, "suspended", own.step), True
        raise InvalidTurnStateError(
            f"The journal does not have the turn {quote_name(wanted)}: it has ended, or belongs to another journal.",
            reason="unknown",
        )

    async def _restore(self, saved: SavedTurn) -> tuple[DispatchContext, list[CallProgress]]:
        parts, state = self._parts, saved.state
        try:
            restored = await restore_turn(saved, ContentReader(parts.spool, parts.tools, self._events))
            settings, kept = state["settings"], restored.records
            turn = TurnContext(
                id=saved.turn_id,
                session_id=state["session_id"],
                system_prompt=state["system_prompt"],
                tools=parts.tools.copy(),
                events=self._events,
                stash=Stash(saved.private["stash"]),
                spool=parts.spool,
                journal=parts.journal,
                records=parts.records,
                gates=parts.gates,
                working_dir=settings["working_dir"],
                dry_run=settings["dry_run"],
                filter=restored.filter,
                attachments=restored.attachments,
                caller=state["caller"],
            )
            turn.records = TurnRecords(
                parts.records,
                turn_id=turn.id,
                messages=restored.messages,
                thoughts=kept["thought"],
                memories=kept["memory"],
                retrievables=kept["retrievable"],
                tool_calls=kept["tool_call"],
            )
            ctx = DispatchContext(turn=turn)
            ctx.iteration = state["iteration"]
            ctx.usage.update(state["usage"])
            ctx.tool_context().tainted = settings["tainted"]
            if is_object(flow := saved.private.get("flow")):
                get_feed(turn).saved = flow
        except (SpindleError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise InvalidTurnStateError(f"The state of the turn cannot be read: {error!r}", reason="invalid") from error
        restore = getattr(parts.callback, "restore_state", None)
        if callable(restore) and saved.private["callback"] is not None:
            restore(ctx, saved.private["callback"])
        return ctx, restored.calls

    async def _check_tickets(self, calls: list[CallProgress]) -> bool:
        """Return whether a ticket of the turn was answered elsewhere, or has expired.

        Raises:
            InvalidTurnStateError: The journal does not accept a ticket.
        """
        is_settled = False
        for item in calls:
            if item.record is None and item.ticket is not None and item.gate is None:
                found = await self._store.office.find(item.ticket)
                if not isinstance(found, StoredTicket):
                    problem = "foreign" if found == "foreign" else "tampered" if found == "tampered" else "unknown"
                    raise InvalidTurnStateError(
                        f"The journal does not accept the ticket of {item.call.name!r} ({found}).", reason=problem
                    )
                current = await self._store.office.expire(found)
                is_settled = is_settled or current.record.status != "pending"
        return is_settled


def _check_known(answers: Mapping[str, JsonValue], known: set[str]) -> None:
    unknown = tuple(name for name in answers if name not in known)
    if unknown:
        raise InvalidAnswersError(
            f"The turn does not wait for {', '.join(map(quote_name, map(str, unknown)))}; its state lists what is "
            "pending.",
            reason="unknown",
            ids=unknown,
        )


def _refuse_missing(saved: SavedTurn) -> NoReturn:
    ids = tuple(sorted(saved.waiting))
    raise InvalidAnswersError(
        f"The turn waits for {len(ids)} answers, and none was given: pass answers={{id: value}} for "
        f"{', '.join(map(quote_name, ids))}.",
        reason="missing",
        ids=ids,
    )


def _apply_answers(answers: Mapping[str, JsonValue], calls: list[CallProgress]) -> bool:
    """Give each call the answer to what it waits for; return whether there was one.

    Raises:
        InvalidAnswersError: An answer has no meaning for what it answers.
    """
    is_answered = False
    for item in calls:
        item.problem = None
        waits_for = item.waits_for
        if waits_for is None or waits_for not in answers:
            continue
        is_answered, value = True, answers[waits_for]
        if item.gate is None:
            item.decision = _read_decision(waits_for, value)
        else:
            try:
                item.answers[waits_for] = to_plain_json(value, "answers")
            except UnsavableTurnError as error:
                raise InvalidAnswersError(str(error), reason="invalid", ids=(waits_for,)) from error
    return is_answered


def _read_decision(ticket: str, value: object) -> Decision:
    if isinstance(value, bool):
        return Decision(value)
    if is_object(value) and isinstance(value.get("approved"), bool) and value.keys() <= {"approved", "args", "by"}:
        args, by = value.get("args"), value.get("by")
        if (args is None or is_object(args)) and (by is None or isinstance(by, str)):
            return Decision(value["approved"], args, by)
    raise InvalidAnswersError(
        f"Expected True, False or a mapping with approved, args and by as the answer to {quote_name(ticket)}.",
        reason="invalid",
        ids=(ticket,),
    )


def build_saved_report(ctx: DispatchContext, calls: list[CallProgress], saved: SavedTurn) -> TurnReport:
    """Build the report of a turn that was saved by another run of it."""
    state, turn, engine = saved.state, ctx.turn, EngineRun.read(saved.state)
    status: Status = "suspended" if state["status"] == "suspended" else state["report"]
    ended_at = datetime.fromisoformat(state["created_at"])
    started_at = ended_at if engine is None else min(datetime.fromisoformat(engine.started_at), ended_at)
    return TurnReport(
        status=status,
        text=state["text"],
        turn_id=turn.id,
        messages=turn.messages,
        tool_calls=turn.tool_calls + tuple(item.record for item in calls if item.record is not None),
        iterations=ctx.iteration,
        usage=dict(ctx.usage),
        started_at=started_at,
        ended_at=ended_at,
        duration_ms=(ended_at - started_at).total_seconds() * 1000,
        error=_build_error(status, state),
        state=saved.signed if status == "suspended" else None,
    )


def _build_error(status: Status, state: JsonObject) -> RunError | None:
    text: str | None = state.get("error")
    if text is None:
        return None
    if status == "limit":
        return LimitError(text)
    return TurnFailedError(text, class_name=state.get("error_class")) if status == "error" else NackError(text)
