"""The calls in a browser: filters, one call, replay, comparison, live updates of other processes, many calls."""

from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from spindle import Journal
from spindle.cli import load_config
from spindle.journal import FinishedCall, Intent
from tests.inspector.browsing import (
    PHONE,
    PageServer,
    PageWatch,
    needs_browser,
    open_page,
    run_async,
    serve_page,
    show_view,
)

pytestmark = [pytest.mark.slow, needs_browser, pytest.mark.timeout(600)]

MANY = 100_000
WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts.push(entry.value);
}).observe({ type: 'layout-shift', buffered: true });
"""


def build_calls(first: int, count: int) -> tuple[list[Intent], list[FinishedCall]]:
    start = datetime.now(UTC) - timedelta(hours=1)
    intents = [
        Intent(
            tool_call_id=f"call_{number}",
            tool=f"tool_{number % 7}",
            checksum="c",
            idempotency_key=f"key {number}",
            args={"number": number, "query": "needle" if number == 3 else "hay"},
            started_at=start + timedelta(milliseconds=number),
            session_id=f"session {number % 50}",
            fingerprint="f",
        )
        for number in range(first, first + count)
    ]
    outcomes = [
        FinishedCall(
            idempotency_key=each.idempotency_key,
            ended_at=each.started_at + timedelta(milliseconds=20),
            code="timed_out" if number % 10 == 0 else None,
            error="too slow" if number % 10 == 0 else None,
            result={"value": f"result {number}"},
            result_chars=8,
        )
        for number, each in enumerate(intents, first)
    ]
    return intents, outcomes


def write(server: PageServer, work: Callable[[Journal], Coroutine[Any, Any, None]]) -> None:
    """Write to the journal of a server, as another process does."""
    config = load_config(server.folder / "spindle.toml", state=server.folder / "state")
    assert isinstance(config.journal, Path)
    path = config.journal

    async def run() -> None:
        async with Journal.sqlite(path) as journal:
            await work(journal)

    run_async(run)


async def add_calls(journal: Journal, first: int, count: int) -> None:
    for start in range(first, first + count, 1_000):
        intents, outcomes = build_calls(start, min(1_000, first + count - start))
        await journal.begin(intents)
        await journal.finish(outcomes)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Serve a journal with many calls."""
    folder = tmp_path_factory.mktemp("busy")
    (folder / "spindle.toml").write_text("[tools]\nkit = true\n", encoding="utf-8")
    with serve_page(folder) as server:
        write(server, lambda journal: add_calls(journal, 0, MANY))
        yield server


@pytest.fixture
def calls(browser: Browser, busy: PageServer) -> Iterator[PageWatch]:
    with open_page(browser, busy) as watch:
        watch.page.add_init_script(WATCH_SHIFTS)
        show_view(watch, "calls")
        expect(first_row(watch.page)).to_be_visible()
        yield watch


def rows(page: Page) -> Locator:
    return page.locator("main [role=option]")


def first_row(page: Page) -> Locator:
    return page.locator('main [role=option][aria-posinset="1"]')


def test_many_calls_are_drawn_as_few_rows_and_read_in_pages(calls: PageWatch) -> None:
    page = calls.page
    expect(first_row(page)).to_contain_text(f'"number":{MANY - 1}')
    assert rows(page).count() < 80
    for _ in range(3):
        before = page.locator(".call-bar .right").inner_text()
        page.locator(".list").focus()
        page.keyboard.press("End")
        expect(page.locator(".call-bar .right")).not_to_have_text(before)
    assert rows(page).count() < 80
    pages = [path for path in calls.requests if "cursor=" in path]
    assert len(pages) >= 3
    assert all("limit=200" in path for path in pages)
    assert page.evaluate("window.shifts") == []


def test_filters_are_in_the_address_and_survive_a_reload(calls: PageWatch) -> None:
    page = calls.page
    page.get_by_label("Tool", exact=True).fill("tool_3")
    page.keyboard.press("Enter")
    page.get_by_label("Result").select_option("Failed")
    expect(first_row(page)).to_contain_text("tool_3")
    expect(first_row(page)).to_contain_text("timed out")
    assert "tool=tool_3" in page.url
    assert "outcome=error" in page.url
    page.reload()
    expect(first_row(page)).to_contain_text("too slow")
    expect(page.get_by_label("Result")).to_have_value("outcome:error")

    show_view(calls, "calls?session=session%2049&code=timed_out")
    expect(page.get_by_text("No call matches.")).to_be_visible()
    page.get_by_role("button", name="Session: session 49").click()
    expect(first_row(page)).to_contain_text("timed out")


def test_a_text_is_found_far_back_in_the_journal(calls: PageWatch) -> None:
    page = calls.page
    page.get_by_label("Search calls").fill("NEEDLE")

    expect(rows(page)).to_have_count(1)
    expect(first_row(page)).to_contain_text('"query":"needle"')
    expect(page.locator(".call-bar .right")).to_have_text(f"1 call of {MANY:,} searched")


def test_a_call_is_opened_and_closed_by_keys(calls: PageWatch) -> None:
    page = calls.page
    page.locator(".list").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".call-detail")).to_contain_text(f"result {MANY - 2}")
    expect(page.locator("main [aria-selected=true]")).to_contain_text(f'"number":{MANY - 2}')
    page.keyboard.press("Escape")
    expect(page.locator(".call-detail")).to_have_count(0)
    expect(page.locator(".list")).to_be_focused()


def test_calls_of_another_process_appear_and_end_live(calls: PageWatch, busy: PageServer) -> None:
    page = calls.page
    intents, outcomes = build_calls(MANY, 1)

    async def begin(journal: Journal) -> None:
        await journal.begin(intents)

    async def finish(journal: Journal) -> None:
        await journal.finish(outcomes)

    write(busy, begin)  # this process lives on, so the call is running
    expect(first_row(page)).to_contain_text(f'"number":{MANY}')
    expect(first_row(page)).to_contain_text("running")
    write(busy, finish)
    expect(first_row(page)).to_contain_text("timed out")
    assert page.evaluate("window.shifts") == []


def test_new_calls_do_not_move_what_is_looked_at(calls: PageWatch, busy: PageServer) -> None:
    page = calls.page
    page.locator(".list").hover()
    page.mouse.wheel(0, 280)
    expect(page.locator(".list")).to_have_js_property("scrollTop", 280)
    seen = page.locator('main [role=option][aria-posinset="20"]')
    text, place = seen.locator(".grow .muted").inner_text(), seen.bounding_box()
    write(busy, lambda journal: add_calls(journal, MANY + 10, 300))
    button = page.locator("button.newer")
    expect(button).to_have_text("300 new calls ↑")

    assert page.locator("main [role=option]").filter(has_text=text).bounding_box() == place
    button.click()
    expect(first_row(page)).to_contain_text(f'"number":{MANY + 309}')
    expect(button).to_be_hidden()


def test_a_live_list_stays_short_and_still(calls: PageWatch, busy: PageServer) -> None:
    page = calls.page
    for part in range(12):
        start = MANY + 1_000 + part * 500
        write(busy, lambda journal, start=start: add_calls(journal, start, 500))
        expect(first_row(page)).to_contain_text(f'"number":{start + 499}')
        assert rows(page).count() < 80
    kept = page.locator(".list-space").evaluate("element => element.offsetHeight / 28")
    assert kept <= 4_000
    assert page.evaluate("window.shifts") == []


def test_two_calls_are_compared_and_swapped(browser: Browser, shop: PageServer) -> None:
    with open_page(browser, shop) as watch:
        page = watch.page
        show_view(watch, "calls?tool=list_orders&text=5000")  # other tests call it too, with other counts
        first_row(page).click()
        page.get_by_role("link", name="Compare with previous").click()
        arguments = page.get_by_role("table", name="Difference of the arguments")
        expect(arguments.locator(".removed")).to_contain_text('"count": 6000')
        expect(arguments.locator(".added")).to_contain_text('"count": 5000')
        page.get_by_role("link", name="Swap").click()
        expect(arguments.locator(".removed")).to_contain_text('"count": 5000')
        page.keyboard.press("Escape")
        expect(first_row(page)).to_be_visible()


def test_a_call_is_replayed_and_one_that_needs_approval_waits(browser: Browser, shop: PageServer) -> None:
    with open_page(browser, shop) as watch:
        page = watch.page
        show_view(watch, "calls?tool=check_stock&outcome=ok&text=26-104")
        first_row(page).click()
        old = page.url
        page.get_by_role("button", name="Replay").click()
        page.get_by_role("dialog").get_by_role("button", name="Replay").click()
        page.wait_for_url(lambda url: url != old)
        expect(page.locator(".call-detail")).to_contain_text("26-104: 17 pieces")
        expect(page.locator(".call-detail")).to_contain_text("replay_of")

        show_view(watch, "calls?tool=refund")
        first_row(page).click()
        page.get_by_role("button", name="Replay").click()
        page.get_by_role("dialog").get_by_role("button", name="Replay").click()
        page.wait_for_url("**/page/approvals/**")


def test_rows_show_the_arguments_of_failed_and_waiting_calls_too(browser: Browser, shop: PageServer) -> None:
    with open_page(browser, shop) as watch:
        show_view(watch, "calls")
        failed = rows(watch.page).filter(has_text="24-1").first
        expect(failed).to_contain_text('{"article":"24-1"}')
        expect(failed).to_contain_text("There is no article")
        waiting = rows(watch.page).filter(has_text="1077").first
        expect(waiting).to_contain_text("needs approval")
        expect(waiting.locator(".failed")).to_have_count(0)

        failed.click()
        expect(watch.page.get_by_role("heading", name="check_stock")).to_be_visible()
        expect(failed.get_by_text('{"article":"24-1"}')).to_be_visible()


def test_rows_have_a_line_for_arguments_on_a_phone(browser: Browser, shop: PageServer) -> None:
    with open_page(browser, shop, width=PHONE) as watch:
        show_view(watch, "calls")
        row = rows(watch.page).filter(has_text="24-1").first
        arguments, name = row.get_by_text('{"article":"24-1"}'), row.get_by_text("check_stock", exact=True)
        expect(arguments).to_be_visible()
        below, above = arguments.bounding_box(), name.bounding_box()
        assert below is not None
        assert above is not None
        assert below["y"] >= above["y"] + above["height"]
        watch.page.set_viewport_size({"width": 844, "height": PHONE})  # turned
        expect(first_row(watch.page)).to_have_css("height", "28px")
