"""The view of health in a browser: plots by pointer and keys, the way to the calls, and the restart of a server."""

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from spindle import Journal
from spindle.journal import FinishedCall, Intent
from tests.inspector.browsing import (
    DESKTOP,
    IN_TIME_MS,
    PHONE,
    THEMES,
    PageServer,
    Theme,
    needs_browser,
    open_page,
    run_async,
    serve_page,
    show_view,
)

pytestmark = [pytest.mark.slow, needs_browser]
STEADY = Path(__file__).parents[1] / "mcp" / "servers" / "steady.py"
RECENT, OLD = 120, 300


async def write_calls(path: Path) -> None:
    """Write calls of the last half hour, every tenth failed, and older ones of the last days."""
    now = datetime.now(UTC)
    ages = [timedelta(hours=2, minutes=20 * n) for n in reversed(range(OLD))]
    ages += [timedelta(seconds=15 * n) for n in reversed(range(RECENT))]
    starts = [now - age for age in ages]
    async with Journal.sqlite(path) as journal:
        await journal.begin(
            [
                Intent(
                    tool_call_id=f"call {number}",
                    tool="fetch_page" if number % 2 else "look_up",
                    checksum="0",
                    idempotency_key=f"key {number}",
                    args={},
                    started_at=start,
                )
                for number, start in enumerate(starts)
            ]
        )
        await journal.finish(
            [
                FinishedCall(
                    idempotency_key=f"key {number}",
                    ended_at=start + timedelta(milliseconds=50 if number % 2 else 5),
                    code="timeout" if number % 10 == 1 else None,
                    result_chars=100,
                    cost_usd=0.001,
                )
                for number, start in enumerate(starts)
            ]
        )


@pytest.fixture(scope="module")
def busy_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = tmp_path_factory.mktemp("busy")
    journal = folder / "journal.db"
    run_async(lambda: write_calls(journal))
    config = f"""
[journal]
path = "{journal}"
[mcp.servers.steady]
command = "{sys.executable}"
args = ["{STEADY}", "stdio"]
sandbox = "none"
"""
    with serve_page(folder, config=config) as server:
        yield server


def get_chart(page: Page, title: str) -> Locator:
    return page.get_by_role("slider", name=title, exact=True)


def test_calls_are_plotted_and_lead_to_their_list(browser: Browser, busy_server: PageServer) -> None:
    with open_page(browser, busy_server) as watch:
        show_view(watch, "health")
        page = watch.page
        tile = page.locator(".tile", has_text="over 1 hour")
        expect(tile.locator(".tile-value")).to_have_text(str(RECENT))
        page.get_by_role("radio", name="7 days").check()
        expect(page.locator(".tile", has_text="over 7 days").locator(".tile-value")).to_have_text(str(RECENT + OLD))
        expect(page).to_have_url(re.compile("window=7d"))

        rows = page.locator(".health-table tbody tr")
        expect(rows.first).to_contain_text("fetch_page")
        page.get_by_role("button", name="Calls", exact=True).click()
        expect(page.locator("th[aria-sort]")).to_have_text("Calls")
        page.get_by_role("link", name="timeout").first.click()
        expect(page).to_have_url(re.compile(r"/page/calls\?tool=fetch_page.*code=timeout"))
        page.go_back()
        expect(page.get_by_role("radio", name="7 days")).to_be_checked()


def test_a_plot_is_read_by_keys_by_pointer_and_as_a_table(browser: Browser, busy_server: PageServer) -> None:
    with open_page(browser, busy_server) as watch:
        show_view(watch, "health")
        page = watch.page
        chart = get_chart(page, "Calls per minute")
        expect(chart.locator("path.chart-bar.tone-accent")).to_have_attribute("d", re.compile("^M"))
        chart.focus()
        expect(chart).to_have_attribute("aria-valuetext", re.compile(r"^\d\d:\d\d: failed \d.*, ok \d"))
        chart.press("Home")
        expect(chart).to_have_attribute("aria-valuenow", "0")
        chart.press("ArrowRight")
        expect(chart).to_have_attribute("aria-valuenow", "1")
        chart.press("End")
        expect(chart).to_have_attribute("aria-valuenow", "59")

        box = chart.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)
        expect(page.locator(".chart-readout").first).to_contain_text("ok")
        page.locator("summary[aria-label='Duration as a table']").click()
        table = page.get_by_role("region", name="Duration as a table")
        expect(table.locator("thead th")).to_have_text(["Time", "p95", "p50"])
        assert table.locator("tbody tr").count() >= 25


def test_a_server_shows_its_reach_and_is_restarted_after_a_question(browser: Browser, busy_server: PageServer) -> None:
    with open_page(browser, busy_server) as watch:
        show_view(watch, "health")
        server = watch.page.locator("details.server", has_text="steady")
        expect(server.locator("summary")).to_contain_text("ready")
        expect(server.locator(".server-latency")).to_contain_text("ms")
        server.locator("summary").click()
        expect(server).to_contain_text("not confined")
        server.get_by_role("button", name="Restart").click()
        question = watch.page.get_by_role("dialog")
        question.get_by_role("button", name="Cancel").click()
        expect(server.locator("summary")).not_to_contain_text("restart")
        server.get_by_role("button", name="Restart").click()
        question.get_by_role("button", name="Restart").click()
        expect(server.locator("summary")).to_contain_text("1 restart")
        expect(server.locator("summary")).to_contain_text("ready")
        expect(server).to_have_attribute("open", "")


@pytest.mark.parametrize("theme", THEMES)
def test_the_view_fits_a_phone_and_moves_nothing_while_live(
    browser: Browser, busy_server: PageServer, theme: Theme
) -> None:
    with open_page(browser, busy_server, width=PHONE, theme=theme) as watch:
        show_view(watch, "health")
        page = watch.page
        expect(page.locator(".tile", has_text="over 1 hour").locator(".tile-value")).to_have_text(str(RECENT))
        assert page.evaluate("document.querySelector('main').scrollWidth") == PHONE
        expect(page.get_by_role("button", name="Log out")).to_be_in_viewport()
        for link in page.locator("nav a").all():
            expect(link).to_be_in_viewport()

    with open_page(browser, busy_server, width=DESKTOP, theme=theme) as watch:
        show_view(watch, "health?window=15m")  # its plots move on every 15 seconds
        page = watch.page
        expect(page.locator(".server-latency")).to_contain_text("ms")
        page.evaluate(
            """() => {
                window.shifts = [];
                new PerformanceObserver(list => {
                    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts.push(entry.value);
                }).observe({type: 'layout-shift'});
            }"""
        )
        for _ in range(2):
            with page.expect_response("**/api/v1/health/activity*", timeout=IN_TIME_MS):
                pass
        assert sum(page.evaluate("window.shifts")) < 0.01


def test_a_viewer_of_a_profile_sees_no_figures_of_others(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READER_TOKEN", "a-token-of-the-reader-5n3Kx2-8hQ7")
    config = '[profiles.reader]\ntoken_env = "READER_TOKEN"\npage = "viewer"\nallowed_tools = ["read_file"]\n'
    with serve_page(tmp_path, config=config) as server:
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{server.origin}/page/login")
        page.get_by_label("Or log in with a token").fill("a-token-of-the-reader-5n3Kx2-8hQ7")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/page/tools")
        page.goto(f"{server.origin}/page/health")

        expect(page.get_by_role("heading", name="Commands of tools")).to_be_visible()
        expect(page.locator(".tile", has_text="Running calls")).to_contain_text("of your tools")
        expect(page.get_by_role("heading", name="Stores")).to_be_hidden()
        expect(page.get_by_text("Sessions")).to_have_count(0)
        assert problems == []
        page.context.close()
