"""The `Journal` class, and the protocol of its backends."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from sys import maxsize
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar, get_args

from anyio import CancelScope

from spindle.concurrency import spool_threads
from spindle.errors import JournalError, UsageError
from spindle.extras import needs_extra
from spindle.journal import backends
from spindle.journal.entries import (
    Claim,
    EntryState,
    FinishedCall,
    Intent,
    JournalEntry,
    LostCalls,
    OnDamage,
    Outcome,
    Row,
    Selection,
    build_noted_row,
    to_claim,
    to_entry,
    to_outcome,
)
from spindle.journal.states import StateStore
from spindle.json_types import JsonValue, is_large, is_mapping, untyped

if TYPE_CHECKING:  # most programs send no notices and search nothing
    from spindle.journal.notices import NoticeBoard
    from spindle.journal.search import CallSearch
    from spindle.journal.summaries import CallPage, CallQuery, CallSummary, Order, SummaryRow

MAX_SCANNED: Final = 20_000
"""How many rows a search reads by default."""

Entries: TypeAlias = list[JournalEntry]
ExistingEntries: TypeAlias = list[JournalEntry | None]
Summaries: TypeAlias = "list[CallSummary]"
AnyRow = TypeVar("AnyRow", "Row", "SummaryRow")
Given = TypeVar("Given")
Stored = TypeVar("Stored")


class JournalStore(Protocol):
    """The protocol of a journal backend; when a method returns, its whole batch survives a killed process.

    Calls started by `begin` also survive power loss, unless they may be repeated; an outcome may be lost with power,
    which leaves its call interrupted, so that it is never mistaken for one that was not begun. A cancelled `begin`
    leaves no call started; a cancelled `finish` is still written.
    """

    @property
    def lost_calls(self) -> LostCalls:
        """The calls whose outcomes could not be written, shared by all stores of this place in this process."""
        ...

    @property
    def states(self) -> StateStore:
        """Other records in the same place; a store of one's own may lack them."""
        ...

    async def open(self) -> None:
        """Open the store; the other methods open it on first use, unless it was closed."""
        ...

    async def aclose(self) -> None:
        """Write pending operations and release all resources."""
        ...

    async def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated; return the known row of the others."""
        ...

    async def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End each call unless it has ended already; return whether each was ever begun."""
        ...

    async def note(self, rows: Sequence[Row]) -> None:
        """Store each row, replacing one that has never run; a row that has run, or may have, is not changed."""
        ...

    async def interrupt(self, keys: Sequence[str]) -> None:
        """Mark those calls as interrupted that this process has begun and that have no outcome."""
        ...

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look up each key."""
        ...

    async def select(self, selection: Selection) -> list[Row]:
        """Return the matching rows, newest first."""
        ...


class Journal:
    """The durable record of calls: an intent before each call, an outcome after it.

    It opens on first use, or on entering an `async with` block, which closes it on exit.
    """

    def __init__(self, store: JournalStore) -> None:
        self._store = store
        # A store of one's own may lack what was added later; then the calls are only shown as interrupted.
        self._lost: LostCalls = getattr(store, "lost_calls", None) or LostCalls()
        self._can_interrupt = hasattr(store, "interrupt")
        self._call_search: CallSearch | None = None
        self._states: StateStore | None = getattr(store, "states", None)
        self._notices: NoticeBoard | None = getattr(store, "notices", None)

    @property
    def states(self) -> StateStore | None:
        """Other records in the same place, such as pending approvals; `None` if the store has no room for them."""
        return self._states

    @property
    def notices(self) -> "NoticeBoard | None":
        """Notices to the other processes that use this journal; `None` if its store has none, such as a file."""
        return self._notices

    @classmethod
    def memory(cls) -> "Journal":
        """Create a journal in memory, which lasts as long as the process."""
        return cls(backends.MemoryJournalStore())

    @classmethod
    def sqlite(cls, path: str | PathLike[str], *, on_damage: OnDamage = "raise") -> "Journal":
        """Create a journal in a SQLite file, shared by the processes of one machine; the file is created if missing.

        `on_damage` decides what opening does with an unusable file: `"raise"`, or `"set_aside"`, which renames it and
        starts a new one without the earlier calls.

        Raises:
            UsageError: The path or `on_damage` is invalid.
        """
        return cls(backends.SqliteJournalStore(path, on_damage=on_damage))

    @classmethod
    def postgres(cls, dsn: str) -> "Journal":
        """Create a journal in a PostgreSQL database, such as `postgresql://host/db`, shared by processes and machines.

        Its tables are created in the first schema of the search path; their names begin with `spindle_`.

        Raises:
            MissingExtraError: The extra `postgres` is not installed.
            UsageError: The dsn is invalid.
        """
        with needs_extra("postgres", purpose="a journal in PostgreSQL"):
            store = backends.PostgresJournalStore
        return cls(store(dsn))

    async def __aenter__(self) -> "Journal":
        """Open the journal.

        Raises:
            JournalLockedError: Another process does not release the file, or this one was forked while it was open.
            JournalDamagedError: The file is damaged.
            JournalError: The file or database cannot be opened.
        """
        await self._store.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Write pending operations and close; closing twice does nothing."""
        await self._try_interrupt_lost()
        await self._store.aclose()

    async def begin(self, intents: Sequence[Intent]) -> ExistingEntries:
        """Write intents before their calls run; durable on return, all of them or none.

        Returns, for each intent, `None` if the caller may run the call, or the existing entry of its key: then nothing
        was written for it, and it must not run. Of two callers that begin the same key, only one gets `None`. A call
        that ended before its body was started counts as unknown. A call whose outcome could not be written is
        interrupted, as after a crash.

        Raises:
            JournalError: Nothing could be written.
            UsageError: A value cannot be stored.
        """
        if not intents:
            return []
        claims = await _convert(to_claim, intents, [intent.args for intent in intents])
        await self._interrupt_lost()
        standing = await self._store.begin(claims)
        self._lost.remove(claim.row.idempotency_key for claim, row in zip(claims, standing, strict=True) if row is None)
        entries: dict[str, JournalEntry] = {}
        with CancelScope(shield=True):  # from here on calls are started, and the caller has to know it
            entries |= await self._read_entries(standing)
        return [None if row is None else entries[row.idempotency_key] for row in standing]

    async def finish(self, outcomes: Sequence[FinishedCall]) -> None:
        """Write the outcomes of calls that were begun, including interrupted ones; the first outcome of a call is kept.

        Raises:
            JournalError: Nothing could be written; or a key was never begun, and the other outcomes were written.
            UsageError: A value cannot be stored.
        """
        if not outcomes:
            return
        keys = [outcome.idempotency_key for outcome in outcomes]
        try:
            converted = await _convert(to_outcome, outcomes, [outcome.result for outcome in outcomes])
            known = await self._store.finish(converted)
        except BaseException:
            self._lost.add(keys)
            raise
        self._lost.remove(keys)
        unknown = [outcome.idempotency_key for outcome, is_known in zip(outcomes, known, strict=True) if not is_known]
        if unknown:
            raise JournalError(
                f"{len(unknown)} of {len(outcomes)} outcomes have a key that was never begun, such as {unknown[0]!r}; "
                "begin a call before finishing it",
                field="idempotency_key",
            )

    async def note(self, calls: Sequence[tuple[Intent, FinishedCall]]) -> None:
        """Write calls that ended without having run, such as rejected ones; they are never visible as started.

        A call that ran, or may have run, under the same key is not changed.

        Raises:
            JournalError: Nothing could be written.
            UsageError: A value cannot be stored.
        """
        if calls:
            await self._store.note([build_noted_row(intent, finished) for intent, finished in calls])

    async def find(self, idempotency_key: str) -> JournalEntry | None:
        """Return the entry of a key, or `None` if it is unknown."""
        return (await self.find_many([idempotency_key])).get(idempotency_key)

    async def find_many(self, idempotency_keys: Sequence[str]) -> dict[str, JournalEntry]:
        """Return the entries of keys; unknown keys are omitted."""
        if not idempotency_keys:
            return {}
        await self._try_interrupt_lost()
        rows = await self._store.find(idempotency_keys)
        return await self._read_entries(rows)

    async def get(self, tool_call_id: str) -> JournalEntry | None:
        """Return the newest entry with a tool call id, or `None`."""
        await self._try_interrupt_lost()
        rows = await self._store.select(Selection(tool_call_id=tool_call_id, limit=1))
        return next(iter((await self._read_entries(rows[:1])).values()), None)

    async def list(
        self, state: EntryState | None = None, limit: int | None = 100, *, session_id: str | None = None
    ) -> Entries:
        """Return entries, newest first; `None` means any state, no limit, or any session.

        Raises:
            UsageError: The state is unknown, the limit is negative, or the session id is not text.
            JournalError: The journal cannot be read, or its own store cannot select by session.
        """
        if state is not None and state not in get_args(EntryState):
            raise UsageError(f"Expected state to be one of {get_args(EntryState)}, got {state!r}", field="state")
        wanted = untyped(limit)
        if wanted is not None and (not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 0):
            raise UsageError(f"Expected limit to be an integer of at least 0, or None, got {wanted!r}", field="limit")
        session = untyped(session_id)
        if session is not None and not isinstance(session, str):
            raise UsageError(
                f"Expected session_id to be text or None, got {type(session).__name__}", field="session_id"
            )
        most = None if limit is None else min(limit, maxsize)
        await self._try_interrupt_lost()
        rows = await self._store.select(Selection(state=state, session_id=session_id, limit=most))
        if session_id is not None and any(row.session_id != session_id for row in rows):
            raise JournalError("The store of this journal cannot select by session: its select() ignores session_id")
        return list((await self._read_entries(rows)).values())

    async def interrupted(self) -> Entries:
        """Return every call without an outcome that was begun by a process that is gone, newest first."""
        return await self.list("interrupted", limit=None)

    async def search(
        self,
        query: "CallQuery | None" = None,
        *,
        limit: int = 100,
        cursor: str | None = None,
        order: "Order" = "newest_first",
        max_scanned: int = MAX_SCANNED,
    ) -> "CallPage":
        """Return summaries of the calls that match, without their results, from `cursor` on in the order they began.

        A search ends when it has found `limit` calls or read `max_scanned` rows, and says where to continue. A search
        that reads oldest first returns a cursor also at the end, behind which newer calls will be found.

        Raises:
            UsageError: An argument is invalid.
            JournalError: The journal cannot be read, or its own store cannot continue a search.
        """
        await self._try_interrupt_lost()
        search = self._get_search()
        return await search.read(query, limit=limit, cursor=cursor, order=order, max_scanned=max_scanned)

    async def summarize(self, idempotency_keys: Sequence[str]) -> Summaries:
        """Return the summaries of keys, in their order; unknown keys are omitted."""
        await self._try_interrupt_lost()
        return await self._get_search().find(idempotency_keys)

    def _get_search(self) -> "CallSearch":
        if self._call_search is None:
            self._call_search = backends.CallSearch(self._store, self._mark_if_lost)
        return self._call_search

    async def _interrupt_lost(self) -> None:
        """Mark calls whose outcomes could not be written as interrupted, now that the store may work again."""
        keys = self._lost.take() if self._can_interrupt else ()
        if keys:
            try:
                await self._store.interrupt(keys)
            except BaseException:
                self._lost.add(keys)
                raise

    async def _try_interrupt_lost(self) -> None:
        with suppress(JournalError):  # what cannot be written must not keep others from reading
            await self._interrupt_lost()

    async def _read_entries(self, rows: Sequence[Row | None]) -> dict[str, JournalEntry]:
        """Parse rows, in a thread if that takes long; return the entries by key, in the order of the rows."""
        known = [self._mark_if_lost(row) for row in rows if row is not None]
        chars = sum(len(row.args) + len(row.result or "") for row in known)
        if len(known) > _MANY_ROWS or chars > _LARGE_CHARS:
            return await spool_threads.run(_parse_rows, known)
        return _parse_rows(known)

    def _mark_if_lost(self, row: AnyRow) -> AnyRow:
        is_lost = row.state == "started" and row.idempotency_key in self._lost
        return row._replace(state="interrupted") if is_lost else row


_MANY_ROWS = 500
_LARGE_CHARS = 1 << 18


async def _convert(
    convert: Callable[[Given], Stored], items: Sequence[Given], values: Iterable[Mapping[str, JsonValue] | None]
) -> list[Stored]:
    """Convert what callers write to what is stored, in a thread if that takes long: it serializes `values`."""
    if len(items) > _MANY_ROWS or _has_large_parts(values):
        with CancelScope(shield=True):  # a cancelled `finish` is still written
            return await spool_threads.run(_convert_all, convert, items)
    return _convert_all(convert, items)


def _has_large_parts(values: Iterable[object]) -> bool:
    chars = 0
    for value in values:
        for part in value.values() if is_mapping(value) else ():  # others are refused when they are converted
            if isinstance(part, str):
                chars += len(part)
            elif part is not None and not isinstance(part, (int, float)) and is_large(part):
                return True
    return chars > _LARGE_CHARS


def _convert_all(convert: Callable[[Given], Stored], items: Sequence[Given]) -> list[Stored]:
    return [convert(each) for each in items]


def _parse_rows(rows: list[Row]) -> dict[str, JournalEntry]:
    return {row.idempotency_key: to_entry(row) for row in rows}
