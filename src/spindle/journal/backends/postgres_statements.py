"""What a PostgreSQL journal says to its server."""

from spindle.journal.rows import STARTED_FIELDS, Outcome, Row

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
_OF_A_CLAIM = ("key_digest", "claim_id", "may_repeat", *STARTED_FIELDS)
_OF_A_NOTE = ("key_digest", "claim_id", "may_repeat", *Row._fields)
_OF_AN_OUTCOME = ("key_digest", *Outcome._fields[1:])
_ENDING = Row._fields[len(STARTED_FIELDS) :]
_COLUMNS = ", ".join(Row._fields)


def _given(names: tuple[str, ...], first: int) -> str:
    """A table of what is handed over, one array for each column."""
    arrays = ", ".join(f"${first + place}::{_TYPES.get(name, 'text')}[]" for place, name in enumerate(names))
    return f"unnest({arrays}) AS given ({', '.join(names)})"


def _insert(names: tuple[str, ...], *, replaced: str, only_if: str) -> str:
    # Numbered in the order of the batch, but written in that of the digests: who writes the same keys waits, and
    # no two wait for each other.
    listed = ", ".join(names)
    return f"""
        WITH numbered AS (
            SELECT nextval(pg_get_serial_sequence('spindle_calls', 'seq')) AS seq, given.* FROM {_given(names, 2)}
        )
        INSERT INTO spindle_calls AS known (run_id, seq, {listed})
        SELECT $1::bigint, seq, {listed} FROM numbered ORDER BY key_digest
        ON CONFLICT (key_digest) DO UPDATE SET run_id = excluded.run_id, seq = excluded.seq, {replaced}
        WHERE {only_if}
        RETURNING claim_id
    """  # noqa: S608 - our own words only


_HAS_NEVER_RUN = "known.ended_at IS NOT NULL AND known.attempts = 0"
_ANEW = [f"{name} = excluded.{name}" for name in _OF_A_CLAIM if name not in {"key_digest", "attempts"}]
_EMPTY = [f"{name} = {'FALSE' if name == 'trusted' else 'NULL'}" for name in _ENDING]

BEGIN = _insert(
    _OF_A_CLAIM,
    replaced=", ".join([*_ANEW, "attempts = known.attempts + 1", *_EMPTY]),
    # A claim that is its own again was written before a connection was lost.
    only_if=f"known.claim_id <> excluded.claim_id AND (excluded.may_repeat OR ({_HAS_NEVER_RUN}))",
)
"""Start calls; gives the claims that were taken."""

NOTE = _insert(
    _OF_A_NOTE,
    replaced=", ".join(f"{name} = excluded.{name}" for name in _OF_A_NOTE if name != "key_digest"),
    only_if=_HAS_NEVER_RUN,
)
"""Keep calls that have never run."""

FINISH = f"""
    UPDATE spindle_calls AS known
    SET state = 'finished', attempts = known.attempts - 1 + given.attempts,
        {", ".join(f"{name} = given.{name}" for name in _ENDING)}
    FROM {_given(_OF_AN_OUTCOME, 2)}
    WHERE known.key_digest = given.key_digest AND known.ended_at IS NULL
        AND (known.run_id = $1::bigint OR known.state = 'interrupted')
    RETURNING known.key_digest
"""  # noqa: S608
"""End calls of this run, or of runs that are gone; gives those that were ended."""

DISOWN = f"""
    UPDATE spindle_calls AS known
    SET state = 'finished', attempts = known.attempts - 1 + given.attempts,
        {", ".join(f"{name} = given.{name}" for name in _ENDING)}
    FROM {_given(("claim_id", *_OF_AN_OUTCOME[1:]), 1)}
    WHERE known.claim_id = given.claim_id AND known.state <> 'finished'
"""  # noqa: S608
"""End calls by the claims they were begun with."""

FIND = f"SELECT key_digest, run_id, claim_id, {_COLUMNS} FROM spindle_calls WHERE key_digest = ANY($1)"  # noqa: S608
"""Look calls up by their digests."""

FOREIGN = "SELECT DISTINCT run_id FROM spindle_calls WHERE state = 'started' AND run_id <> $1"
"""The other runs that have calls which did not end."""

GONE = """
    SELECT run_id
    FROM (
        SELECT run_id, pg_try_advisory_xact_lock_shared(run_id) AS is_free FROM unnest($1::bigint[]) AS runs (run_id)
    ) AS asked
    WHERE is_free
"""
"""Those of some runs whose process is gone; until the transaction ends none of them can come back."""

INTERRUPT = "UPDATE spindle_calls SET state = 'interrupted' WHERE state = 'started' AND run_id = ANY($1)"
"""Say of the calls of some runs that nobody knows what became of them."""

LOST = "SELECT count(*) FROM spindle_calls WHERE state = 'interrupted' AND run_id = $1"
"""How many calls of a run are taken for interrupted."""


def select(*, state: str | None, has_tool_call_id: bool) -> str:
    """Give calls, newest first: `$1` is the limit, then come the state and the id, if they are wanted."""
    terms: list[str] = []
    if state is not None:
        # Told in full, so that the index of what did not end serves.
        terms.append("state = $2" if state == "finished" else "ended_at IS NULL AND state = $2")
    if has_tool_call_id:
        terms.append(f"tool_call_id = ${len(terms) + 2}")
    where = f"WHERE {' AND '.join(terms)}" if terms else ""
    return f"SELECT {_COLUMNS} FROM spindle_calls {where} ORDER BY seq DESC LIMIT $1"  # noqa: S608 - our own words only
