"""The saved turns of a journal: one record for each turn, replaced by compare-and-set whenever the turn goes on.

Two processes that run the same turn both try to replace the record; one of them succeeds, and the other one stops
before it runs a call. The record of a turn that was suspended is kept after its end, so that no old state runs again.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, cast

from spindle.errors import InvalidTurnStateError, SecretError, TurnConflictError
from spindle.extras import needs_extra
from spindle.journal.states import StateRecord, StateStore
from spindle.json_types import JsonObject
from spindle.text import quote_name

with needs_extra("tickets", purpose="a turn that is saved in the journal"):
    from spindle.execution.state_key import StateKey, get_process_key
    from spindle.execution.tickets import TicketOffice, open_office
    from spindle.turns.turn_state import SavedTurn, read_state

if TYPE_CHECKING:
    from spindle.execution.ticket_settings import TicketSettings
    from spindle.journal.journal import Journal

KIND: Final = "turn"
TurnStatus: TypeAlias = Literal["running", "suspended", "finished", "failed"]
"""Of the record; `failed` is a turn on an engine that can be resumed by its id."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StoredTurn(NamedTuple):
    """A turn as the journal has it."""

    saved: "SavedTurn"
    status: TurnStatus
    version: int


class TurnStore:
    """Reads and writes the saved turns of one journal."""

    def __init__(self, states: StateStore, key: "StateKey", office: "TicketOffice", journal: "Journal") -> None:
        self._states = states
        self.key = key
        self.office = office
        self.journal = journal

    @classmethod
    def open(cls, settings: "TicketSettings | None") -> "TurnStore | None":
        """Return the store of an executor; `None` if its journal has no room for turns."""
        office = None if settings is None else open_office(settings)
        if settings is None or office is None or settings.journal.states is None:
            return None
        key = get_process_key() if settings.key is None else StateKey(settings.key)
        return cls(settings.journal.states, key, office, settings.journal)

    async def get(self, turn_id: str) -> StoredTurn | None:
        """Look up a turn.

        Raises:
            InvalidTurnStateError: It was saved with another state key, in another format, or was changed.
        """
        record = await self._states.get(KIND, turn_id)
        if record is None:
            return None
        try:
            state = json.loads(self.key.unseal(record.sealed or b"", bound=_bind(turn_id)))
        except SecretError as error:
            raise InvalidTurnStateError(
                f"The turn {quote_name(turn_id)} was saved with another state key, or was changed.", reason="foreign"
            ) from error
        return StoredTurn(read_state(state, self.key), cast("TurnStatus", record.status), record.version)

    async def write(self, state: JsonObject, *, status: TurnStatus, version: int, is_new: bool) -> None:
        """Write a turn; `version` is one more than that of the record it replaces.

        Raises:
            TurnConflictError: Another process has written the turn since.
            JournalError: The journal cannot be written.
        """
        turn_id: str = state["turn_id"]
        record = StateRecord(
            KIND,
            turn_id,
            status,
            json.dumps({"format": state["format"], "iteration": state["iteration"]}),
            created_at=(datetime.now(UTC) - _EPOCH) // timedelta(microseconds=1),
            version=version,
            sealed=self.key.seal(json.dumps(state).encode(), bound=_bind(turn_id)),
            group=state["session_id"],
        )
        existing = await (self._states.insert(record) if is_new else self._states.replace(record))
        if existing is not None:
            action = "resume it, or choose another turn_id" if is_new else "resume it to get its result"
            raise TurnConflictError(
                f"The turn {quote_name(turn_id)} was continued by another process, or is already known; {action}.",
                turn_id=turn_id,
            )

    async def delete(self, turn_id: str) -> None:
        """Delete a turn."""
        await self._states.delete(KIND, turn_id)


def _bind(turn_id: str) -> str:
    return f"saved turn {turn_id}"
