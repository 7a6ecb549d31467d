"""New and changed calls of a journal, of any process, read while a page listens.

One feed serves all pages of a server: it reads forward from the newest call it knows, a little of what it has read
again (in PostgreSQL, a call can become visible after a later one), and the calls that had not ended.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import anyio

from spindle.inspector.call_rows import is_visible, to_row
from spindle.inspector.live import Publish, get_listener
from spindle.inspector.workbench import Workbench
from spindle.journal.journal import Journal
from spindle.journal.summaries import CallQuery, CallSummary
from spindle.json_types import JsonObject

POLL_SECONDS: Final = 0.25
_IDLE_SECONDS: Final = 5.0
"""After this time without a page, the feed starts at the newest call again."""
_OVERLAP_SECONDS: Final = 1.0
_PAGE_CALLS: Final = 500
_MAX_PAGES: Final = 4
"""Beyond this many pages at once, the feed skips calls, and says so."""
_MAX_CHANGES: Final = 4_000
_MAX_UNFINISHED: Final = 500
_SLOTS: Final = 20
"""A page that does not read loses the oldest messages beyond this number."""


class _Change(NamedTuple):
    number: int
    call: CallSummary | None
    """`None` where calls were skipped."""


class CallFeed:
    """The changes of one journal, numbered."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = anyio.Lock()
        self._polled_at = float("-inf")
        self._number = 0
        self._changes: deque[_Change] = deque(maxlen=_MAX_CHANGES)
        self._cursors: deque[tuple[float, str | None]] = deque()
        """Where reading ended, and when."""
        self._known: dict[str, CallSummary] = {}
        """Calls that were read since the oldest of these."""
        self._unfinished: dict[str, CallSummary] = {}

    async def read(self, since: int | None) -> tuple[int, list[CallSummary], bool]:
        """Return the number of the last change, the calls that changed after `since`, and whether some were lost.

        Raises:
            JournalError: The journal cannot be read.
        """
        async with self._lock:
            now = anyio.current_time()
            if now - self._polled_at > _IDLE_SECONDS:
                await self._restart(now)
            elif now - self._polled_at >= POLL_SECONDS * 0.8:
                await self._poll(now)
        if since is None:
            return self._number, [], False
        found = [each for each in self._changes if each.number > since]
        is_lost = any(each.call is None for each in found) or (bool(found) and found[0].number > since + 1)
        newest = {each.call.idempotency_key: each.call for each in found if each.call is not None}
        return self._number, list(newest.values()), is_lost

    async def _restart(self, now: float) -> None:
        newest = await self._journal.search(limit=1)
        running = await self._journal.search(CallQuery(state="started"), limit=_MAX_UNFINISHED)
        self._cursors = deque([(now, newest.calls[0].cursor if newest.calls else None)])
        self._known = {call.idempotency_key: call for call in newest.calls}
        self._unfinished = {call.idempotency_key: call for call in reversed(running.calls)}
        self._add(None)  # what happened meanwhile is not known
        self._polled_at = anyio.current_time()

    async def _poll(self, now: float) -> None:
        while len(self._cursors) > 1 and self._cursors[1][0] < now - _OVERLAP_SECONDS:
            self._cursors.popleft()
        cursor, found = self._cursors[0][1], list[CallSummary]()
        for _ in range(_MAX_PAGES):
            page = await self._journal.search(limit=_PAGE_CALLS, cursor=cursor, order="oldest_first")
            found += page.calls
            cursor = page.next_cursor
            if page.is_complete:
                break
        else:
            await self._restart(now)
            return
        read = {call.idempotency_key for call in found}
        found += await self._journal.summarize([key for key in self._unfinished if key not in read])
        self._keep(found, read)
        self._cursors.append((now, cursor))
        self._polled_at = anyio.current_time()

    def _keep(self, found: Sequence[CallSummary], read: set[str]) -> None:
        for call in found:
            key = call.idempotency_key
            if self._known.get(key) != call and self._unfinished.get(key) != call:
                self._add(call)
            if call.state == "started":
                self._unfinished[key] = call
            else:
                self._unfinished.pop(key, None)
        self._known = {call.idempotency_key: call for call in found if call.idempotency_key in read}
        while len(self._unfinished) > _MAX_UNFINISHED:
            del self._unfinished[next(iter(self._unfinished))]

    def _add(self, call: CallSummary | None) -> None:
        self._number += 1
        self._changes.append(_Change(self._number, call))


_feeds: WeakKeyDictionary[Journal, CallFeed] = WeakKeyDictionary()


async def watch_calls(bench: Workbench, publish: Publish) -> None:
    """Send the calls that begin, change or end, several in one message."""
    feed = _feeds.setdefault(bench.journal, CallFeed(bench.journal))
    user, sent = get_listener(), 0
    since, _, _ = await feed.read(None)
    while True:
        await anyio.sleep(POLL_SECONDS)
        since, calls, is_lost = await feed.read(since)
        shown = [call for call in calls if is_visible(bench, user, call.tool)]
        if shown or is_lost:
            sent += 1
            publish(_build_message(sent, shown, is_lost=is_lost), key=str(sent % _SLOTS))


def _build_message(number: int, calls: Iterable[CallSummary], *, is_lost: bool) -> JsonObject:
    """Return a message; by its number a page sees that it has missed one."""
    rows = [to_row(call).model_dump(mode="json") for call in calls]
    return {"number": number, "calls": rows, "is_lost": is_lost}
