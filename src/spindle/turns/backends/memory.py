"""Record storage in the memory of this process."""

from threading import Lock
from typing import NamedTuple

from anyio.lowlevel import checkpoint

from spindle.turns.record_list import AnyRecord, Kind


class _Row(NamedTuple):
    kind: Kind
    turn_id: str | None
    record: AnyRecord


class MemoryRecordStore:
    """Stores the record objects in a list, including the content of artifacts and media."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._lock = Lock()

    async def store(self, kind: Kind, record: AnyRecord, *, turn_id: str | None) -> None:
        """Append a record."""
        await checkpoint()  # first, so that a record of a cancelled caller is not stored
        with self._lock:
            self._rows.append(_Row(kind, turn_id, record))

    async def replace(self, kind: Kind, record: AnyRecord, *, turn_id: str | None) -> None:
        """Replace the first record with this id and remove the others; append it if there is none."""
        await checkpoint()
        with self._lock:
            places = self._find_indexes(kind, record.id, turn_id)
            if not places:
                self._rows.append(_Row(kind, turn_id, record))
                return
            self._rows[places[0]] = self._rows[places[0]]._replace(record=record)
            for place in reversed(places[1:]):
                del self._rows[place]

    async def delete(self, kind: Kind, id: str, *, turn_id: str | None) -> None:
        """Delete the first record with this id, if there is one."""
        await checkpoint()
        with self._lock:
            for place in self._find_indexes(kind, id, turn_id)[:1]:
                del self._rows[place]

    async def load(self, turn_id: str | None) -> list[tuple[Kind, AnyRecord]]:
        """Return the records of a turn, or all for `None`, in order."""
        await checkpoint()
        with self._lock:
            return [(row.kind, row.record) for row in self._rows if turn_id in {None, row.turn_id}]

    def _find_indexes(self, kind: Kind, id: str, turn_id: str | None) -> list[int]:
        return [
            place
            for place, row in enumerate(self._rows)
            if row.kind == kind and row.record.id == id and (kind != "tool_call" or row.turn_id == turn_id)
        ]
