"""The statements and operations of a PostgreSQL journal, run in transactions of the session that holds the run's lock.

An unfinished call of another run is checked when it is read: a run whose lock is free is gone, and its calls are marked
as interrupted.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from spindle.errors import JournalError
from spindle.journal.backends.postgres_schema import Connection
from spindle.journal.entries import (
    STARTED_FIELDS,
    Claim,
    FinishResult,
    Outcome,
    Row,
    Selection,
    SqlValue,
    build_withdrawn_outcome,
)

_TYPES = {
    "started_at": "bigint",
    "attempts": "bigint",
    "ended_at": "bigint",
    "result_chars": "bigint",
    "cost_usd": "float8",
    "trusted": "boolean",
    "key_digest": "bytea",
    "claim_id": "bigint",
    "may_repeat": "boolean",
}
_CLAIM_COLUMNS = ("key_digest", "claim_id", "may_repeat", *STARTED_FIELDS)
_NOTE_COLUMNS = ("key_digest", "claim_id", "may_repeat", *Row._fields)
_OUTCOME_COLUMNS = ("key_digest", *Outcome._fields[1:])
_ENDING = Row._fields[len(STARTED_FIELDS) :]
_COLUMNS = ", ".join(Row._fields)


def _parameter_table(names: tuple[str, ...], first: int) -> str:
    """Return the SQL of a table made of parameters, one array per column."""
    arrays = ", ".join(f"${first + place}::{_TYPES.get(name, 'text')}[]" for place, name in enumerate(names))
    return f"unnest({arrays}) AS given ({', '.join(names)})"


def _insert(names: tuple[str, ...], *, replaced: str, only_if: str) -> str:
    # Numbered in batch order, but written in digest order: concurrent writers of the same keys wait for each other
    # without deadlocks.
    listed = ", ".join(names)
    return f"""
        WITH numbered AS (
            SELECT nextval(pg_get_serial_sequence('spindle_calls', 'seq')) AS seq, given.*
            FROM {_parameter_table(names, 2)}
        )
        INSERT INTO spindle_calls AS known (run_id, seq, {listed})
        SELECT $1::bigint, seq, {listed} FROM numbered ORDER BY key_digest
        ON CONFLICT (key_digest) DO UPDATE SET run_id = excluded.run_id, seq = excluded.seq, {replaced}
        WHERE {only_if}
        RETURNING claim_id
    """  # noqa: S608 - constant text only


_HAS_NEVER_RUN = "known.ended_at IS NOT NULL AND known.attempts = 0"
_REPLACED_COLUMNS = [f"{name} = excluded.{name}" for name in _CLAIM_COLUMNS if name not in {"key_digest", "attempts"}]
_RESET_COLUMNS = [f"{name} = {'FALSE' if name == 'trusted' else 'NULL'}" for name in _ENDING]

BEGIN = _insert(
    _CLAIM_COLUMNS,
    replaced=", ".join([*_REPLACED_COLUMNS, "attempts = known.attempts + 1", *_RESET_COLUMNS]),
    # An equal claim id means that this claim was written before a connection was lost.
    only_if=f"known.claim_id <> excluded.claim_id AND (excluded.may_repeat OR ({_HAS_NEVER_RUN}))",
)
"""Start calls; return the ids of the claims that were taken."""

NOTE = _insert(
    _NOTE_COLUMNS,
    replaced=", ".join(f"{name} = excluded.{name}" for name in _NOTE_COLUMNS if name != "key_digest"),
    only_if=_HAS_NEVER_RUN,
)
"""Store calls that have never run."""

FINISH = f"""
    UPDATE spindle_calls AS known
    SET state = 'finished', attempts = known.attempts - 1 + given.attempts,
        {", ".join(f"{name} = given.{name}" for name in _ENDING)}
    FROM {_parameter_table(_OUTCOME_COLUMNS, 2)}
    WHERE known.key_digest = given.key_digest AND known.ended_at IS NULL
        AND (known.run_id = $1::bigint OR known.state = 'interrupted')
    RETURNING known.key_digest
"""  # noqa: S608
"""End calls of this run, or of runs that are gone; return the digests of those that were ended."""

END_ORPHANED = f"""
    UPDATE spindle_calls AS known
    SET state = 'finished', attempts = known.attempts - 1 + given.attempts,
        {", ".join(f"{name} = given.{name}" for name in _ENDING)}
    FROM {_parameter_table(("claim_id", *_OUTCOME_COLUMNS[1:]), 1)}
    WHERE known.claim_id = given.claim_id AND known.state <> 'finished'
"""  # noqa: S608
"""End calls by the ids of the claims they were begun with."""

FIND = f"SELECT key_digest, run_id, claim_id, {_COLUMNS} FROM spindle_calls WHERE key_digest = ANY($1)"  # noqa: S608
"""Look up calls by their digests."""

OTHER_RUNS = "SELECT DISTINCT run_id FROM spindle_calls WHERE state = 'started' AND run_id <> $1"
"""Select the other runs that have unfinished calls."""

GONE_RUNS = """
    SELECT run_id
    FROM (
        SELECT run_id, pg_try_advisory_xact_lock_shared(run_id) AS is_free FROM unnest($1::bigint[]) AS runs (run_id)
    ) AS asked
    WHERE is_free
"""
"""Select those of some runs whose process is gone; none of them can reconnect until the transaction ends."""

INTERRUPT_CALLS = """
    UPDATE spindle_calls SET state = 'interrupted' WHERE key_digest = ANY($2) AND state = 'started' AND run_id = $1
"""
"""Mark those of some calls of this run as interrupted that have no outcome."""

INTERRUPT = "UPDATE spindle_calls SET state = 'interrupted' WHERE state = 'started' AND run_id = ANY($1)"
"""Mark the unfinished calls of some runs as interrupted."""

COUNT_INTERRUPTED = "SELECT count(*) FROM spindle_calls WHERE state = 'interrupted' AND run_id = $1"
"""Count the calls of a run that are marked as interrupted."""


def build_select(*, state: str | None, has_tool_call_id: bool, has_session_id: bool = False) -> str:
    """Return the query for calls, newest first: `$1` is the limit, followed by the state and the ids, if used."""
    terms: list[str] = []
    if state is not None:
        # Written out, so that the index of unfinished calls is used.
        terms.append("state = $2" if state == "finished" else "ended_at IS NULL AND state = $2")
    if has_tool_call_id:
        terms.append(f"tool_call_id = ${len(terms) + 2}")
    if has_session_id:
        place = f"${len(terms) + 2}"
        terms.append(f"(left(session_id, 200) = left({place}::text, 200) AND session_id = {place})")
    where = f"WHERE {' AND '.join(terms)}" if terms else ""
    return f"SELECT {_COLUMNS} FROM spindle_calls {where} ORDER BY seq DESC LIMIT $1"  # noqa: S608 - constant text only


_UNESCAPED = frozenset(map(Row._fields.index, ("state", "args", "caller", "result")))
"""Columns stored without escapes: JSON is ASCII without NUL already, and stays readable in the table."""

_odd = re.compile("[\\\\\0\ud800-\udfff]")
_escape = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")


def escape_text(text: str) -> str:
    """Escape NUL, lone surrogates and backslashes, which makes any text storable and the result unique."""
    return _odd.sub(lambda found: "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}", text)


def unescape_text(text: str) -> str:
    """Return the text that `stored_text` escaped."""
    return _escape.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", text) if "\\" in text else text


def digest(key: str) -> bytes:
    """Return the hash by which a key is indexed: an index does not accept long text."""
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


def escape_values(values: Iterable[SqlValue]) -> list[SqlValue]:
    """Escape the first fields of a row, or all of them, for storage."""
    return [
        escape_text(value) if isinstance(value, str) and place not in _UNESCAPED else value
        for place, value in enumerate(values)
    ]


def to_row(values: Iterable[Any]) -> Row:
    """Return the row of stored values."""
    return Row._make(
        unescape_text(value) if isinstance(value, str) and place not in _UNESCAPED else value
        for place, value in enumerate(values)
    )


_MAX_VANISHED = 10


class Bid(NamedTuple):
    """A claim with a unique id, by which it is recognized after a lost connection."""

    id: int
    claim: Claim


class StoredCall(NamedTuple):
    """A stored row with its run and its claim."""

    run_id: int
    claim_id: int
    row: Row


class CallTable:
    """The operations on calls in one transaction; methods return one answer per item, in order."""

    def __init__(self, connection: Connection, *, run_id: int, can_mark_gone: bool) -> None:
        self._connection = connection
        self._run_id = run_id
        self._can_mark_gone = can_mark_gone
        """Whether runs may be declared gone; False while others may be reconnecting, as after a server restart."""

    @property
    def connection(self) -> Connection:
        """The connection, for operations on other tables in the same transaction."""
        return self._connection

    async def begin(self, bids: Sequence[Bid]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated; return the known row of the others."""
        answers: dict[int, Row | None] = {}
        vanished = 0
        while left := [bid for bid in bids if bid.id not in answers]:
            new = await self._claim(left)
            answers |= new
            vanished += not new
            if vanished > _MAX_VANISHED:
                raise JournalError("Rows of spindle_calls were deleted concurrently; no call was started")
        return [answers[bid.id] for bid in bids]

    async def finish(self, outcomes: Sequence[Outcome]) -> list[FinishResult]:
        """End each call unless it has ended already or another process is running it."""
        first = {digest(outcome.idempotency_key): outcome for outcome in reversed(outcomes)}
        left = await self._end(first)
        endings: dict[bytes, FinishResult] = dict.fromkeys(first, "ended")
        if left:
            known = await self._find_known(left)
            endings |= {each: "unknown" for each in left if each not in known}
            open_ = {each: left[each] for each, (_, _, row) in known.items() if row.ended_at is None}
            endings |= dict.fromkeys(await self._end(open_) if open_ else (), "elsewhere")
        return [endings[digest(outcome.idempotency_key)] for outcome in outcomes]

    async def note(self, rows: Sequence[Row]) -> list[None]:
        """Store each row, replacing one that has never run; a row that has run, or may have, is not changed."""
        newest: dict[str, Row] = {}
        for row in rows:
            newest.pop(row.idempotency_key, None)
            newest[row.idempotency_key] = row
        kept = [[digest(key), 0, False, *escape_values(row)] for key, row in newest.items()]
        await self._connection.fetch(NOTE, self._run_id, *_columns(kept))
        return [None] * len(rows)

    async def interrupt(self, keys: Sequence[str]) -> list[None]:
        """Mark those calls of this run as interrupted that have no outcome."""
        await self._connection.execute(INTERRUPT_CALLS, self._run_id, list(map(digest, keys)))
        return [None] * len(keys)

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look up each key."""
        known = await self._find_known(dict.fromkeys(map(digest, keys))) if keys else {}
        return [known[each].row if each in known else None for each in map(digest, keys)]

    async def select(self, selections: Sequence[Selection]) -> list[list[Row]]:
        """Return the matching rows of each selection, newest first."""
        await self.recover()
        return [await self._select(selection) for selection in selections]

    async def recover(self) -> None:
        """Mark the unfinished calls of all runs that are gone as interrupted."""
        await self._mark_gone_runs([run_id for (run_id,) in await self._connection.fetch(OTHER_RUNS, self._run_id)])

    async def end_orphaned(self, bids: Sequence[Bid]) -> list[None]:
        """End calls whose callers never received their claim."""
        rows = [[bid.id, *_to_outcome_values(build_withdrawn_outcome(bid.claim.row.idempotency_key))] for bid in bids]
        await self._connection.fetch(END_ORPHANED, *_columns(rows))
        return [None] * len(bids)

    async def _claim(self, bids: Sequence[Bid]) -> dict[int, Row | None]:
        """Answer the first bid for each key, and the later ones that can only receive the known row."""
        first, behind = _split_bids(bids)
        rows = [
            [each, bid.id, bid.claim.repeat, *escape_values(bid.claim.row[: len(STARTED_FIELDS)])]
            for each, bid in first.items()
        ]
        taken = {claim_id for (claim_id,) in await self._connection.fetch(BEGIN, self._run_id, *_columns(rows))}
        standing = [each for each, bid in first.items() if bid.id not in taken or behind[each]]
        answers: dict[int, Row | None] = dict.fromkeys(taken)
        for each, known in (await self._find_known(standing)).items() if standing else ():
            for bid in (first[each], *behind[each]):
                if bid.id not in taken:
                    is_own = known.claim_id == bid.id and known.row.state == "started"
                    answers[bid.id] = None if is_own else known.row
        return answers

    async def _end(self, outcomes: dict[bytes, Outcome]) -> dict[bytes, Outcome]:
        """End calls of this run or of runs that are gone; return the others."""
        rows = [[each, *_to_outcome_values(outcome)] for each, outcome in outcomes.items()]
        ended = {each for (each,) in await self._connection.fetch(FINISH, self._run_id, *_columns(rows))}
        return {each: outcome for each, outcome in outcomes.items() if each not in ended}

    async def _find_known(self, digests: Iterable[bytes]) -> dict[bytes, StoredCall]:
        wanted = list(digests)
        known = await self._fetch_known(wanted)
        doubtful = {run_id for run_id, _, row in known.values() if row.state == "started"} - {self._run_id}
        return await self._fetch_known(wanted) if await self._mark_gone_runs(list(doubtful)) else known

    async def _fetch_known(self, digests: list[bytes]) -> dict[bytes, StoredCall]:
        found = await self._connection.fetch(FIND, digests)
        return {each: StoredCall(run_id, claim_id, to_row(row)) for each, run_id, claim_id, *row in found}

    async def _mark_gone_runs(self, runs: list[int]) -> bool:
        """Mark the calls of those runs that are gone as interrupted; return whether there were any."""
        if not runs or not self._can_mark_gone:
            return False
        gone = [run_id for (run_id,) in await self._connection.fetch(GONE_RUNS, runs)]
        if gone:
            await self._connection.execute(INTERRUPT, gone)
        return bool(gone)

    async def _select(self, selection: Selection) -> list[Row]:
        query = build_select(
            state=selection.state,
            has_tool_call_id=selection.tool_call_id is not None,
            has_session_id=selection.session_id is not None,
        )
        ids = (selection.tool_call_id, selection.session_id)
        wanted = [selection.state, *(None if each is None else escape_text(each) for each in ids)]
        values = [value for value in wanted if value is not None]
        return [to_row(found) for found in await self._connection.fetch(query, selection.limit, *values)]


def _split_bids(bids: Sequence[Bid]) -> tuple[dict[bytes, Bid], dict[bytes, list[Bid]]]:
    """Return the first bid for each key (one statement cannot write a row twice) and the later ones it answers."""
    first: dict[bytes, Bid] = {}
    behind: dict[bytes, list[Bid]] = {}
    later: set[bytes] = set()
    for bid in bids:
        each = digest(bid.claim.row.idempotency_key)
        if each not in first:
            first[each], behind[each] = bid, []
        elif bid.claim.repeat:
            later.add(each)
        elif each not in later:
            behind[each].append(bid)
    return first, behind


def _to_outcome_values(outcome: Outcome) -> list[SqlValue]:
    _, attempts, ended_at, code, error, result, *facts, artifact_id = outcome
    texts = [None if text is None else escape_text(text) for text in (code, error, artifact_id)]
    return [attempts, ended_at, *texts[:2], result, *facts, texts[2]]


def _columns(rows: Sequence[Sequence[SqlValue]]) -> list[list[SqlValue]]:
    """Transpose rows to one list per column, as statements expect."""
    return [list(column) for column in zip(*rows, strict=True)]
