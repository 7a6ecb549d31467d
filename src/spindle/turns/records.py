"""What a turn keeps: the port behind it, and the shelves on which a context shows it.

A record is handed to the port first and shown only then, so a port that fails leaves nothing that is not kept. To keep
records in a place of your own, write the four methods of `RecordStore` and give `Records(your_store)`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from os import PathLike
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

from anyio import Lock

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.spool import Spool
from spindle.calls import ToolCallRecord
from spindle.errors import ArtifactIdCollisionError, InvalidRecordError, UsageError
from spindle.turns.record_types import Memory, Message, Retrievable, Thought

Kind: TypeAlias = Literal["message", "thought", "memory", "retrievable", "tool_call"]
AnyRecord: TypeAlias = Message | Thought | Memory | Retrievable | ToolCallRecord
R = TypeVar("R")

KINDS: Mapping[str, type[Any]] = {
    "message": Message,
    "thought": Thought,
    "memory": Memory,
    "retrievable": Retrievable,
    "tool_call": ToolCallRecord,
}
_AT_ONCE = nullcontext()
_PORT = ("store", "replace", "delete", "load")


class RecordStore(Protocol):
    """What a place for records does; each change is kept when its method returns, or raises and changed nothing.

    A message, a thought, a memory or a retrievable is found by its id alone. A tool call is found by its id within its
    turn, because providers use the ids of calls again; several calls of one turn may even share one.
    """

    async def store(self, kind: Kind, record: Any, *, turn_id: str | None) -> None:
        """Add a record behind all others."""
        ...

    async def replace(self, kind: Kind, record: Any, *, turn_id: str | None) -> None:
        """Put a record in the place of the first that has its id, and remove the others; add it when there is none."""
        ...

    async def delete(self, kind: Kind, id: str, *, turn_id: str | None) -> None:
        """Remove the first record with that id, if there is one."""
        ...

    async def load(self, turn_id: str | None) -> Iterable[tuple[Kind, Any]]:
        """Give the records that were added for a turn, or all for `None`, in order."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordSet:
    """Records by their kind, each in order."""

    messages: tuple[Message, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    memories: tuple[Memory, ...] = ()
    retrievables: tuple[Retrievable, ...] = ()
    tool_calls: tuple[ToolCallRecord, ...] = ()


class Records:
    """Where the records of turns are kept.

    Raises:
        UsageError: The store lacks a method of `RecordStore`.
    """

    def __init__(self, store: RecordStore) -> None:
        lacking = [name for name in _PORT if not callable(getattr(store, name, None))]
        if lacking:
            kind = type(store).__name__
            raise UsageError(f"a {kind} cannot keep records, it lacks {', '.join(lacking)}", field="store")
        self._store = store

    @classmethod
    def memory(cls) -> "Records":
        """Keep them in this process, as long as it lives."""
        from spindle.turns.backends.memory import MemoryStore  # noqa: PLC0415 - a port's factory method

        return cls(MemoryStore())

    @classmethod
    def sqlite(cls, path: str | PathLike[str]) -> "Records":
        """Keep them in a SQLite file, which is made when it is not there; several processes may share it.

        Artifacts and media are kept by their description; their content is the business of a spool.

        Raises:
            UsageError: That is no path.
        """
        from spindle.turns.backends.sqlite import SqliteStore  # noqa: PLC0415 - a port's factory method

        return cls(SqliteStore(path))

    async def store(self, kind: Kind, record: AnyRecord, *, turn_id: str | None = None) -> None:
        """Add a record behind all others.

        Raises:
            InvalidRecordError: It is none of that kind, or cannot be kept there.
            RecordsError: The place failed; nothing changed.
        """
        check_record(kind, record)
        await self._store.store(kind, record, turn_id=turn_id)

    async def replace(self, kind: Kind, record: AnyRecord, *, turn_id: str | None = None) -> None:
        """Put a record in the place of the first that has its id, and remove the others; add it when there is none.

        Raises:
            InvalidRecordError: It is none of that kind, or cannot be kept there.
            RecordsError: The place failed; nothing changed.
        """
        check_record(kind, record)
        await self._store.replace(kind, record, turn_id=turn_id)

    async def delete(self, kind: Kind, id: str, *, turn_id: str | None = None) -> None:
        """Remove the first record with that id, if there is one.

        Raises:
            RecordsError: The place failed; nothing changed.
        """
        _check_kind(kind)
        await self._store.delete(kind, id, turn_id=turn_id)

    async def load(self, turn_id: str | None = None) -> RecordSet:
        """Give the records that were added for a turn, or all of them.

        Raises:
            RecordsError: The place failed.
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
        """Let go of the place, where it holds anything; closing twice does nothing."""
        close = getattr(self._store, "aclose", None)
        if callable(close):
            await cast("Any", close())

    async def __aenter__(self) -> "Records":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def check_record(kind: str, record: object) -> None:
    """Pass a record of that kind.

    Raises:
        InvalidRecordError: There is no such kind, or the record is none.
    """
    _check_kind(kind)
    wanted = KINDS[kind]
    if not isinstance(record, wanted):
        refused: type[InvalidRecordError] = getattr(wanted, "invalid", InvalidRecordError)
        raise refused(f"a {kind} is a {wanted.__name__}, not a {type(record).__name__}", fields=("record",))


def _check_kind(kind: object) -> None:
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidRecordError(f"records are of the kinds {', '.join(KINDS)}; there is no {kind!r}", fields=("kind",))


class RecordList(Generic[R]):
    """The records of one kind that a turn shows, in order; kept before they are shown, where there is a place."""

    __slots__ = ("_checksums", "_identities", "_kind", "_lock", "_records", "_shown", "_turn_id")

    def __init__(
        self, kind: Kind, records: Records | None = None, *, turn_id: str | None = None, shown: Iterable[R] = ()
    ) -> None:
        self._kind: Kind = kind
        self._records = records
        self._turn_id = turn_id
        self._lock: Lock | None = None
        self._show(list(shown))

    async def store(self, record: R, *, shown: R | None = None) -> R:
        """Keep a record and show it, or `shown` in its stead, last; one that is on the shelf already stays there.

        Raises:
            InvalidRecordError: It is none of this kind.
        """
        check_record(self._kind, record)
        async with self._writing():
            if record not in self:
                if self._records is not None:
                    await self._records.store(self._kind, cast("AnyRecord", record), turn_id=self._turn_id)
                record = record if shown is None else shown
                self._shown.append(record)
                self._identities.add(id(record))
                checksum = _checksum(record)
                self._checksums[checksum] = self._checksums.get(checksum, 0) + 1
        return record

    async def mutate(self, record: R, *, shown: R | None = None) -> R:
        """Keep a record in the place of all that have its id, and show it where the first of them was, else last.

        Where `shown` is given, that is shown instead.

        Raises:
            InvalidRecordError: It is none of this kind.
        """
        check_record(self._kind, record)
        async with self._writing():
            if self._records is not None:
                await self._records.replace(self._kind, cast("AnyRecord", record), turn_id=self._turn_id)
            record = record if shown is None else shown
            before, first = self._before(_id(record))
            self._show([*before[:first], record, *(each for each in before[first:] if _id(each) != _id(record))])
        return record

    async def delete(self, id: str) -> None:
        """Remove the first record with that id, here and where it is kept."""
        async with self._writing():
            if self._records is not None:
                await self._records.delete(self._kind, id, turn_id=self._turn_id)
            before, first = self._before(id)
            self._show([*before[:first], *before[first + 1 :]])

    def count(self, checksum: str) -> int:
        """Count the calls on the shelf that have a checksum."""
        return self._checksums.get(checksum, 0)

    def _writing(self) -> AbstractAsyncContextManager[object]:
        """One change at a time: two could be kept in one order and shown in another."""
        if self._records is None:
            return _AT_ONCE
        if self._lock is None:
            self._lock = Lock()
        return self._lock

    def _before(self, wanted: object) -> tuple[list[R], int]:
        """Give what is shown, and where the first record with that id is, or the end."""
        shown = self._shown
        return shown, next((place for place, each in enumerate(shown) if _id(each) == wanted), len(shown))

    def _show(self, records: list[R]) -> None:
        self._shown = records
        # Not by id or equality: two records may be equal, or share an id, and are still two.
        self._identities = set(map(id, records))
        # Most shelves start empty, and for nothing a plain dict is made much faster.
        self._checksums: dict[object, int] = Counter(map(_checksum, records)) if records else {}

    def all(self) -> tuple[R, ...]:
        """Give what is shown now, in order."""
        return tuple(self._shown)

    def __iter__(self) -> Iterator[R]:
        return iter(tuple(self._shown))

    def __len__(self) -> int:
        return len(self._shown)

    def __contains__(self, record: object) -> bool:
        return id(record) in self._identities

    def __getitem__(self, index: int) -> R:
        return self._shown[index]


class TurnRecords:
    """The five shelves of a turn, with what it starts with; that is shown, and not kept again."""

    __slots__ = ("memory", "message", "retrievable", "thought", "tool_call")

    def __init__(
        self,
        records: Records | None = None,
        *,
        turn_id: str | None = None,
        messages: Iterable[Any] = (),
        thoughts: Iterable[Thought] = (),
        memories: Iterable[Memory] = (),
        retrievables: Iterable[Retrievable] = (),
        tool_calls: Iterable[ToolCallRecord] = (),
    ) -> None:
        self.message: RecordList[Any] = RecordList("message", records, turn_id=turn_id, shown=messages)
        self.thought = RecordList("thought", records, turn_id=turn_id, shown=thoughts)
        self.memory = RecordList("memory", records, turn_id=turn_id, shown=memories)
        self.retrievable = RecordList("retrievable", records, turn_id=turn_id, shown=retrievables)
        self.tool_call = RecordList("tool_call", records, turn_id=turn_id, shown=tool_calls)


def _id(record: object) -> object:
    return getattr(record, "id", None)


def _checksum(record: object) -> object:
    return getattr(record, "checksum", None)


def initial_retrievables(retrievables: Iterable[Retrievable], calls: Iterable[ToolCallRecord]) -> list[Retrievable]:
    """Take what a turn starts with: its texts are in memory already, and stay there.

    Raises:
        ArtifactIdCollisionError: Two of them, or one of them and a call, have one id.
        InvalidRetrievableError: Something else is among them.
    """
    taken, found = {call.id for call in calls}, list(retrievables)
    for each in found:
        check_record("retrievable", each)
        if each.id in taken:
            raise _clash(each.id)
        taken.add(each.id)
    return [_in_memory(each) for each in found]


async def spool_retrievable(found: Retrievable, spool: Spool | None, *, place: str, turn_id: str) -> Retrievable:
    """Give what is shown of a text that was found: itself when it is inline, else an artifact of it in the spool.

    Raises:
        SpoolError: It could not be kept.
    """
    if spool is None or not _is_to_be_kept(found):
        return _in_memory(found)
    reader = await spool.write(place, str(found.content), turn_id=turn_id)
    return replace(found, content=(found.artifact_constructor or Artifact)(reader))


def check_call_id(id: str, shelves: TurnRecords) -> None:
    """Pass the id of a call that no retrieved text has.

    Raises:
        ArtifactIdCollisionError: One has it.
    """
    if len(shelves.retrievable) and any(found.id == id for found in shelves.retrievable):
        raise _clash(id)


def check_retrievable(found: Retrievable, shelves: TurnRecords) -> None:
    """Pass a retrieved text whose id no call has.

    Raises:
        ArtifactIdCollisionError: One has it.
        InvalidRetrievableError: It is none.
    """
    check_record("retrievable", found)
    if any(call.id == found.id for call in shelves.tool_call):
        raise _clash(found.id)


def _in_memory(found: Retrievable) -> Retrievable:
    if not _is_to_be_kept(found):
        return found
    return replace(found, content=(found.artifact_constructor or Artifact).from_text(str(found.content)))


def _is_to_be_kept(found: Retrievable) -> bool:
    return not found.inline and isinstance(found.content, str)


def _clash(id: str) -> ArtifactIdCollisionError:
    return ArtifactIdCollisionError(
        f"{id!r} is the id of a retrieved text and of something else in this turn, so a reader could not tell them "
        "apart; give the text another id",
        field="id",
    )
