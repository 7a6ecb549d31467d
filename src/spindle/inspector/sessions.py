"""The sessions of a journal, newest first, and the calls of one of them, within bounds.

A journal has no list of sessions: they are found in its calls. A session is listed where its newest call is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Final

from spindle.execution.flow_replay import get_order, was_asked
from spindle.execution.flow_session import is_tainted_after
from spindle.journal import CallQuery, CallSummary, Journal, JournalEntry
from spindle.json_types import JsonObject

_STEP_CALLS: Final = 250
_MAX_SCANNED: Final = 1_000
"""How many calls one page of sessions reads at most."""
_MAX_FILTERED: Final = 20_000
"""How many calls one step reads at most where only those of some tools count."""
MAX_SESSION_CALLS: Final = 10_000
"""The newest calls of a session that are read."""
MAX_SESSION_CHARS: Final = 8_000_000
"""How long their results may be together."""
_KEYS_AT_ONCE: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionFacts:
    """A session in a list."""

    session_id: str
    last_at: datetime
    last_tool: str
    turn_id: str | None
    caller: JsonObject | None
    is_tainted: bool | None
    """`None` if no record tells: no policy judged its calls, and none brought third-party content last."""
    was_asked: bool
    """Whether a person was asked about the newest call that has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionPage:
    """Some sessions, newest first."""

    sessions: list[SessionFacts]
    next_cursor: str | None


async def list_sessions(
    journal: Journal, *, cursor: str | None = None, limit: int = 50, tools: frozenset[str] | None = None
) -> SessionPage:
    """Return the sessions whose newest call is before a cursor; a page may have fewer, and still be continued.

    With `tools`, only calls of these count: a session is described by the newest of them.
    """
    newest: dict[str, CallSummary] = {}
    ended: dict[str, CallSummary] = {}
    scanned, position, next_cursor = 0, cursor, None
    while scanned < _MAX_SCANNED and next_cursor is None:
        page = await journal.search(
            CallQuery(tools=tools),
            limit=_STEP_CALLS,
            cursor=position,
            max_scanned=_STEP_CALLS if tools is None else _MAX_FILTERED,
        )
        for call in page.calls:
            if call.session_id is None:
                continue
            if call.session_id not in newest:
                if len(newest) == limit:
                    next_cursor = position
                    break
                newest[call.session_id] = call
            if call.state == "finished":
                ended.setdefault(call.session_id, call)
            position = call.cursor
        # A step with a filter reads many calls for the few that count, so that there are at most five of them.
        scanned += max(page.scanned, 1) if tools is None else max(len(page.calls), _MAX_SCANNED // 5)
        if next_cursor is None and page.next_cursor is None:
            break
        if next_cursor is None:
            position = page.next_cursor
            if scanned >= _MAX_SCANNED:
                next_cursor = position
    listed = newest if cursor is None else await _leave_out_earlier(journal, newest, tools)
    entries = await journal.find_many([ended[name].idempotency_key for name in listed if name in ended])
    facts = [
        _build_facts(name, call, entries.get(ended[name].idempotency_key) if name in ended else None)
        for name, call in listed.items()
    ]
    return SessionPage(sessions=facts, next_cursor=next_cursor)


async def _leave_out_earlier(
    journal: Journal, found: dict[str, CallSummary], tools: frozenset[str] | None
) -> dict[str, CallSummary]:
    """Leave out the sessions that are on an earlier page, because they have newer calls."""
    kept: dict[str, CallSummary] = {}
    for name, call in found.items():
        page = await journal.search(CallQuery(session_id=name, tools=tools), limit=1)
        if page.calls and page.calls[0].idempotency_key == call.idempotency_key:
            kept[name] = call
    return kept


def _build_facts(name: str, call: CallSummary, entry: JournalEntry | None) -> SessionFacts:
    return SessionFacts(
        session_id=name,
        last_at=call.started_at,
        last_tool=call.tool,
        turn_id=call.turn_id,
        caller=None if entry is None else entry.caller,
        is_tainted=None if entry is None else is_tainted_after(entry),
        was_asked=entry is not None and was_asked(entry),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionCalls:
    """The newest calls of a session, which are read in pages."""

    keys: list[str]
    """Oldest first."""
    tools: frozenset[str]
    is_complete: bool
    """Whether the session has no earlier calls."""

    def split(self, end: int | None = None) -> Iterator[list[str]]:
        """Iterate over the keys of pages, up to a place."""
        keys = self.keys[:end]
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            yield keys[start : start + _KEYS_AT_ONCE]


async def find_calls(journal: Journal, session_id: str) -> SessionCalls:
    """Find the newest calls of a session, within bounds."""
    # Only what is needed to sort: to keep the summaries of thousands of calls makes the garbage collector slow.
    found: list[tuple[tuple[datetime, datetime], str]] = []
    tools: set[str] = set()
    chars, cursor, is_complete = 0, None, False
    while not is_complete:
        page = await journal.search(CallQuery(session_id=session_id), limit=_STEP_CALLS, cursor=cursor)
        for call in page.calls:
            chars += (call.result_chars or 0) + len(call.args_preview)
            if len(found) >= MAX_SESSION_CALLS or (chars > MAX_SESSION_CHARS and found):
                return _sort_calls(found, tools, is_complete=False)
            found.append((get_order(call), call.idempotency_key))
            tools.add(call.tool)
        cursor, is_complete = page.next_cursor, page.next_cursor is None
    return _sort_calls(found, tools, is_complete=True)


def _sort_calls(
    found: list[tuple[tuple[datetime, datetime], str]], tools: set[str], *, is_complete: bool
) -> SessionCalls:
    found.reverse()  # of calls that began at once, the one that was written first is the first
    found.sort(key=itemgetter(0))
    return SessionCalls(keys=[key for _, key in found], tools=frozenset(tools), is_complete=is_complete)


async def read_entries(journal: Journal, keys: list[str]) -> list[JournalEntry]:
    """Return the entries of some calls; those that were deleted meanwhile are left out."""
    found = await journal.find_many(keys)
    return [found[key] for key in keys if key in found]
