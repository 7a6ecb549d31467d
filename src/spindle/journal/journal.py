"""The `Journal` class, and the protocol of its backends."""

from collections.abc import Sequence
from os import PathLike
from sys import maxsize
from types import TracebackType
from typing import Protocol, TypeAlias, cast, get_args

from spindle.errors import JournalError, UsageError
from spindle.extras import needs_extra
from spindle.journal.entries import (
    Claim,
    EntryState,
    Finished,
    Intent,
    JournalEntry,
    OnDamage,
    Outcome,
    Row,
    Selection,
    build_noted_row,
    to_claim,
    to_entry,
    to_outcome,
)

Entries: TypeAlias = list[JournalEntry]
ExistingEntries: TypeAlias = list[JournalEntry | None]


class JournalStore(Protocol):
    """The protocol of a journal backend; when a method returns, its whole batch survives a killed process.

    Calls started by `begin` also survive power loss, unless they may be repeated; an outcome may be lost with power,
    which leaves its call interrupted, so that it is never mistaken for one that was not begun. A cancelled `begin`
    leaves no call started; a cancelled `finish` is still written.
    """

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

    @classmethod
    def memory(cls) -> "Journal":
        """Create a journal in memory, which lasts as long as the process."""
        from spindle.journal.backends.memory import MemoryStore  # noqa: PLC0415 - a port's factory method

        return cls(MemoryStore())

    @classmethod
    def sqlite(cls, path: str | PathLike[str], *, on_damage: OnDamage = "raise") -> "Journal":
        """Create a journal in a SQLite file that one process writes; the file is created if missing.

        `on_damage` decides what opening does with an unusable file: `"raise"`, or `"set_aside"`, which renames it and
        starts a new one without the earlier calls.

        Raises:
            UsageError: The path or `on_damage` is invalid.
        """
        from spindle.journal.backends.sqlite import SqliteJournalStore  # noqa: PLC0415 - a port's factory method

        return cls(SqliteJournalStore(path, on_damage=on_damage))

    @classmethod
    def postgres(cls, dsn: str) -> "Journal":
        """Create a journal in a PostgreSQL database, such as `postgresql://host/db`, shared by processes and machines.

        Its tables are created in the first schema of the search path; their names begin with `spindle_`.

        Raises:
            MissingExtraError: The extra `postgres` is not installed.
            UsageError: The dsn is invalid.
        """
        with needs_extra("postgres", purpose="a journal in PostgreSQL"):
            from spindle.journal.backends.postgres import PostgresJournalStore  # noqa: PLC0415 - a port's factory method

        return cls(PostgresJournalStore(dsn))

    async def __aenter__(self) -> "Journal":
        """Open the journal.

        Raises:
            JournalLockedError: Another process is writing the journal.
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
        await self._store.aclose()

    async def begin(self, intents: Sequence[Intent]) -> ExistingEntries:
        """Write intents before their calls run; durable on return, all of them or none.

        Returns, for each intent, `None` if the caller may run the call, or the existing entry of its key: then nothing
        was written for it, and it must not run. Of two callers that begin the same key, only one gets `None`. A call
        that ended before its body was started counts as unknown.

        Raises:
            JournalError: Nothing could be written.
            UsageError: A value cannot be stored.
        """
        if not intents:
            return []
        standing = await self._store.begin([to_claim(intent) for intent in intents])
        return [None if row is None else to_entry(row) for row in standing]

    async def finish(self, outcomes: Sequence[Finished]) -> None:
        """Write the outcomes of calls that were begun, including interrupted ones; the first outcome of a call is kept.

        Raises:
            JournalError: Nothing could be written; or a key was never begun, and the other outcomes were written.
            UsageError: A value cannot be stored.
        """
        if not outcomes:
            return
        known = await self._store.finish([to_outcome(outcome) for outcome in outcomes])
        unknown = [outcome.idempotency_key for outcome, is_known in zip(outcomes, known, strict=True) if not is_known]
        if unknown:
            raise JournalError(
                f"{len(unknown)} of {len(outcomes)} outcomes have a key that was never begun, such as {unknown[0]!r}; "
                "begin a call before finishing it",
                field="idempotency_key",
            )

    async def note(self, calls: Sequence[tuple[Intent, Finished]]) -> None:
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
        rows = await self._store.find(idempotency_keys) if idempotency_keys else []
        return {row.idempotency_key: to_entry(row) for row in rows if row is not None}

    async def get(self, tool_call_id: str) -> JournalEntry | None:
        """Return the newest entry with a tool call id, or `None`."""
        rows = await self._store.select(Selection(tool_call_id=tool_call_id, limit=1))
        return to_entry(rows[0]) if rows else None

    async def list(self, state: EntryState | None = None, limit: int | None = 100) -> Entries:
        """Return entries, newest first; `None` means any state, or no limit.

        Raises:
            UsageError: The state is unknown, or the limit is negative.
        """
        if state is not None and state not in get_args(EntryState):
            raise UsageError(f"Expected state to be one of {get_args(EntryState)}, got {state!r}", field="state")
        wanted = cast("object", limit)
        if wanted is not None and (not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 0):
            raise UsageError(f"Expected limit to be an integer of at least 0, or None, got {wanted!r}", field="limit")
        most = None if limit is None else min(limit, maxsize)
        return [to_entry(row) for row in await self._store.select(Selection(state=state, limit=most))]

    async def interrupted(self) -> Entries:
        """Return every call without an outcome that was begun by a process that is gone, newest first."""
        return await self.list("interrupted", limit=None)
