"""The view of tools in a real browser: find, fill the form, dry run, run, large results, approvals, errors in place."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.inspector.browsing import (
    DESKTOP,
    PHONE,
    PageServer,
    PageWatch,
    needs_browser,
    open_page,
    serve_page,
    show_view,
)

pytestmark = [pytest.mark.slow, needs_browser, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
CONFIG = f"""
[tools]
modules = ["tests.inspector.shop_tools:tools"]
python_path = ["{ROOT}"]
"""


@pytest.fixture(scope="module")
def tool_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Run `spindle serve` with the tools of the shop, without its history and its upstream servers."""
    with serve_page(tmp_path_factory.mktemp("tools"), config=CONFIG) as server:
        yield server


def open_tool(watch: PageWatch, name: str) -> Page:
    show_view(watch, f"tools/{name}")
    expect(watch.page.get_by_role("button", name="Dry run")).to_be_visible()
    return watch.page


def read_json(page: Page) -> Any:
    """Return the arguments as the JSON tab shows them, and go back to the form."""
    page.get_by_role("tab", name="JSON").click()
    value = json.loads(page.get_by_label("Arguments as JSON").input_value())
    page.get_by_role("tab", name="Form").click()
    return value


def write_json(page: Page, value: object) -> None:
    page.get_by_role("tab", name="JSON").click()
    page.get_by_label("Arguments as JSON").fill(json.dumps(value))
    page.get_by_role("tab", name="Form").click()


def test_a_newcomer_runs_a_tool_with_a_large_result_without_typing(watched: PageWatch) -> None:
    page = watched.page
    page.get_by_role("listbox", name="Tools").get_by_role("option").filter(has_text="read_file").click()
    expect(page.get_by_label("path")).to_have_value("samples/requests.log")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".callout")).to_contain_text("The whole result is kept: 313 KB")
    seen = page.get_by_label("What the model sees").last
    expect(seen.locator(".fence-tag")).to_have_count(2)
    expect(seen.locator(".fenced.untrusted")).to_contain_text("GET /orders")
    expect(page.get_by_role("link", name="Open the recorded call")).to_be_visible()
    page.get_by_role("link", name="Read and search it").click()
    expect(page).to_have_url(containing("/page/artifacts/"))


def test_a_look_at_the_result_does_not_lose_what_was_run(watched: PageWatch) -> None:
    page = watched.page
    page.get_by_role("listbox", name="Tools").get_by_role("option").filter(has_text="read_file").click()
    page.get_by_label("end_line").fill("3000")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("link", name="Read and search it").click()
    expect(page).to_have_url(containing("/page/artifacts/"))
    page.go_back()

    expect(page.get_by_label("end_line")).to_have_value("3000")
    expect(page.locator(".callout")).to_contain_text("The whole result is kept")


def test_a_changing_call_may_be_tried_dry_from_its_question(watched: PageWatch) -> None:
    page = open_tool(watched, "write_file")
    page.get_by_label("path").fill("notes.txt")
    page.get_by_role("textbox", name="content").fill("seen")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Dry run").click()

    expect(page.locator(".trial-result .badge").first).to_have_text("dry run")


def containing(part: str) -> re.Pattern[str]:
    return re.compile(re.escape(part))


def test_any_call_can_be_made_to_wait_for_an_approval(watched: PageWatch) -> None:
    page = open_tool(watched, "calculate")
    page.get_by_label("expression").fill("6 * 7")
    page.get_by_label("Ask for approval first").check()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".callout")).to_contain_text("waits for a person's approval")
    page.get_by_role("link", name="Open the approval").click()
    expect(page).to_have_url(containing("/page/approvals/ap_"))


def test_the_list_is_searched_and_filtered(watched: PageWatch) -> None:
    page = watched.page
    rows = page.get_by_role("listbox", name="Tools").get_by_role("option")
    expect(rows.first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("remember")
    expect(rows.filter(has_text="memory_remember")).to_be_visible()
    expect(rows.filter(has_text="read_file")).to_have_count(0)
    page.get_by_label("Search tools").fill("")
    page.get_by_label("Filter by toolset").select_option("kanban")
    expect(rows).to_have_count(5)
    expect(page).to_have_url(containing("toolset=kanban"))
    page.reload()
    expect(rows).to_have_count(5)


def test_a_rejected_argument_is_marked_at_its_field(watched: PageWatch) -> None:
    page = open_tool(watched, "read_file")
    page.get_by_label("path").fill("samples/orders.csv")
    page.get_by_label("start_line").fill("0")
    page.get_by_role("button", name="Dry run").click()
    field = page.locator(".field").filter(has_text="start_line")
    expect(field.locator(".field-error")).to_contain_text("expected")
    expect(page.get_by_label("start_line")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("start_line").fill("2")
    page.get_by_label("end_line").fill("2")
    page.get_by_role("button", name="Dry run").click()
    expect(page.locator(".outcome-head")).to_contain_text("dry run")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".fenced.untrusted")).to_contain_text("1000,2026-01-05")


def test_form_and_json_are_kept_in_step(browser: Browser, tool_server: PageServer) -> None:
    parcels = [{"order": 1, "weight_kg": 2.5}, {"order": 2, "fragile": True}]
    with open_page(browser, tool_server) as watch:
        page = open_tool(watch, "send_parcels")
        page.get_by_role("button", name="+ Add item").click()
        page.get_by_label("order").fill("7")
        assert read_json(page) == {"parcels": [{"order": 7}]}
        write_json(page, {"parcels": parcels, "carrier": "van"})
        expect(page.get_by_label("order")).to_have_count(2)
        page.get_by_role("button", name="Move down").first.click()
        assert read_json(page) == {"parcels": parcels[::-1], "carrier": "van"}
        page.get_by_role("button", name="Remove this item").first.click()
        assert read_json(page) == {"parcels": parcels[:1], "carrier": "van"}
        write_json(page, {"parcels": 3})
        expect(page.get_by_text("The form cannot show all of this value")).to_be_visible()
        page.get_by_role("button", name="Back to JSON").click()
        assert json.loads(page.get_by_label("Arguments as JSON").input_value()) == {"parcels": 3}


def test_a_recorded_call_fills_the_form(browser: Browser, tool_server: PageServer) -> None:
    with open_page(browser, tool_server) as watch:
        page = open_tool(watch, "list_orders")
        page.get_by_label("count").fill("3")
        page.get_by_role("button", name="Run", exact=True).click()
        link = page.get_by_role("link", name="Open the recorded call")
        key = str(link.get_attribute("href")).rpartition("/")[2]
        show_view(watch, f"tools/list_orders?from={key}")
        expect(page.get_by_label("count")).to_have_value("3")


def test_a_change_is_confirmed_unless_a_dry_run_came_first(browser: Browser, tool_server: PageServer) -> None:
    with open_page(browser, tool_server) as watch:
        page = open_tool(watch, "send_mail")
        for name in ("to", "subject", "body"):
            page.get_by_role("textbox", name=name, exact=True).fill(name)
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        expect(page.locator(".trial-outcome")).to_have_count(0)
        page.get_by_role("button", name="Dry run").click()
        expect(page.locator(".outcome-head")).to_contain_text("dry run")
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".outcome-head")).not_to_contain_text("dry run")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_nothing_is_wider_than_the_window(browser: Browser, page_server: PageServer, width: int) -> None:
    with open_page(browser, page_server, width=width) as watch:
        page = open_tool(watch, "read_file")
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".model-text")).to_be_visible()
        for tab in ("Try it", "About", "Schema", "What models read"):
            page.get_by_role("tab", name=tab).click()
            pane = page.locator(".pane.second")
            assert pane.evaluate("element => element.scrollWidth - element.clientWidth") <= 0, tab


def test_a_file_becomes_the_text_of_an_argument(watched: PageWatch, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("two\nlines", encoding="utf-8")
    page = open_tool(watched, "write_file")
    page.get_by_label("path").fill("note.txt")
    page.get_by_label("File for content").set_input_files(tmp_path / "note.txt")
    expect(page.get_by_role("textbox", name="content", exact=True)).to_have_value("two\nlines")
    assert read_json(page) == {"path": "note.txt", "content": "two\nlines"}


def test_a_row_tells_what_a_tool_does_on_a_phone(browser: Browser, page_server: PageServer) -> None:
    with open_page(browser, page_server, width=PHONE) as watch:
        row = watch.page.get_by_role("option").filter(has_text="read_file").first

        expect(row.get_by_text("Read a text file, or some of its lines.")).to_be_visible()


def test_no_filter_is_cut_off_in_a_small_window(browser: Browser, page_server: PageServer) -> None:
    with open_page(browser, page_server) as watch:
        page = watch.page
        page.set_viewport_size({"width": 1100, "height": 800})
        expect(page.get_by_label("Filter by state")).to_be_visible()
        bars = page.locator(".filters").evaluate("element => element.scrollWidth - element.clientWidth")

        assert bars <= 0


def test_enter_in_the_search_opens_the_first_tool(watched: PageWatch) -> None:
    page = watched.page
    expect(page.locator("main [role=option]").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("calcul")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="calculate")).to_be_visible()
    expect(page.get_by_role("listbox", name="Tools")).to_be_focused()


def test_the_focus_stays_at_run_and_goes_to_the_first_rejected_field(watched: PageWatch) -> None:
    page = open_tool(watched, "read_file")
    page.get_by_role("button", name="Run", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator(".outcome-head")).to_contain_text("ok")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_focused()

    page.get_by_label("start_line").fill("0")
    page.get_by_role("button", name="Run", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("start_line")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("start_line")).to_be_focused()


def test_a_dry_run_is_suggested_before_a_tool_that_can_change_something(watched: PageWatch) -> None:
    page = watched.page
    primary = page.locator(".trial-buttons .primary")
    show_view(watched, "tools/read_file")
    expect(primary).to_have_text("Run")
    show_view(watched, "tools/write_file")
    expect(primary).to_have_text("Dry run")
    page.get_by_label(re.compile("^path")).first.fill("note.txt")
    page.get_by_label(re.compile("^content")).first.fill("one line")
    primary.click()

    expect(page.locator(".trial-result .badge").first).to_have_text("dry run")
    expect(primary).to_have_text("Run")
