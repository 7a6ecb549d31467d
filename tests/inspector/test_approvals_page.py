"""The approvals view in a browser: what waits is seen, answered by keys, edited, and its outcome is read."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.inspector.browsing import PHONE, PageServer, needs_browser, open_page, serve_page, show_view
from tests.mcp.serving import COMMAND

pytestmark = [pytest.mark.slow, needs_browser]

TOOLS = """
from spindle import tool

@tool(requires_approval=True, secret_fields=["password"])
async def pay(amount: int, password: str = "", note: str = "") -> str:
    "Pay an amount."
    return f"paid {amount} with {len(password)} characters"

tools = [pay]
"""
CONFIG = '[tools]\nmodules = ["paying:tools"]\npython_path = ["."]\n'
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[PageServer]:
    (tmp_path / "paying.py").write_text(TOOLS)
    with serve_page(tmp_path, config=CONFIG) as server:
        yield server


def run(server: PageServer, *words: str) -> str:
    chosen = ["--config", str(server.folder / "spindle.toml"), "--state", str(server.folder / "state")]
    command = [*COMMAND, *words, *chosen]
    ran = subprocess.run(command, cwd=server.folder, capture_output=True, text=True, check=False, timeout=110)
    return ran.stdout


def ask(server: PageServer, amount: int, note: str = "") -> str:
    words = ("call", "pay", f"amount={amount}", "password=hunter2", f"note={note}", "--output", "json")
    return json.loads(run(server, *words))["ticket"].partition("-")[0]


def rows(page: Page) -> list[str]:
    return page.locator(".approval-row").all_inner_texts()


def test_a_call_that_comes_in_is_approved_by_a_key_and_a_second_key_answers_nothing(
    browser: Browser, served: PageServer
) -> None:
    with open_page(browser, served) as watch:
        page = watch.page
        show_view(watch, "approvals")
        expect(page.get_by_text("No call waits for approval.")).to_be_visible()
        ask(served, 1, HOSTILE)
        ask(served, 2)
        expect(page.locator(".approval-row")).to_have_count(2)
        expect(page.locator("#waiting")).to_have_text("2")
        expect(page).to_have_title("(2) Approvals · spindle")

        page.locator(".approval-row", has_text='"amount": 1').click()
        expect(page.locator("tr", has_text="note")).to_contain_text(r"onerror=alert(1)>\u202e")
        expect(page.locator("tr", has_text="password")).to_contain_text("***")
        page.wait_for_timeout(400)  # what has just come into sight is not answered
        page.keyboard.press("a")
        page.keyboard.press("a")
        expect(page.locator(".outcome")).to_contain_text("paid 1 with 7 characters")
        expect(page.locator(".outcome").get_by_role("link", name="Open the call")).to_be_visible()
        expect(page.locator("#waiting")).to_have_text("1")
        assert len(rows(page)) == 2

        page.keyboard.press("k")
        expect(page.locator("tr", has_text="amount")).to_contain_text("2")
        page.wait_for_timeout(400)
        page.keyboard.press("d")
        expect(page.locator(".outcome")).to_contain_text("Denied")
        page.get_by_role("button", name="Answered").click()
        expect(page.locator(".approval-row", has_text="denied")).to_have_count(1)
        expect(page.locator(".approval-row", has_text="approved")).to_have_count(1)
        expect(page.locator(".approval-row[aria-selected=true]")).to_have_count(1)

        # What is shown is in the list that is shown.
        page.get_by_role("button", name="Waiting").click()
        expect(page.get_by_text("No call waits for approval.")).to_be_visible()
        expect(page.get_by_text("No approval is chosen")).to_be_visible()


def test_arguments_are_edited_on_a_phone_and_an_answer_elsewhere_is_shown(browser: Browser, served: PageServer) -> None:
    ask(served, 5)
    with open_page(browser, served, width=PHONE, allowed=("409",)) as watch:
        page = watch.page
        show_view(watch, "approvals")
        page.locator(".approval-row").first.click()
        page.wait_for_timeout(400)
        page.get_by_role("button", name="Edit").click()
        field = page.get_by_label("Arguments to run with")
        field.fill('{"amount": "many"}')
        page.get_by_role("button", name="Approve with these arguments").click()
        expect(page.locator("#edit-problem")).to_be_visible()
        field.fill('{"amount": 3, "password": "***", "note": ""}')
        page.get_by_role("button", name="Approve with these arguments").click()
        expect(page.locator(".outcome")).to_contain_text("paid 3 with 7 characters")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

        page.get_by_role("button", name="Back to the list").click()
        approval = ask(served, 6)
        page.locator(".approval-row", has_text='"amount": 6').click()
        expect(page.get_by_role("button", name="Approve")).to_be_visible()
        run(served, "approvals", "deny", approval, "--by", "bob")
        expect(page.locator(".outcome")).to_contain_text("Denied by bob")


def test_the_way_back_on_a_phone_leads_to_the_list(browser: Browser, served: PageServer) -> None:
    ask(served, 7)
    with open_page(browser, served, width=PHONE) as watch:
        page = watch.page
        show_view(watch, "approvals")
        row = page.locator(".approval-row").first
        expect(row).to_contain_text('"note": ""}')
        expect(row).not_to_contain_text("Why")
        row.click()
        expect(page.get_by_role("button", name="Approve")).to_be_visible()
        page.go_back()

        expect(page).to_have_url(f"{served.origin}/page/approvals")
        expect(row).to_be_visible()


def test_the_editor_shows_every_character_that_cannot_be_seen(browser: Browser, served: PageServer) -> None:
    hidden = "\u034f\u17b4\u180b\u1680\u3000\u202f\u2800\U000e0100\U000e0041\U0001d159"
    ask(served, 8, f"x{hidden}y")
    with open_page(browser, served) as watch:
        page = watch.page
        show_view(watch, "approvals")
        page.locator(".approval-row").first.click()
        expect(page.get_by_role("button", name="Edit")).to_be_visible()
        page.wait_for_timeout(400)
        page.get_by_role("button", name="Edit").click()
        text = page.locator("#edit-args").input_value()

    assert json.loads(text)["note"] == f"x{hidden}y"
    assert not any(each in text for each in hidden)
