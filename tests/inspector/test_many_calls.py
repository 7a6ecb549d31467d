"""The list of calls with 100,000 recorded ones: the first view, the way to old ones, and filters, with bounded work."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from spindle.journal import FinishedCall, Intent, Journal
from tests.inspector.browsing import (
    PageServer,
    PageWatch,
    needs_browser,
    open_page,
    run_async,
    serve_page,
    settle,
    show_view,
)

pytestmark = [pytest.mark.slow, needs_browser, pytest.mark.timeout(600)]

CALLS = 100_000
BATCH = 5_000
TOOLS = 40
START = datetime(2026, 11, 10, tzinfo=UTC)
MAX_ROWS = 120
"""Elements of a list that are drawn at once; about 30 of them are in sight."""
MAX_PAGES = 60
ROWS = "main .list [role=option]"
READ_ROWS = """() => [...document.querySelectorAll('main .list [role=option]')]
    .map(row => [Number(row.dataset.index), row.textContent])"""
GO_DOWN = "() => { const list = document.querySelector('main .list'); list.scrollTop = list.scrollHeight; }"


def get_start(number: int) -> datetime:
    """Return when a call began: one in each second."""
    return START + timedelta(seconds=number)


async def write_calls(path: Path) -> None:
    """Write the calls through the journal."""
    async with Journal.sqlite(path) as journal:
        for first in range(0, CALLS, BATCH):
            numbers = range(first, first + BATCH)
            await journal.begin([build_intent(number) for number in numbers])
            await journal.finish([build_end(number) for number in numbers])


def build_intent(number: int) -> Intent:
    """Return the start of a call."""
    return Intent(
        tool_call_id=f"c{number}",
        tool=f"tool_{number % TOOLS}",
        checksum=f"{number:x}",
        idempotency_key=f"key {number}",
        args={"number": number, "text": f"word{number}"},
        started_at=get_start(number),
        session_id=f"session {number % 100}",
    )


def build_end(number: int) -> FinishedCall:
    """Return the end of a call; each tenth has failed."""
    is_failed = number % 10 == 0
    return FinishedCall(
        idempotency_key=f"key {number}",
        ended_at=get_start(number) + timedelta(milliseconds=number % 900),
        code="timeout" if is_failed else None,
        error=f"number {number} was too slow" if is_failed else None,
        result_chars=number % 5_000,
    )


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Run a server whose journal has the calls."""
    folder = tmp_path_factory.mktemp("busy")
    (folder / "state").mkdir(mode=0o700)

    async def fill() -> None:
        await write_calls(folder / "state" / "journal.sqlite")

    run_async(fill)
    with serve_page(folder) as server:
        yield server


@pytest.fixture
def calls(browser: Browser, busy: PageServer) -> Iterator[PageWatch]:
    """Open the list of calls."""
    with open_page(browser, busy) as watch:
        watch.requests.clear()
        show_view(watch, "calls")
        yield watch


def read_numbers(watch: PageWatch) -> dict[int, int]:
    """Return the numbers of the calls in the rows that are drawn, by their index in the list."""
    rows: list[tuple[int, str]] = watch.page.evaluate(READ_ROWS)
    assert len(rows) <= MAX_ROWS
    found = {index: re.search(r"number\D+(\d+)", text) for index, text in rows}
    return {index: int(match[1]) for index, match in found.items() if match is not None}


def count_lists(watch: PageWatch) -> int:
    """Return how many pages of calls were requested."""
    return sum(re.match(r"/api/v1/calls(\?|$)", path) is not None for path in watch.requests)


def test_the_first_view_shows_the_newest_calls(calls: PageWatch) -> None:
    numbers = read_numbers(calls)

    assert numbers[0] == CALLS - 1
    assert all(number == CALLS - 1 - index for index, number in numbers.items())
    assert count_lists(calls) <= 2
    assert len(calls.requests) <= 8


def test_scrolling_leads_to_older_calls_with_a_bounded_number_of_elements(calls: PageWatch) -> None:
    most = 0
    for _ in range(20):
        calls.page.evaluate(GO_DOWN)
        settle(calls)
        numbers = read_numbers(calls)
        assert all(number == CALLS - 1 - index for index, number in numbers.items())
        most = max(most, *numbers)

    assert most > 1_500
    assert count_lists(calls) <= MAX_PAGES
    assert calls.page.evaluate("document.querySelectorAll('*').length") < 3_000


def test_a_filter_by_tool_and_result_shows_only_what_matches(calls: PageWatch) -> None:
    page = calls.page
    page.get_by_label("Tool", exact=True).fill("tool_20")
    page.get_by_label("Tool", exact=True).press("Tab")
    page.get_by_label("Result").select_option("outcome:error")
    settle(calls)
    for _ in range(5):
        page.evaluate(GO_DOWN)
        settle(calls)

    found = read_numbers(calls)
    assert found
    assert all(number % TOOLS == 20 and number % 10 == 0 for number in found.values())
    assert count_lists(calls) <= MAX_PAGES


def test_a_search_finds_a_word_of_the_arguments(calls: PageWatch) -> None:
    calls.page.get_by_role("searchbox", name="Search calls").fill("word99321")

    expect(calls.page.locator(ROWS)).to_have_count(1)
    assert set(read_numbers(calls).values()) == {99_321}


def test_the_calls_of_a_past_hour_are_opened_by_their_time(calls: PageWatch) -> None:
    begin, end = (get_start(number).isoformat().replace("+00:00", "Z") for number in (5_000, 5_050))
    show_view(calls, f"calls?from={begin}&to={end}")
    settle(calls)
    numbers = read_numbers(calls)

    assert numbers
    assert set(numbers.values()) <= set(range(5_000, 5_051))
    calls.page.locator(ROWS).first.click()
    settle(calls)
    expect(calls.page.locator("main .call-detail")).to_contain_text(f"word{numbers[0]}")


def test_the_oldest_call_is_opened_by_its_address(calls: PageWatch) -> None:
    show_view(calls, "calls/key%200")

    expect(calls.page.locator("main .call-detail")).to_contain_text("was too slow")


def test_health_summarises_all_calls_without_reading_them_into_the_page(calls: PageWatch) -> None:
    sizes: list[int] = []
    calls.page.on("response", lambda response: sizes.append(int(response.headers.get("content-length", 0))))
    show_view(calls, "health")
    settle(calls)

    assert sum(sizes) < 2_000_000
    assert len(calls.requests) < 40


def test_an_answer_of_the_api_is_bounded(calls: PageWatch) -> None:
    answer: dict[str, Any] = calls.page.evaluate(
        "import('/page/static/api.js').then(({ get }) => get('/calls', { limit: 200 }))"
    )

    assert len(answer["calls"]) <= 200
    assert answer["next_cursor"] is not None
