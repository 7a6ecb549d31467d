"""Turns that run on an engine, seen by the runner that starts them: save the turn, start it there, read its report.

The journal decides everything: a turn that it has already is followed, not started again, and the report is read from
it. So any process with the journal can start, answer, cancel or follow the same turn.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, cast

import anyio

from spindle.concurrency import ThreadsafeEvent
from spindle.errors import (
    EngineUnavailableError,
    InvalidTurnStateError,
    JournalError,
    TurnConflictError,
    UnsavableTurnError,
)
from spindle.events import Events
from spindle.json_types import JsonObject, JsonValue
from spindle.text import quote_name
from spindle.turns.context import DispatchContext, TurnContext
from spindle.turns.engine import EngineRun, TurnEngine, TurnRest
from spindle.turns.report import TurnProgress, TurnReport
from spindle.turns.resumption import Resumption, TurnParts
from spindle.turns.signals import AbortSignal
from spindle.turns.turn_saver import TurnSaver
from spindle.turns.turn_state import amend_state
from spindle.turns.turn_store import StoredTurn, TurnStore

_CANCEL_SECONDS: Final = 2.0
"""How long a caller that leaves waits until the engine has its cancellation."""
_NOT_SAVED: Final = (UnsavableTurnError, JournalError, InvalidTurnStateError, EngineUnavailableError)


class RemoteTurns:
    """Runs the turns of one runner on an engine."""

    def __init__(self, engine: TurnEngine, store: TurnStore, parts: TurnParts, events: Events) -> None:
        self._engine = engine
        self._store = store
        self._parts = parts
        self._events = events

    async def run(self, turn: TurnContext) -> TurnReport:
        """Run a turn and return its report; a turn that the journal has already is followed to its end."""
        progress = TurnProgress(DispatchContext(turn=turn))
        engine = EngineRun.create(turn.id, stage="turn-input")
        saver = TurnSaver(progress.ctx, self._store, self._parts.callback, engine=engine)
        try:
            with suppress(TurnConflictError):  # it was started before, perhaps by a process that died
                await saver.claim([])
            return await self._follow(turn.id, turn.abort_signal)
        except _NOT_SAVED as error:
            progress.status, progress.error = "error", error
            return progress.to_report()

    async def resume(
        self,
        state: Mapping[str, JsonValue] | None,
        answers: Mapping[str, JsonValue] | None,
        turn_id: str | None,
        signal: AbortSignal,
    ) -> TurnReport:
        """Give a suspended turn its answers, or a failed one another run, and follow it; one that runs is followed.

        Raises:
            InvalidTurnStateError, InvalidAnswersError, JournalError: As `TurnRunner.resume`.
            EngineUnavailableError: The engine cannot be reached; the answers are saved, and `resume` may be repeated.
        """
        try:
            found = await self._open().open(state, answers, turn_id, on_engine=True)
        except TurnConflictError as error:
            return await self._follow(error.turn_id, signal)
        if isinstance(found, TurnReport):
            return found
        return await self._follow(found.ctx.turn_id, signal)

    def _open(self) -> Resumption:
        return Resumption(self._store, self._parts, self._events)

    async def _follow(self, turn_id: str, signal: AbortSignal) -> TurnReport:
        """Return the report of a turn once it rests; make sure that the engine runs it until then."""
        ended: str | None = None
        while True:
            stored = await self._store.get(turn_id)
            if stored is None:
                text = f"The journal does not have the turn {quote_name(turn_id)} any more."
                raise InvalidTurnStateError(text, reason="unknown")
            if stored.status != "running":
                return await self._open().read_report(stored)
            engine = EngineRun.read(stored.saved.state)
            if engine is None:
                text = f"The turn {quote_name(turn_id)} does not run on an engine, but in a process."
                raise TurnConflictError(text, turn_id=turn_id)
            if engine.id == ended:
                await self._give_up(stored)
            elif await self._wait(engine, stored, signal) != "suspended":
                ended = engine.id

    async def _wait(self, engine: EngineRun, stored: StoredTurn, signal: AbortSignal) -> TurnRest:
        """Wait until the turn rests on the engine; a caller that is cancelled cancels the turn there."""
        aborted, rests = ThreadsafeEvent(), list[TurnRest]()
        forget = signal.on_abort(aborted.set)

        async def watch() -> None:
            await aborted.wait()
            await self._engine.cancel(engine.id)

        try:
            async with anyio.create_task_group() as tasks:
                await self._engine.start(engine.id, stored.saved.turn_id)
                if engine.is_resumed:  # sent whenever it is followed: who saved the answers may have died since
                    await self._engine.answer(engine.id, step=stored.version)
                tasks.start_soon(watch)
                rests.append(await self._engine.wait(engine.id, after=stored.version))
                tasks.cancel_scope.cancel()
        except ExceptionGroup as group:
            raise _get_first(group) from group
        finally:
            forget()
            if not rests:
                with anyio.move_on_after(_CANCEL_SECONDS, shield=True), suppress(EngineUnavailableError):
                    await self._engine.cancel(engine.id)
        return rests[0]

    async def _give_up(self, stored: StoredTurn) -> None:
        """Save that the engine does not run a turn any more; it can be resumed by its id then."""
        text = (
            f"The engine does not run the turn {quote_name(stored.saved.turn_id)} any more: it was terminated there, "
            "or the workers cannot read it (they need the same journal and state key). Resume it by its turn_id."
        )
        facts: JsonObject = {"status": "failed", "report": "error", "error": text, "error_class": None}
        facts["created_at"] = datetime.now(UTC).isoformat()
        version = stored.version + 1
        state = amend_state(stored.saved.signed, self._store.key, step=version, **facts)
        with suppress(TurnConflictError):  # it goes on after all
            await self._store.write(state, status="failed", version=version, is_new=False)


def _get_first(group: "ExceptionGroup[Exception]") -> Exception:
    """Return the first error of a group: the others were caused by it."""
    error = group.exceptions[0]
    return _get_first(cast("ExceptionGroup[Exception]", error)) if isinstance(error, ExceptionGroup) else error
