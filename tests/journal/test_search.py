"""The search over calls: one suite, run over all backends."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle.errors import JournalError, UsageError
from spindle.journal import CallPage, CallQuery, Journal
from spindle.journal.backends import sqlite_search
from spindle.journal.backends.memory import MemoryJournalStore
from spindle.journal.backends.sqlite_writer import end_all
from spindle.journal.entries import Claim, LostCalls, Outcome, Row, Selection
from spindle.journal.search import STEP_ROWS
from tests.fuzzing import examples
from tests.journal.conftest import Place
from tests.journal.sample_calls import NOON, finished, intent

pytestmark = pytest.mark.anyio

LONG = "long " * 100


def ids(page: CallPage) -> list[str]:
    return [call.tool_call_id for call in page.calls]


async def fill(journal: Journal) -> None:
    """Write calls of all kinds, the oldest first."""
    await journal.begin(
        [
            intent("a", tool="read", args={"path": "Report.md"}),
            intent("b", tool="read", turn_id="turn 2", args={"path": 'a "quoted" Ärger 日本 \\ 😀'}),
            intent("c", tool="mail", session_id="other", args={"to": LONG}),
            intent("d", tool="mail", session_id=None, turn_id=None),
            intent("call_e", tool="e\ud800\0\\é"),
        ]
    )
    await journal.finish(
        [
            finished("a", artifact_id="art_1", result_chars=7, cost_usd=0.5, trusted=True),
            finished("b", code="timeout", error=f"Too slow: {LONG}"),
            finished("c", code="failed", error="odd \0 \ud800 \\ end"),
            finished("d"),
        ]
    )


async def test_calls_are_summarized_newest_first(place: Place) -> None:
    async with place.journal() as journal:
        await fill(journal)
        page = await journal.search()
        entries = await journal.list()

    assert ids(page) == ["call_e", "d", "c", "b", "a"]
    assert page.is_complete
    assert page.next_cursor is None
    assert page.scanned == 5
    for call, entry in zip(page.calls, entries, strict=True):
        for field in ("idempotency_key", "tool", "state", "started_at", "ended_at", "attempts", "code", "session_id"):
            assert getattr(call, field) == getattr(entry, field)
        for field in ("turn_id", "result_chars", "cost_usd", "trusted", "artifact_id"):
            assert getattr(call, field) == getattr(entry, field)
    by_id = {call.tool_call_id: call for call in page.calls}
    assert by_id["a"].args_preview == '{"path":"Report.md"}'
    assert by_id["b"].args_preview == '{"path":"a \\"quoted\\" Ärger 日本 \\\\ 😀"}'
    assert by_id["b"].error_preview == f"Too slow: {LONG}"[:199] + "…"
    assert len(by_id["c"].args_preview) == 200
    assert by_id["c"].error_preview == "odd \0 \ud800 \\ end"


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"tool": "read"}, "ba"),
    ({"tool": "e\ud800\0\\é"}, "e"),
    ({"tools": frozenset(["read", "e\ud800\0\\é", "none"])}, "eba"),
    ({"tools": frozenset(["read"]), "text": "mail"}, ""),
    ({"tools": frozenset(["mail"]), "tool": "read"}, ""),
    ({"tools": frozenset[str]()}, ""),
    ({"state": "started"}, "e"),
    ({"state": "finished", "tool": "mail"}, "dc"),
    ({"state": "interrupted"}, ""),
    ({"outcome": "ok"}, "da"),
    ({"outcome": "error"}, "cb"),
    ({"outcome": "error", "state": "started"}, ""),
    ({"code": "timeout"}, "b"),
    ({"code": "timeout", "outcome": "ok"}, ""),
    ({"session_id": "session"}, "eba"),
    ({"session_id": "session", "tool": "read", "outcome": "ok"}, "a"),
    ({"turn_id": "turn"}, "eca"),
    ({"turn_id": "turn 2"}, "b"),
    ({"artifact_id": "art_1"}, "a"),
    ({"tool_call_id": "call_"}, "e"),
    ({"tool_call_id": "all_"}, ""),
    ({"text": "REPORT"}, "a"),
    ({"text": '"QUOTED"'}, "b"),
    ({"text": '{"path":"report'}, "a"),
    ({"text": "ärger"}, "b"),
    ({"text": "ÄRGER 日本"}, "b"),
    ({"text": "Ärger 日本"}, "b"),
    ({"text": "😀"}, "b"),
    ({"text": "\\ 😀"}, "b"),
    ({"text": "too slow"}, "b"),
    ({"text": "\ud800 \\ END"}, "c"),
    ({"text": "\0\\é"}, "e"),
    ({"text": "TIMEOUT"}, "b"),
    ({"text": "oth"}, "c"),
    ({"text": "LL_E"}, "e"),
    ({"text": "100%"}, ""),
    ({"text": ""}, "edcba"),
    ({"text": "mail", "code": "failed"}, "c"),
]
"""Queries, and the last letters of the ids that they find."""


async def test_each_filter_finds_its_calls(place: Place) -> None:
    async with place.journal() as journal:
        await fill(journal)
        for query, expected in FILTERS:
            page = await journal.search(CallQuery(**query))
            forward = await journal.search(CallQuery(**query), order="oldest_first")
            assert (query, "".join(name[-1] for name in ids(page))) == (query, expected)
            assert ids(forward) == ids(page)[::-1]
            assert page.is_complete


async def test_pages_give_each_call_once(place: Place) -> None:
    names = [f"{number}" for number in range(25)]
    async with place.journal() as journal:
        await journal.begin([intent(name, tool="odd" if int(name) % 2 else "even") for name in names])
        pages = [await journal.search(CallQuery(tool="odd"), limit=5)]
        await journal.begin([intent("new", tool="odd")])
        while (cursor := pages[-1].next_cursor) is not None:
            pages.append(await journal.search(CallQuery(tool="odd"), limit=5, cursor=cursor))

    assert [ids(page) for page in pages] == [["23", "21", "19", "17", "15"], ["13", "11", "9", "7", "5"], ["3", "1"]]
    assert [page.is_complete for page in pages] == [False, False, True]


async def test_forward_search_follows_new_calls(place: Place) -> None:
    async with place.journal() as journal:
        empty = await journal.search(order="oldest_first")
        await journal.begin([intent("a"), intent("b")])
        first = await journal.search(order="oldest_first", cursor=empty.next_cursor, limit=1)
        second = await journal.search(order="oldest_first", cursor=first.next_cursor)
        third = await journal.search(order="oldest_first", cursor=second.next_cursor)
        await journal.note([(intent("c"), finished("c", code="denied", attempts=0))])
        fourth = await journal.search(order="oldest_first", cursor=third.next_cursor)
        behind = await journal.search(order="oldest_first", cursor=first.calls[0].cursor)
        before = await journal.search(cursor=second.calls[0].cursor)

    assert [ids(page) for page in (empty, first, second, third, fourth)] == [[], ["a"], ["b"], [], ["c"]]
    assert [page.is_complete for page in (empty, first, second, third, fourth)] == [True, False, True, True, True]
    assert ids(behind) == ["b", "c"]
    assert ids(before) == ["a"]


async def test_repeated_call_is_found_once_as_the_newest(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a"), intent("b")])
        before = await journal.search()
        await journal.finish([finished("a")])
        await journal.begin([intent("a", repeat=True)])
        after = await journal.search()
        new = await journal.search(order="oldest_first", cursor=before.calls[0].cursor)

    assert [(call.tool_call_id, call.attempts) for call in after.calls] == [("a", 2), ("b", 1)]
    assert ids(new) == ["a"]


async def test_summaries_of_keys_are_read_again(place: Place) -> None:
    keys = [intent(name).idempotency_key for name in ("b", "unknown", "a")]
    async with place.journal() as journal:
        await journal.begin([intent("a"), intent("b")])
        found = {call.tool_call_id: call for call in (await journal.search()).calls}
        await journal.finish([finished("a", code="timeout")])
        again = await journal.summarize(keys)
        none = await journal.summarize([])

    assert again == [found["b"], replace(found["a"], **ended("timeout"))]
    assert none == []


def ended(code: str) -> dict[str, Any]:
    return {"state": "finished", "code": code, "ended_at": NOON + timedelta(seconds=1), "result_chars": 1}


async def test_calls_of_a_dead_process_are_found_as_interrupted(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a")])
    async with place.restarted() as journal:
        summaries = await journal.summarize([intent("a").idempotency_key])
        page = await journal.search(CallQuery(state="interrupted"))

    assert [call.state for call in summaries] == ["interrupted"]
    assert ids(page) == ["a"]


async def test_search_reads_a_bounded_number_of_rows(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("needle", tool="rare"), *(intent(f"{number}") for number in range(1_200))])
        pages = [await journal.search(CallQuery(tool="rare"), max_scanned=500)]
        while (cursor := pages[-1].next_cursor) is not None:
            pages.append(await journal.search(CallQuery(tool="rare"), max_scanned=500, cursor=cursor))

    assert len(pages) >= 3
    assert [ids(page) for page in pages[:-1]] == [[]] * (len(pages) - 1)
    assert ids(pages[-1]) == ["needle"]
    assert sum(page.scanned for page in pages) == 1_201


async def test_a_search_by_time_skips_what_cannot_match(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent(f"{hour}", started_at=NOON + timedelta(hours=hour)) for hour in range(600)])
        query = CallQuery(started_from=NOON + timedelta(hours=300), started_to=NOON + timedelta(hours=303))
        pages = [await journal.search(query), await journal.search(query, order="oldest_first")]
        since = await journal.search(CallQuery(started_from=NOON + timedelta(hours=598)), limit=10)
        before = await journal.search(CallQuery(started_to=NOON + timedelta(hours=2)), limit=10)
        none = await journal.search(CallQuery(started_from=NOON + timedelta(hours=900)), order="oldest_first")

    assert [ids(page) for page in pages] == [["302", "301", "300"], ["300", "301", "302"]]
    assert all(page.is_complete for page in pages)
    assert ids(since) == ["599", "598"]
    assert ids(before) == ["1", "0"]
    assert ids(none) == []


async def test_sqlite_search_by_time_reads_few_rows(tmp_path: Any) -> None:
    async with Journal.sqlite(tmp_path / "journal.db") as journal:
        hours = [NOON + timedelta(hours=hour) for hour in range(3_000)]
        await journal.begin([intent(f"{hour}", started_at=hours[hour]) for hour in range(3_000)])
        query = CallQuery(started_from=hours[1_000], started_to=hours[1_003])
        page = await journal.search(query)

    assert ids(page) == ["1002", "1001", "1000"]
    assert page.scanned < 600


async def test_calls_are_begun_while_a_search_runs(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_search, "STEP_SECONDS", 0.0)
    searches: list[CallPage] = []
    async with Journal.sqlite(tmp_path / "journal.db") as journal:
        await journal.begin([intent(f"{number}") for number in range(6 * sqlite_search.WINDOW_ROWS)])

        async def search() -> None:
            searches.append(await journal.search(CallQuery(tool="none")))

        async with anyio.create_task_group() as group:
            group.start_soon(search)
            await anyio.lowlevel.checkpoint()
            assert await journal.begin([intent("meanwhile")]) == [None]
            assert not searches

    assert searches[0].scanned >= 6 * sqlite_search.WINDOW_ROWS


async def test_one_step_reads_at_most_its_rows(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent(f"{number}") for number in range(STEP_ROWS + 100)])
        page = await journal.search(CallQuery(tool="none"), max_scanned=STEP_ROWS)
        rest = await journal.search(CallQuery(tool="none"), cursor=page.next_cursor)

    assert not page.is_complete
    assert page.scanned + rest.scanned == STEP_ROWS + 100
    assert rest.is_complete


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "done"},
        {"outcome": "any"},
        {"tool": 3},
        {"tools": "read"},
        {"tools": frozenset([3])},
        {"tools": frozenset(map(str, range(30_001)))},
        {"text": "x" * 1_001},
        {"started_from": NOON.replace(tzinfo=None)},
        {"started_to": "today"},
        {"limit": 0},
        {"limit": 1_001},
        {"limit": True},
        {"max_scanned": 0},
        {"order": "up"},
        {"cursor": "xyz"},
        {"cursor": "c" + "f" * 40},
        {"cursor": 3},
    ],
)
async def test_invalid_searches_are_rejected(wrong: dict[str, Any]) -> None:
    options = {name: wrong[name] for name in ("limit", "max_scanned", "order", "cursor") if name in wrong}
    async with Journal.memory() as journal:
        with pytest.raises(UsageError) as caught:
            await journal.search(CallQuery(**{name: wrong[name] for name in wrong.keys() - options}), **options)

    assert caught.value.field in wrong


class PlainStore:
    """A store of one's own that was written before there was a search."""

    def __init__(self) -> None:
        self._store = MemoryJournalStore()
        self.lost_calls = LostCalls()
        self.states = self._store.states

    async def open(self) -> None:
        await self._store.open()

    async def aclose(self) -> None:
        await self._store.aclose()

    async def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        return await self._store.begin(claims)

    async def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        return await self._store.finish(outcomes)

    async def note(self, rows: Sequence[Row]) -> None:
        await self._store.note(rows)

    async def interrupt(self, keys: Sequence[str]) -> None:
        await self._store.interrupt(keys)

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        return await self._store.find(keys)

    async def select(self, selection: Selection) -> list[Row]:
        return await self._store.select(selection)


async def test_a_store_without_scan_is_searched_with_select() -> None:
    async with Journal(PlainStore()) as journal:
        await fill(journal)
        page = await journal.search(CallQuery(tool="read"))
        [summary] = await journal.summarize([intent("a").idempotency_key])
        with pytest.raises(JournalError):
            await journal.search(cursor=page.calls[0].cursor)
        with pytest.raises(JournalError):
            await journal.search(order="oldest_first")

    assert ids(page) == ["b", "a"]
    assert page.is_complete
    assert summary.tool == "read"


words = st.sampled_from(["", "a", "B", "Ä", "ä", '"', "\\", "\0", "\ud800", "ß", "İ", "日", "%", "_"])
texts = st.lists(words, max_size=4).map("".join)
calls = st.fixed_dictionaries(
    {
        "tool": texts,
        "args": st.dictionaries(texts, texts, max_size=2),
        "session_id": st.none() | texts,
        "turn_id": st.none() | texts,
        "started_at": st.integers(0, 3).map(lambda hour: NOON + timedelta(minutes=hour)),
    }
)
outcomes = st.none() | st.fixed_dictionaries({"code": st.none() | texts, "error": st.none() | texts})
queries = st.fixed_dictionaries(
    {},
    optional={
        "tool": texts,
        "state": st.sampled_from(["started", "finished"]),
        "outcome": st.sampled_from(["ok", "error"]),
        "code": texts,
        "session_id": texts,
        "turn_id": texts,
        "tool_call_id": st.sampled_from(["", "1", "2"]),
        "text": texts,
        "started_from": st.integers(0, 3).map(lambda hour: NOON + timedelta(minutes=hour)),
        "started_to": st.integers(0, 3).map(lambda hour: NOON + timedelta(minutes=hour)),
    },
)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=st.lists(st.tuples(calls, outcomes), max_size=8), wanted=st.lists(queries, min_size=1, max_size=8))
def test_memory_and_sqlite_find_the_same_calls(
    written: list[tuple[dict[str, Any], dict[str, Any] | None]],
    wanted: list[dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("search") / "journal.db"

    async def compare() -> None:
        journals = [Journal.memory(), Journal.sqlite(path)]
        for journal in journals:
            for number, (facts, outcome) in enumerate(written):
                await journal.begin([intent(f"{number}", **facts)])
                if outcome is not None:
                    await journal.finish([finished(f"{number}", **outcome)])
        for query in wanted:
            pages = [await journal.search(CallQuery(**query)) for journal in journals]
            assert pages[0].calls == pages[1].calls
        await journals[1].aclose()
        end_all()

    anyio.run(compare)
