"""What a newcomer does after `make serve`: find a tool, try it, read and search its result, approve a call."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.inspector.browsing import PHONE, PageServer, PageWatch, needs_browser, open_page, serve_page

pytestmark = [pytest.mark.slow, needs_browser, pytest.mark.timeout(300)]

LINES = 12_000
ROWS = "main .list [role=option]"
LOOK_MS = 400
"""An approval must be in sight for a moment before a key answers it."""


@pytest.fixture
def newcomer(tmp_path: Path) -> Path:
    """Return a folder with a large file, and nothing that configures anything."""
    lines = "\n".join(
        f"line {number}: parcel {number * 37 % 1000:03} to {'Cork' if number % 2 else 'Bergen'}"
        for number in range(LINES)
    )
    (tmp_path / "state" / "workspace").mkdir(parents=True)
    (tmp_path / "state" / "workspace" / "parcels.txt").write_text(lines, encoding="utf-8")
    return tmp_path


def find_tool(page: Page, name: str) -> None:
    """Search a tool, and open it by the keyboard."""
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search tools")).to_be_focused()
    page.keyboard.type(name)
    expect(page.locator(ROWS).first).to_contain_text(name)
    page.locator(ROWS).first.click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()


def get_badge(page: Page, text: str) -> None:
    """Wait for the outcome of a trial."""
    expect(page.locator(".trial-result .badge").first).to_have_text(text)


def try_tool(page: Page) -> None:
    """Try a tool whose result is large: without its file, as a dry run, and then really."""
    find_tool(page, "read_file")
    page.get_by_label(re.compile("^path")).first.fill("parcels.txt")
    page.get_by_role("button", name="Dry run").click()
    get_badge(page, "dry run")
    page.get_by_role("button", name="Run", exact=True).click()
    get_badge(page, "ok")
    expect(page.locator(".trial-result")).to_contain_text("The whole result is kept")
    expect(page.locator(".model-text")).to_contain_text("parcel 000")


def search_artifact(page: Page) -> None:
    """Open the whole result, and search it."""
    page.get_by_role("link", name="Read and search it").click()
    expect(page).to_have_url(re.compile("/page/artifacts/."))
    expect(page.locator("main")).to_contain_text("line 0: parcel 000")
    page.get_by_role("tab", name="Grep").click()
    search = page.get_by_role("searchbox", name="Search this artifact")
    search.fill("line 11999: .* Cork")
    search.press("Enter")
    expect(page.locator("main")).to_contain_text("line 11999: parcel")


def ask_for_approval(page: Page) -> None:
    """Make a call that waits for a person."""
    page.keyboard.press("Escape")
    page.locator("nav a[data-view=tools]").click()
    find_tool(page, "write_file")
    page.get_by_label(re.compile("^path")).first.fill("answer.txt")
    page.get_by_label(re.compile("^content")).first.fill("It leaves tomorrow.")
    page.get_by_label("Ask for approval first").check()
    page.get_by_role("button", name="Run", exact=True).click()
    get_badge(page, "needs approval")
    expect(page.locator("nav .count")).to_have_text("1")


def approve_by_keyboard(page: Page) -> None:
    """Go to the approvals, look at what will run, and approve it, without a mouse."""
    page.locator("main").focus()
    page.keyboard.press("g")
    page.keyboard.press("5")
    expect(page.locator("main")).to_contain_text("It leaves tomorrow.")
    expect(page.get_by_role("button", name=re.compile("^Approve"))).to_be_enabled()
    page.wait_for_timeout(LOOK_MS)
    page.keyboard.press("a")
    expect(page.locator("nav .count")).to_be_hidden()


def test_a_newcomer_tries_a_tool_reads_its_result_and_approves_a_call(browser: Browser, newcomer: Path) -> None:
    answer = newcomer / "state" / "workspace" / "answer.txt"
    with serve_page(newcomer) as server, open_page(browser, server) as watch:
        page = watch.page
        try_tool(page)
        search_artifact(page)
        ask_for_approval(page)
        assert not answer.exists()
        approve_by_keyboard(page)
        page.locator("main").focus()
        page.keyboard.press("g")
        page.keyboard.press("2")
        rows = page.locator(ROWS)
        expect(rows.filter(has_text="write_file").first).to_contain_text(re.compile("ok", re.IGNORECASE))
        assert answer.read_text(encoding="utf-8") == "It leaves tomorrow."
        rows.filter(has_text="write_file").first.click()

        expect(page.locator("main")).to_contain_text("answer.txt")


def test_a_call_of_a_client_is_denied_on_a_phone(browser: Browser, shop: PageServer) -> None:
    with open_page(browser, shop, width=PHONE) as watch:
        page = watch.page
        page.goto(f"{shop.origin}/page/approvals")
        page.locator(ROWS).filter(has_text="1077").first.click()  # another test may have made this call again
        deny(watch)


def deny(watch: PageWatch) -> None:
    """Deny the approval in sight, and look for it among the answered ones."""
    page = watch.page
    expect(page.get_by_role("button", name=re.compile("^Deny"))).to_be_enabled()
    page.wait_for_timeout(LOOK_MS)
    page.get_by_role("button", name=re.compile("^Deny")).click()
    expect(page.locator("main")).to_contain_text(re.compile("denied", re.IGNORECASE))
    page.goto(f"{watch.origin}/page/approvals?status=answered")

    expect(page.locator(ROWS).filter(has_text="1077").first).to_contain_text("denied")
