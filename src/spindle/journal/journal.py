"""The journal: the port, and its backends by name."""

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
    claim_of,
    entry_of,
    noted_row,
    outcome_of,
)

Entries: TypeAlias = list[JournalEntry]
Standing: TypeAlias = list[JournalEntry | None]


class JournalStore(Protocol):
    """What a backend of the journal does; when a method returns, its batch is kept as a whole from a killed process.

    What `begin` starts is kept from lost power too, unless it may be repeated; an outcome may be lost with the power,
    which leaves its call interrupted, so that it is never taken for one that was not begun. A cancelled `begin` leaves
    no call started; a cancelled `finish` is written all the same.
    """

    async def open(self) -> None:
        """Make ready; the other methods do so by themselves unless the store was closed."""
        ...

    async def aclose(self) -> None:
        """Write what is still waiting and let go of everything."""
        ...

    async def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated; give the row of each other one."""
        ...

    async def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End each call unless it has ended already; tells which were ever begun."""
        ...

    async def note(self, rows: Sequence[Row]) -> None:
        """Keep each row as it is, in the place of one that has never run; a row that has, or may have, stays."""
        ...

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look each key up."""
        ...

    async def select(self, selection: Selection) -> list[Row]:
        """Give the rows that are wanted, newest first."""
        ...


class Journal:
    """The durable record of calls: an intent before each, an outcome after.

    It opens itself on first use, or at the start of an `async with` block, which closes it again.
    """

    def __init__(self, store: JournalStore) -> None:
        self._store = store

    @classmethod
    def memory(cls) -> "Journal":
        """Keep it in this process, as long as it lives."""
        from spindle.journal.backends.memory import MemoryStore  # noqa: PLC0415 - a port's factory method

        return cls(MemoryStore())

    @classmethod
    def sqlite(cls, path: str | PathLike[str], *, on_damage: OnDamage = "raise") -> "Journal":
        """Keep it in a SQLite file that one process writes; it is made when it is not there.

        `on_damage` says what opening does about a file that cannot be used: `"raise"`, or `"set_aside"`, which keeps it
        under another name and goes on with a fresh one that knows nothing of earlier calls.

        Raises:
            UsageError: The path or the choice is none.
        """
        from spindle.journal.backends.sqlite import SqliteStore  # noqa: PLC0415 - a port's factory method

        return cls(SqliteStore(path, on_damage=on_damage))

    @classmethod
    def postgres(cls, dsn: str) -> "Journal":
        """Keep it in a PostgreSQL database that many processes and machines may write, such as `postgresql://host/db`.

        Its tables are made in the first schema of the search path; they begin with `spindle_`.

        Raises:
            MissingExtraError: The extra `postgres` is not installed.
            UsageError: The dsn is none.
        """
        with needs_extra("postgres", purpose="a journal in PostgreSQL"):
            from spindle.journal.backends.postgres import PostgresStore  # noqa: PLC0415 - a port's factory method

        return cls(PostgresStore(dsn))

    async def __aenter__(self) -> "Journal":
        """Open the journal.

        Raises:
            JournalLockedError: Another process writes it.
            JournalDamagedError: Its file cannot be used.
            JournalError: Its place cannot be used.
        """
        await self._store.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Write what is still waiting and close; closing twice does nothing."""
        await self._store.aclose()

    async def begin(self, intents: Sequence[Intent]) -> Standing:
        """Write intents before their calls run; durable when it returns, all of them or none.

        Gives, for each intent, `None` when the call is now yours to run, or the entry that already stands under its
        key: then nothing was written for it, and it must not run. Of two who begin the same key, one is given `None`.
        A call that ended before its body was started is taken for unknown.

        Raises:
            JournalError: They could not be written; none was.
            UsageError: A value cannot be kept.
        """
        if not intents:
            return []
        standing = await self._store.begin([claim_of(intent) for intent in intents])
        return [None if row is None else entry_of(row) for row in standing]

    async def finish(self, outcomes: Sequence[Finished]) -> None:
        """Write what became of calls that were begun, interrupted ones too; the first outcome of a call stays.

        Raises:
            JournalError: They could not be written, and none was; or a key was never begun, and the others were.
            UsageError: A value cannot be kept.
        """
        if not outcomes:
            return
        known = await self._store.finish([outcome_of(outcome) for outcome in outcomes])
        unknown = [outcome.idempotency_key for outcome, is_known in zip(outcomes, known, strict=True) if not is_known]
        if unknown:
            raise JournalError(
                f"{len(unknown)} of {len(outcomes)} outcomes belong to no call of this journal: the key {unknown[0]!r} "
                "was never begun; begin a call before finishing it",
                field="idempotency_key",
            )

    async def note(self, calls: Sequence[tuple[Intent, Finished]]) -> None:
        """Write calls that ended without having run, such as refused ones; nobody ever sees them as started.

        A call that ran, or may have, under the same key stays as it is.

        Raises:
            JournalError: They could not be written; none was.
            UsageError: A value cannot be kept.
        """
        if calls:
            await self._store.note([noted_row(intent, finished) for intent, finished in calls])

    async def find(self, idempotency_key: str) -> JournalEntry | None:
        """Look up the call that has a key."""
        return (await self.find_many([idempotency_key])).get(idempotency_key)

    async def find_many(self, idempotency_keys: Sequence[str]) -> dict[str, JournalEntry]:
        """Look up the calls that have these keys; unknown keys are left out."""
        rows = await self._store.find(idempotency_keys) if idempotency_keys else []
        return {row.idempotency_key: entry_of(row) for row in rows if row is not None}

    async def get(self, tool_call_id: str) -> JournalEntry | None:
        """Look up the newest call with that id."""
        rows = await self._store.select(Selection(tool_call_id=tool_call_id, limit=1))
        return entry_of(rows[0]) if rows else None

    async def list(self, state: EntryState | None = None, limit: int | None = 100) -> Entries:
        """Give the newest calls, newest first; `None` stands for any state, or for no limit.

        Raises:
            UsageError: There is no such state, or the limit is negative.
        """
        if state is not None and state not in get_args(EntryState):
            raise UsageError(f"no call is ever {state!r}; ask for one of {get_args(EntryState)}", field="state")
        wanted = cast("object", limit)
        if wanted is not None and (not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 0):
            raise UsageError(f"limit must be 0, more, or None, not {wanted!r}", field="limit")
        most = None if limit is None else min(limit, maxsize)
        return [entry_of(row) for row in await self._store.select(Selection(state=state, limit=most))]

    async def interrupted(self) -> Entries:
        """Give every call that was begun by a process that is gone and has no outcome, newest first."""
        return await self.list("interrupted", limit=None)
