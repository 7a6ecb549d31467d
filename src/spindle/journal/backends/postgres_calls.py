"""The calls in a PostgreSQL journal; everything here runs in the transaction of the session that proves this run alive.

A call of another run that did not end is judged when someone asks about it: a run whose lock is free is gone, and its
calls are interrupted from then on, whoever looks.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from spindle.errors import JournalError
from spindle.journal.backends import postgres_statements as sql
from spindle.journal.backends.postgres_schema import Connection
from spindle.journal.backends.postgres_text import digest, loaded_row, stored_text, stored_values
from spindle.journal.rows import STARTED_FIELDS, Claim, Outcome, Row, Selection, withdrawn

Ending: TypeAlias = Literal["ended", "unknown", "elsewhere"]
"""It has an outcome; nobody ever began it; another process runs it."""

_MAX_VANISHED = 10


class Bid(NamedTuple):
    """A claim with a number of its own, by which it is known again after a connection was lost."""

    id: int
    claim: Claim


class Known(NamedTuple):
    """A row, and whose it is."""

    run_id: int
    claim_id: int
    row: Row


class Calls:
    """The calls that one connection reaches; answers come one for each item, in their order."""

    def __init__(self, connection: Connection, *, run_id: int, may_judge: bool) -> None:
        self._connection = connection
        self._run_id = run_id
        self._may_judge = may_judge
        """Not while others may just be coming back, as after a restart of the server."""

    async def begin(self, bids: Sequence[Bid]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated; give the row of each other one."""
        answers: dict[int, Row | None] = {}
        vanished = 0
        while left := [bid for bid in bids if bid.id not in answers]:
            new = await self._claim(left)
            answers |= new
            vanished += not new
            if vanished > _MAX_VANISHED:
                raise JournalError("someone deletes the calls that are begun here; nothing was begun")
        return [answers[bid.id] for bid in bids]

    async def finish(self, outcomes: Sequence[Outcome]) -> list[Ending]:
        """End each call unless it has ended already, or another process runs it."""
        first = {digest(outcome.idempotency_key): outcome for outcome in reversed(outcomes)}
        left = await self._end(first)
        endings: dict[bytes, Ending] = dict.fromkeys(first, "ended")
        if left:
            known = await self._known(left)
            endings |= {each: "unknown" for each in left if each not in known}
            open_ = {each: left[each] for each, (_, _, row) in known.items() if row.ended_at is None}
            endings |= dict.fromkeys(await self._end(open_) if open_ else (), "elsewhere")
        return [endings[digest(outcome.idempotency_key)] for outcome in outcomes]

    async def note(self, rows: Sequence[Row]) -> list[None]:
        """Keep each row, in the place of one that has never run; one that has, or may have, stays."""
        newest: dict[str, Row] = {}
        for row in rows:
            newest.pop(row.idempotency_key, None)
            newest[row.idempotency_key] = row
        kept = [[digest(key), 0, False, *stored_values(row)] for key, row in newest.items()]
        await self._connection.fetch(sql.NOTE, self._run_id, *_columns(kept))
        return [None] * len(rows)

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look each key up."""
        known = await self._known(dict.fromkeys(map(digest, keys))) if keys else {}
        return [known[each].row if each in known else None for each in map(digest, keys)]

    async def select(self, selections: Sequence[Selection]) -> list[list[Row]]:
        """Give the rows that each selection wants, newest first."""
        await self._judge([run_id for (run_id,) in await self._connection.fetch(sql.FOREIGN, self._run_id)])
        return [await self._select(selection) for selection in selections]

    async def disown(self, bids: Sequence[Bid]) -> list[None]:
        """End calls whose callers never came to know that they were theirs to run."""
        rows = [[bid.id, *_ending(withdrawn(bid.claim.row.idempotency_key))] for bid in bids]
        await self._connection.fetch(sql.DISOWN, *_columns(rows))
        return [None] * len(bids)

    async def _claim(self, bids: Sequence[Bid]) -> dict[int, Row | None]:
        """Answer the first bid for each key, and those behind it that can only find out what stands."""
        first, behind = _rounds(bids)
        rows = [
            [each, bid.id, bid.claim.repeat, *stored_values(bid.claim.row[: len(STARTED_FIELDS)])]
            for each, bid in first.items()
        ]
        taken = {claim_id for (claim_id,) in await self._connection.fetch(sql.BEGIN, self._run_id, *_columns(rows))}
        standing = [each for each, bid in first.items() if bid.id not in taken or behind[each]]
        answers: dict[int, Row | None] = dict.fromkeys(taken)
        for each, known in (await self._known(standing)).items() if standing else ():
            for bid in (first[each], *behind[each]):
                if bid.id not in taken:
                    is_own = known.claim_id == bid.id and known.row.state == "started"
                    answers[bid.id] = None if is_own else known.row
        return answers

    async def _end(self, outcomes: dict[bytes, Outcome]) -> dict[bytes, Outcome]:
        """End calls that are this run's or nobody's; gives the others."""
        rows = [[each, *_ending(outcome)] for each, outcome in outcomes.items()]
        ended = {each for (each,) in await self._connection.fetch(sql.FINISH, self._run_id, *_columns(rows))}
        return {each: outcome for each, outcome in outcomes.items() if each not in ended}

    async def _known(self, digests: Iterable[bytes]) -> dict[bytes, Known]:
        wanted = list(digests)
        known = await self._fetched(wanted)
        doubtful = {run_id for run_id, _, row in known.values() if row.state == "started"} - {self._run_id}
        return await self._fetched(wanted) if await self._judge(list(doubtful)) else known

    async def _fetched(self, digests: list[bytes]) -> dict[bytes, Known]:
        found = await self._connection.fetch(sql.FIND, digests)
        return {each: Known(run_id, claim_id, loaded_row(row)) for each, run_id, claim_id, *row in found}

    async def _judge(self, runs: list[int]) -> bool:
        """Mark the calls of those runs that are gone as interrupted; tells whether there were any."""
        if not runs or not self._may_judge:
            return False
        gone = [run_id for (run_id,) in await self._connection.fetch(sql.GONE, runs)]
        if gone:
            await self._connection.execute(sql.INTERRUPT, gone)
        return bool(gone)

    async def _select(self, selection: Selection) -> list[Row]:
        query = sql.select(state=selection.state, has_tool_call_id=selection.tool_call_id is not None)
        wanted = [selection.state, None if selection.tool_call_id is None else stored_text(selection.tool_call_id)]
        values = [value for value in wanted if value is not None]
        return [loaded_row(found) for found in await self._connection.fetch(query, selection.limit, *values)]


def _rounds(bids: Sequence[Bid]) -> tuple[dict[bytes, Bid], dict[bytes, list[Bid]]]:
    """The first bid for each key, for one statement cannot write a row twice, and the harmless ones behind it."""
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


def _ending(outcome: Outcome) -> list[Any]:
    _, attempts, ended_at, code, error, result, *facts, artifact_id = outcome
    texts = [None if text is None else stored_text(text) for text in (code, error, artifact_id)]
    return [attempts, ended_at, *texts[:2], result, *facts, texts[2]]


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """One list for each column, as a statement takes them."""
    return [list(column) for column in zip(*rows, strict=True)]
