"""Writes a running turn to the journal, step by step, so that another process can continue it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spindle.errors import JournalError, TurnConflictError, UnsavableTurnError
from spindle.json_types import JsonObject, JsonValue
from spindle.turns.call_progress import CallProgress
from spindle.turns.context import DispatchContext
from spindle.turns.engine import EngineRun
from spindle.turns.turn_state import StateWriter, amend_state
from spindle.turns.turn_store import TurnStore

if TYPE_CHECKING:
    from spindle.turns.turn_store import TurnStatus


class TurnSaver:
    """Writes the state of one running turn to the journal, step by step."""

    def __init__(
        self,
        ctx: DispatchContext,
        store: TurnStore,
        callback: object,
        *,
        version: int = 0,
        is_new: bool = True,
        was_suspended: bool = False,
        engine: EngineRun | None = None,
    ) -> None:
        self._ctx = ctx
        self.store = store
        self._writer = StateWriter(ctx, store.key, callback)
        self._version = version
        """Of the turn's record in the journal."""
        self._is_new = is_new
        """Whether the journal does not have the turn yet."""
        self._was_suspended = was_suspended
        """Whether the state was given away: its end is then remembered."""
        self._is_active = True
        self.engine = engine
        """Of a turn that runs on an engine: every failure to save it is raised, and its end is remembered."""
        self._last: JsonObject = {}
        """The state that was written last."""

    @property
    def step(self) -> int:
        """The version of the turn's record in the journal."""
        return self._version

    async def claim(self, calls: Sequence[CallProgress]) -> None:
        """Save a turn that is resumed, with the answers; of several processes, one succeeds.

        Raises:
            TurnConflictError: Another process has continued the turn.
            JournalError: The journal cannot be written.
        """
        await self._write(calls, "running")

    async def checkpoint(self, calls: Sequence[CallProgress]) -> None:
        """Save the turn, so that another process can continue it; a turn that cannot be saved goes on without.

        Raises:
            TurnConflictError: Another process has continued the turn.
            UnsavableTurnError, JournalError: A turn on an engine cannot be saved.
        """
        if not self._is_active:
            return
        try:
            await self._write(calls, "running")
        except (UnsavableTurnError, JournalError) as error:
            if self.engine is not None:
                raise
            message = "the turn was not saved, and cannot be resumed if this process dies"
            self._ctx.events.warn(message, source="journal", error=error)
            await self._forget()

    async def suspend(self, calls: Sequence[CallProgress]) -> JsonObject:
        """Save the turn with the questions it waits for, and return its state.

        Raises:
            TurnConflictError: Another process has continued the turn.
            UnsavableTurnError: A part of the turn is not JSON.
            JournalError: The journal cannot be written.
        """
        self._was_suspended = True
        return await self._write(calls, "suspended")

    async def finish(self, status: str, text: str, error: str | None) -> None:
        """Erase the turn; of one that was suspended, its report is kept, for those who resume the old state again.

        Raises:
            UnsavableTurnError, JournalError, TurnConflictError: The end of a turn on an engine cannot be saved.
        """
        if not self._is_active or self._is_new:
            return
        try:
            if self._was_suspended or self.engine is not None:
                await self._write([], "finished", report=status, text=text, error=error)
            else:
                await self._forget()
        except (UnsavableTurnError, JournalError, TurnConflictError) as problem:
            if self.engine is not None:
                raise
            self._ctx.events.warn("the end of the turn could not be saved", source="journal", error=problem)

    async def fail(self, status: str, error: BaseException) -> None:
        """Save how a turn on an engine failed, with the state that was saved last, from which it can be resumed.

        Raises:
            JournalError, TurnConflictError: The failure cannot be saved.
        """
        version = self._version + 1
        facts: JsonObject = {"report": status, "error": str(error), "error_class": type(error).__name__}
        facts["created_at"] = datetime.now(UTC).isoformat()
        state = amend_state(self._last, self.store.key, step=version, status="failed", **facts)
        await self.store.write(state, status="failed", version=version, is_new=False)
        self._version = version

    async def _write(
        self, calls: Sequence[CallProgress], status: "TurnStatus", *, text: str = "", **facts: JsonValue
    ) -> JsonObject:
        version = self._version + 1
        if self.engine is not None:
            facts["engine"] = self.engine.to_json()
        state = await self._writer.build(calls, step=version, status=status, text=text, **facts)
        try:
            await self.store.write(state, status=status, version=version, is_new=self._is_new)
        except TurnConflictError:
            self._is_active = False
            raise
        self._version, self._is_new, self._last = version, False, state
        return state

    async def _forget(self) -> None:
        self._is_active = False
        if not self._is_new:
            try:
                await self.store.delete(self._ctx.turn_id)
            except JournalError as error:
                self._ctx.events.warn("a saved turn could not be deleted", source="journal", error=error)
