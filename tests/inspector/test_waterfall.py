"""The waterfall of a batch in a browser: bars, numbers by pointer and keys, a table, and a narrow screen."""

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from playwright.sync_api import Browser, Page, expect

from spindle import Budget, Executor, Journal, ToolContext, ToolRegistry
from tests.execution.calling import call, giving, make
from tests.inspector.browsing import (
    DESKTOP,
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

FIND_KEY = """
async () => {
    const { get } = await import('/page/static/api.js');
    const { calls } = await get('/calls', { text: 'batch_1', limit: 5 });
    return calls.find(call => call.tool_call_id === 'batch_1').key;
}
"""


def name_printer(_args: Any) -> list[str]:
    return ["printer"]


async def print_page(_args: Any, ctx: ToolContext, _meta: Any) -> str:
    ctx.progress("<b>half</b>", 50)
    await anyio.sleep(0.05)
    return "printed"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Run a server whose journal has a batch with a lock, a cut result and a refused call."""
    folder = tmp_path_factory.mktemp("batch")
    (folder / "state").mkdir()

    async def fill() -> None:
        tools = [make("print_page", print_page, resources=name_printer), giving("x" * 900, "long")]
        calls = [call("print_page", {"n": number}, f"batch_{number}") for number in (1, 2)]
        calls += [call("long", {}, "batch_3"), call("nobody", {}, "batch_4")]
        async with Journal.sqlite(folder / "state" / "journal.sqlite") as journal:
            executor = Executor(ToolRegistry(tools), journal=journal, budget=Budget(800))
            await executor.execute_parallel(calls, ToolContext("s1", turn_id="t1"))

    run_async(fill)
    with serve_page(folder) as own:
        yield own


def open_batch(watch: PageWatch) -> Page:
    """Open the first call of the batch."""
    key = watch.page.evaluate(FIND_KEY)
    show_view(watch, f"calls/{key}")
    watch.page.locator(".waterfall-rows > li").nth(3).wait_for()
    return watch.page


def test_a_call_shows_its_batch_and_what_each_part_took(browser: Browser, server: PageServer) -> None:
    with open_page(browser, server, width=DESKTOP) as watch:
        page = open_batch(watch)
        rows = page.locator(".waterfall-rows > li")

        assert rows.count() == 4
        expect(rows.nth(0)).to_have_class("chosen")
        assert page.locator(".waterfall-rows .span-handler").count() == 3
        assert page.locator(".waterfall-rows .span-locks").count() == 1
        expect(page.locator(".call-events")).to_contain_text("50 % <b>half</b>")
        assert "not available" in rows.nth(3).inner_text()
        assert page.locator(".waterfall-budget .used.cut").count() == 1


def test_rows_and_bars_are_reached_by_keys(browser: Browser, server: PageServer) -> None:
    with open_page(browser, server, width=DESKTOP) as watch:
        page = open_batch(watch)
        plots, readout = page.locator(".waterfall-plot"), page.locator(".waterfall-readout")
        plots.nth(0).focus()
        whole = readout.inner_text()
        page.keyboard.press("ArrowRight")
        part = readout.inner_text()
        page.keyboard.press("ArrowDown")

        assert "handler" in whole
        assert "from" in part != whole
        expect(plots.nth(1)).to_be_focused()


def test_the_waterfall_is_also_a_table(browser: Browser, server: PageServer) -> None:
    with open_page(browser, server, width=DESKTOP) as watch:
        page = open_batch(watch)
        page.locator(".waterfall-table summary").click()

        assert page.locator(".waterfall-table tbody tr").count() == page.locator(".waterfall-rows .span").count()


def test_a_phone_shows_the_waterfall_without_scrolling_sideways(browser: Browser, server: PageServer) -> None:
    with open_page(browser, server, width=PHONE) as watch:
        page = open_batch(watch)
        page.locator(".waterfall").scroll_into_view_if_needed()

        assert page.evaluate("document.querySelector('.waterfall').getBoundingClientRect().right <= innerWidth")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
