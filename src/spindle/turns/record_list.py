"""The records of a turn: the lists that a context shows, cursors over them, and the rules for retrieved texts.

A record is stored first and shown only then, so a failing store leaves no record that is shown but not stored.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from anyio import Lock

from spindle import artifacts
from spindle.artifacts.forge import ArtifactIndex
from spindle.artifacts.spool import Spool
from spindle.calls import ToolCallRecord
from spindle.errors import ArtifactIdCollisionError, InvalidRecordError
from spindle.trust.labels import TAINTING, label_of_record
from spindle.turns.record_types import (
    Memory,
    Message,
    MessageLike,
    Retrievable,
    Thought,
    check_messages,
    collect_attachments,
    may_have_attachments,
)

if TYPE_CHECKING:
    from spindle.artifacts.artifact import Artifact
    from spindle.media import Media

Kind: TypeAlias = Literal["message", "thought", "memory", "retrievable", "tool_call"]
AnyRecord: TypeAlias = Message | Thought | Memory | Retrievable | ToolCallRecord
R = TypeVar("R")

KINDS: Mapping[str, type[AnyRecord]] = {
    "message": Message,
    "thought": Thought,
    "memory": Memory,
    "retrievable": Retrievable,
    "tool_call": ToolCallRecord,
}
_NO_LOCK = nullcontext()


def check_record(kind: str, record: object) -> AnyRecord:
    """Check that a record is of a kind and return it.

    Raises:
        InvalidRecordError: The kind is unknown, or the record is of another kind.
    """
    check_kind(kind)
    wanted = KINDS[kind]
    if not isinstance(record, wanted):
        refused: type[InvalidRecordError] = getattr(wanted, "invalid", InvalidRecordError)
        raise refused(
            f"Expected a {wanted.__name__} for the kind {kind!r}, got {type(record).__name__}.", fields=("record",)
        )
    return record


def check_kind(kind: object) -> None:
    """Check that there is such a kind of records.

    Raises:
        InvalidRecordError: The kind is unknown.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidRecordError(f"Unknown record kind {kind!r}; expected one of {', '.join(KINDS)}.", fields=("kind",))


class RecordWriter(Protocol):
    """Port for storing records; each change is durable when its method returns, or raises without an effect.

    A message, a thought, a memory or a retrievable is identified by its id. A tool call is identified by its id within
    its turn, because providers reuse call ids; several calls of one turn may even share one.
    """

    async def store(self, kind: Kind, record: AnyRecord, *, turn_id: str | None) -> None:
        """Append a record."""
        ...

    async def replace(self, kind: Kind, record: AnyRecord, *, turn_id: str | None) -> None:
        """Replace the first record with this id and remove the others; append it if there is none."""
        ...

    async def delete(self, kind: Kind, id: str, *, turn_id: str | None) -> None:
        """Delete the first record with this id, if there is one."""
        ...


class RecordList(Generic[R]):
    """The records of one kind in a turn, in order; stored before they are shown, if there is a store."""

    __slots__ = ("_all", "_checksums", "_identities", "_kind", "_lock", "_records", "_shown", "_turn_id", "revision")

    def __init__(
        self, kind: Kind, records: RecordWriter | None = None, *, turn_id: str | None = None, shown: Iterable[R] = ()
    ) -> None:
        self._kind: Kind = kind
        self._records = records
        self._turn_id = turn_id
        self._lock: Lock | None = None
        self.revision = 0
        """The number of changes that were not appends."""
        self._set_shown(list(shown) if shown else [])

    async def store(self, record: R, *, shown: R | None = None) -> R:
        """Store a record and append it, or `shown` instead of it; a record that is already in the list stays there.

        Raises:
            InvalidRecordError: The record is of another kind.
        """
        stored = check_record(self._kind, record)
        if self._records is None:
            return record if record in self else self._append(record if shown is None else shown)
        async with self._lock_writes():
            if record in self:
                return record
            await self._records.store(self._kind, stored, turn_id=self._turn_id)
            return self._append(record if shown is None else shown)

    def _append(self, record: R) -> R:
        self._shown.append(record)
        self._all = None
        self._identities.add(id(record))
        checksum = _checksum(record)
        self._checksums[checksum] = self._checksums.get(checksum, 0) + 1
        return record

    async def mutate(self, record: R, *, shown: R | None = None) -> R:
        """Replace all records with the same id by this one, in the place of the first; append it if there is none.

        With `shown`, that record is shown instead.

        Raises:
            InvalidRecordError: The record is of another kind.
        """
        stored = check_record(self._kind, record)
        async with self._lock_writes():
            if self._records is not None:
                await self._records.replace(self._kind, stored, turn_id=self._turn_id)
            record = record if shown is None else shown
            before, first = self._find_index(_id(record))
            self._set_shown([*before[:first], record, *(each for each in before[first:] if _id(each) != _id(record))])
        return record

    async def delete(self, id: str) -> None:
        """Delete the first record with this id, here and in the store."""
        async with self._lock_writes():
            if self._records is not None:
                await self._records.delete(self._kind, id, turn_id=self._turn_id)
            before, first = self._find_index(id)
            self._set_shown([*before[:first], *before[first + 1 :]])

    def count(self, checksum: str) -> int:
        """Return the number of calls with this checksum."""
        return self._checksums.get(checksum, 0)

    def _lock_writes(self) -> AbstractAsyncContextManager[object]:
        """Return the lock for one change at a time: two changes could be stored and shown in different orders."""
        if self._records is None:
            return _NO_LOCK
        if self._lock is None:
            self._lock = Lock()
        return self._lock

    def _find_index(self, wanted: object) -> tuple[list[R], int]:
        """Return the shown records, and the index of the first with this id, or the end."""
        shown = self._shown
        return shown, next((place for place, each in enumerate(shown) if _id(each) == wanted), len(shown))

    def _set_shown(self, records: list[R]) -> None:
        self._shown = records
        self._all: tuple[R, ...] | None = None
        self.revision += 1
        # By identity: two records that are equal, or share an id, are still two records.
        self._identities = set(map(id, records)) if records else set[int]()
        # Most lists start empty, and an empty dict is created much faster than a Counter.
        self._checksums: dict[object, int] = Counter(map(_checksum, records)) if records else {}

    def all(self) -> tuple[R, ...]:
        """Return the records, in order."""
        if self._all is None:
            self._all = tuple(self._shown)
        return self._all

    def since(self, position: int) -> list[R]:
        """Return the records from a position on."""
        return self._shown[position:]

    def __iter__(self) -> Iterator[R]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self._shown)

    def __contains__(self, record: object) -> bool:
        return id(record) in self._identities

    def __getitem__(self, index: int) -> R:
        return self._shown[index]


class RecordCursor(Generic[R]):
    """Reads a record list while it grows, so that its reader works on new records only."""

    __slots__ = ("_list", "_position", "_revision")

    def __init__(self, records: RecordList[R]) -> None:
        self._list = records
        self._position = 0
        self._revision = records.revision

    def read(self) -> tuple[bool, list[R]]:
        """Return whether earlier records changed, and the records to read: all after a change, otherwise new ones."""
        has_changed = self._list.revision != self._revision
        found = self._list.since(0 if has_changed else self._position)
        self._position, self._revision = len(self._list), self._list.revision
        return has_changed, found


class TurnRecords:
    """The five record lists of a turn; initial records are shown, but not stored again."""

    __slots__ = (
        "_artifacts",
        "_attached",
        "_build_list",
        "_calls",
        "_has_untrusted_call",
        "_memory",
        "_messages",
        "_thought",
        "message",
        "retrievable",
        "tool_call",
    )

    def __init__(
        self,
        records: RecordWriter | None = None,
        *,
        turn_id: str | None = None,
        messages: Iterable[MessageLike] = (),
        thoughts: Iterable[Thought] = (),
        memories: Iterable[Memory] = (),
        retrievables: Iterable[Retrievable] = (),
        tool_calls: Iterable[ToolCallRecord] = (),
    ) -> None:
        self.message: RecordList[MessageLike] = RecordList(
            "message", records, turn_id=turn_id, shown=check_messages(messages)
        )
        self._build_list: partial[RecordList[Any]] = partial(RecordList, records=records, turn_id=turn_id)
        self._thought: RecordList[Thought] | Iterable[Thought] = thoughts
        self._memory: RecordList[Memory] | Iterable[Memory] = memories
        self.retrievable = RecordList("retrievable", records, turn_id=turn_id, shown=retrievables)
        self.tool_call = RecordList("tool_call", records, turn_id=turn_id, shown=tool_calls)
        self._calls = RecordCursor(self.tool_call)
        self._artifacts: ArtifactIndex | None = None
        self._has_untrusted_call = False
        self._messages = RecordCursor(self.message)
        self._attached: list[MessageLike] = []

    # Most turns have neither: their lists are built on first use.

    @property
    def thought(self) -> RecordList[Thought]:
        """The thoughts of the turn."""
        if not isinstance(self._thought, RecordList):
            self._thought = self._build_list("thought", shown=self._thought)
        return self._thought

    @property
    def memory(self) -> RecordList[Memory]:
        """The memories of the turn."""
        if not isinstance(self._memory, RecordList):
            self._memory = self._build_list("memory", shown=self._memory)
        return self._memory

    @property
    def artifacts(self) -> ArtifactIndex:
        """The artifacts of the turn's calls."""
        return self._read_calls()

    @property
    def has_untrusted_call(self) -> bool:
        """Whether a call of the turn returned content that is not trusted."""
        self._read_calls()
        return self._has_untrusted_call

    def collect_attachments(self, given: "tuple[Media, ...]") -> "tuple[Media, ...]":
        """Return the media that tools may read: those given, then those of the user's messages."""
        has_changed, messages = self._messages.read()
        if has_changed:
            self._attached = []
        self._attached += filter(may_have_attachments, messages)
        return collect_attachments(given, self._attached)

    def _read_calls(self) -> ArtifactIndex:
        has_changed, calls = self._calls.read()
        index = self._artifacts
        if index is None or has_changed:
            index = self._artifacts = ArtifactIndex()
            self._has_untrusted_call = False
        for call in calls:
            index.add(call)
            self._has_untrusted_call = self._has_untrusted_call or label_of_record(call) in TAINTING
        return index


def _id(record: object) -> object:
    return getattr(record, "id", None)


def _checksum(record: object) -> object:
    return getattr(record, "checksum", None)


def initial_retrievables(retrievables: Iterable[Retrievable], calls: Iterable[ToolCallRecord]) -> list[Retrievable]:
    """Check the initial retrievables of a turn and return them with artifacts in memory instead of long texts.

    Raises:
        ArtifactIdCollisionError: Two of them, or one of them and a call, have the same id.
        InvalidRetrievableError: An item is not a retrievable.
    """
    taken, found = {call.id for call in calls}, list(retrievables)
    for each in found:
        check_record("retrievable", each)
        if each.id in taken:
            raise _build_id_collision(each.id)
        taken.add(each.id)
    return [_with_memory_artifact(each) for each in found]


async def spool_retrievable(
    retrievable: Retrievable, spool: Spool | None, *, spool_id: str, turn_id: str
) -> Retrievable:
    """Return the retrievable as it is shown: unchanged if it is inline, else with an artifact in the spool.

    Raises:
        SpoolError: The text could not be spooled.
    """
    if spool is None or not _needs_artifact(retrievable):
        return _with_memory_artifact(retrievable)
    reader = await spool.write(spool_id, str(retrievable.content), turn_id=turn_id)
    return replace(retrievable, content=_get_artifact_class(retrievable)(reader))


def check_call_id(id: str, records: TurnRecords) -> None:
    """Check that no retrievable has the id of a call.

    Raises:
        ArtifactIdCollisionError: A retrievable has this id.
    """
    if len(records.retrievable) and any(found.id == id for found in records.retrievable):
        raise _build_id_collision(id)


def check_retrievable(retrievable: Retrievable, records: TurnRecords) -> None:
    """Check that no call has the id of a retrievable.

    Raises:
        ArtifactIdCollisionError: A call has this id.
        InvalidRetrievableError: `found` is not a retrievable.
    """
    check_record("retrievable", retrievable)
    if any(call.id == retrievable.id for call in records.tool_call):
        raise _build_id_collision(retrievable.id)


def _with_memory_artifact(retrievable: Retrievable) -> Retrievable:
    if not _needs_artifact(retrievable):
        return retrievable
    return replace(retrievable, content=_get_artifact_class(retrievable).from_text(str(retrievable.content)))


def _get_artifact_class(retrievable: Retrievable) -> "type[Artifact]":
    chosen = retrievable.artifact_constructor
    # A function was resolved when the record was created.
    return chosen if isinstance(chosen, type) else artifacts.Artifact


def _needs_artifact(retrievable: Retrievable) -> bool:
    return not retrievable.inline and isinstance(retrievable.content, str)


def _build_id_collision(id: str) -> ArtifactIdCollisionError:
    return ArtifactIdCollisionError(
        f"The id {id!r} of a retrievable is already used in this turn, so reader tools could not distinguish them; "
        "give the retrievable another id.",
        field="id",
    )
