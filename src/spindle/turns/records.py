"""The storage of a turn's records: the port, and `Records`, which validates records and delegates to a store.

For a custom store, implement the four methods of `RecordStore` and pass it to `Records(your_store)`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from spindle.calls import ToolCallRecord
from spindle.errors import UsageError
from spindle.turns import backends
from spindle.turns.record_list import KINDS, AnyRecord, Kind, RecordWriter, check_kind, check_record
from spindle.turns.record_types import Memory, Message, Retrievable, Thought

_STORE_METHODS = ("store", "replace", "delete", "load")


class RecordStore(RecordWriter, Protocol):
    """Port for storing and loading records."""

    async def load(self, turn_id: str | None) -> Iterable[tuple[Kind, AnyRecord]]:
        """Return the records of a turn, or all for `None`, in order."""
        ...


@runtime_checkable
class ClosableStore(Protocol):
    """A record store that can be closed."""

    async def aclose(self) -> None:
        """Close the store; a second call does nothing."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordSet:
    """Records by kind, each in order."""

    messages: tuple[Message, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    memories: tuple[Memory, ...] = ()
    retrievables: tuple[Retrievable, ...] = ()
    tool_calls: tuple[ToolCallRecord, ...] = ()


class Records:
    """Stores the records of turns; validates them and delegates to a `RecordStore`.

    Raises:
        UsageError: The store lacks a method of `RecordStore`.
    """

    def __init__(self, store: RecordStore) -> None:
        lacking = [name for name in _STORE_METHODS if not callable(getattr(store, name, None))]
        if lacking:
            kind = type(store).__name__
            raise UsageError(f"Expected a RecordStore, but {kind} lacks {', '.join(lacking)}.", field="store")
        self._store = store

    @classmethod
    def memory(cls) -> "Records":
        """Store records in the memory of this process."""
        return cls(backends.MemoryRecordStore())

    @classmethod
    def sqlite(cls, path: str | PathLike[str]) -> "Records":
        """Store records in a SQLite file, which is created if missing; several processes may share it.

        Artifacts and media are stored as descriptions only; a spool keeps their content.

        Raises:
            UsageError: `path` is not a file path.
        """
        return cls(backends.SqliteRecordStore(path))

    async def store(self, kind: Kind, record: AnyRecord, *, turn_id: str | None = None) -> None:
        """Append a record.

        Raises:
            InvalidRecordError: The record is not of this kind, or cannot be stored.
            RecordsError: The store failed; nothing changed.
        """
        check_record(kind, record)
        await self._store.store(kind, record, turn_id=turn_id)

    async def replace(self, kind: Kind, record: AnyRecord, *, turn_id: str | None = None) -> None:
        """Replace the first record with this id and remove the others; append it if there is none.

        Raises:
            InvalidRecordError: The record is not of this kind, or cannot be stored.
            RecordsError: The store failed; nothing changed.
        """
        check_record(kind, record)
        await self._store.replace(kind, record, turn_id=turn_id)

    async def delete(self, kind: Kind, id: str, *, turn_id: str | None = None) -> None:
        """Delete the first record with this id, if there is one.

        Raises:
            RecordsError: The store failed; nothing changed.
        """
        check_kind(kind)
        await self._store.delete(kind, id, turn_id=turn_id)

    async def load(self, turn_id: str | None = None) -> RecordSet:
        """Return the records of a turn, or all of them.

        Raises:
            RecordsError: The store failed.
        """
        found: dict[str, list[Any]] = {kind: [] for kind in KINDS}
        for kind, record in await self._store.load(turn_id):
            found[kind].append(record)
        return RecordSet(
            messages=tuple(found["message"]),
            thoughts=tuple(found["thought"]),
            memories=tuple(found["memory"]),
            retrievables=tuple(found["retrievable"]),
            tool_calls=tuple(found["tool_call"]),
        )

    async def aclose(self) -> None:
        """Close the store, if it can be closed; a second call does nothing."""
        if isinstance(self._store, ClosableStore):
            await self._store.aclose()

    async def __aenter__(self) -> "Records":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
