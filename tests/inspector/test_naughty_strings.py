"""515 naughty strings in every field are shown as text: nothing runs, nothing is loaded, nothing becomes an element."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.inspector.browsing import PageServer, PageWatch, needs_browser, open_page, serve_page, settle, show_view
from tests.inspector.naughty_state import prepare_naughty

pytestmark = [pytest.mark.slow, needs_browser, pytest.mark.timeout(900)]

MARKUP = (
    "<script>alert(123)</script>",
    "<img src=x onerror=alert(",
    "javascript:alert(",
    '{{ "".__class__',
)
"""Parts of strings; rows with them are opened one by one."""
MAX_STEPS = 40
ROWS = "main .list [role=option]"
READ_ROWS = "[...document.querySelectorAll('main .list [role=option]')].map(row => row.textContent)"
SCROLL = """() => {
    const list = document.querySelector('main .list');
    const before = list.scrollTop;
    list.scrollTop += list.clientHeight * 0.9;
    return list.scrollTop > before;
}"""
OPEN_DETAILS = "for (const each of document.querySelectorAll('main details')) each.open = true"


@pytest.fixture(scope="module")
def naughty(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Iterator[tuple[PageServer, list[str]]]:
    """Run a server whose every text is a naughty string, and return the strings."""
    folder = tmp_path_factory.mktemp("naughty")
    strings = prepare_naughty(folder, shared_data / "naughty-strings" / "blns.json")
    with serve_page(folder) as server:
        server.wait_for_upstream()
        yield server, strings


@pytest.fixture
def watch(browser: Browser, naughty: tuple[PageServer, list[str]]) -> Iterator[PageWatch]:
    """Open a tall page."""
    with open_page(browser, naughty[0]) as opened:
        opened.page.set_viewport_size({"width": 1440, "height": 2_000})
        yield opened


def read_rows(watch: PageWatch) -> str:
    """Scroll through a list, and return the texts of its rows."""
    page = watch.page
    expect(page.locator(ROWS).first).to_be_visible()
    seen: set[str] = set(page.evaluate(READ_ROWS))
    for _ in range(MAX_STEPS):
        if not page.evaluate(SCROLL):
            break
        settle(watch)
        seen |= set(page.evaluate(READ_ROWS))
    return "\n".join(seen)


def explore(watch: PageWatch) -> int:
    """Look at every tab and every closed part of what is shown; return how many tabs there were."""
    page = watch.page
    names = [tab for tab in page.locator("main [role=tab]").all_text_contents() if tab]
    for name in names:
        tab = page.locator("main [role=tab]").filter(has_text=re.compile(rf"^{re.escape(name)}$")).first
        if tab.count() == 0:
            continue  # it belongs to another tab, which is not open now
        tab.click()
        settle(watch)
        page.evaluate(OPEN_DETAILS)
        settle(watch)
        watch.check()
    page.evaluate(OPEN_DETAILS)
    settle(watch)
    watch.check()
    return len(names)


def open_marked(watch: PageWatch, view: str) -> int:
    """Open rows with markup one by one, and return how many there were."""
    opened = 0
    for part in MARKUP:
        show_view(watch, view)
        row = watch.page.locator(ROWS).filter(has_text=part).first
        for _ in range(MAX_STEPS):
            if row.count() or not watch.page.evaluate(SCROLL):
                break
            settle(watch)
        if row.count() == 0:
            continue
        row.click(position={"x": 200, "y": 8})
        settle(watch)
        if opened == 0:
            explore(watch)
        watch.check()
        opened += 1
    return opened


@pytest.mark.parametrize("view", ["tools", "calls", "approvals", "flow"])
def test_a_list_shows_strings_as_text(watch: PageWatch, naughty: tuple[PageServer, list[str]], view: str) -> None:
    show_view(watch, view)
    shown = read_rows(watch)
    watch.check()
    short = [text for text in naughty[1] if "<script" in text and text.isascii() and len(text) < 60]
    plain = [text for text in short if not set(text) & set('"\\\n')]

    assert len(plain) > 8
    assert [text for text in plain if text not in shown] == []
    assert open_marked(watch, view) > 0


def test_a_call_and_its_result_show_all_strings_at_once(watch: PageWatch) -> None:
    for tool in ("write_markdown", "write_json", "write_text", "echo", "fail", "ask"):
        show_view(watch, f"calls?tool={tool}")
        watch.page.locator(ROWS).first.click(position={"x": 200, "y": 8})
        settle(watch)
        explore(watch)
        expect(watch.page.locator("main .call-detail")).to_contain_text(tool)


def test_a_turn_shows_its_messages_as_text(watch: PageWatch) -> None:
    show_view(watch, "turns")
    watch.page.locator(ROWS).first.click(position={"x": 200, "y": 8})
    settle(watch)
    explore(watch)

    expect(watch.page.locator("main")).to_contain_text("<script>alert(123)</script>")


@pytest.mark.parametrize("kind", ["write_text", "write_json", "write_markdown"])
def test_an_artifact_is_text_in_every_reader(watch: PageWatch, kind: str) -> None:
    watch.allowed.append("Failed to load resource: the server responded with a status of 4")  # not a table, for example
    show_view(watch, "artifacts")
    watch.page.locator(ROWS).filter(has_text=kind).first.click(position={"x": 200, "y": 8})
    settle(watch)

    assert explore(watch) >= 4
    expect(watch.page.locator("main")).to_contain_text(kind)


def test_a_search_in_an_artifact_shows_hits_as_text(watch: PageWatch) -> None:
    show_view(watch, "artifacts")
    watch.page.locator(ROWS).filter(has_text="write_text").first.click(position={"x": 200, "y": 8})
    watch.page.get_by_role("tab", name="Grep").click()
    for pattern in ("<script", "javascript:", "onerror"):
        watch.page.get_by_role("searchbox", name="Search this artifact").fill(pattern)
        watch.page.get_by_role("searchbox", name="Search this artifact").press("Enter")
        settle(watch)
        watch.check()
        expect(watch.page.locator("main")).to_contain_text(pattern)


@pytest.mark.parametrize("number", [0, 216, 217, 218])
def test_an_outcome_of_an_upstream_is_shown_as_text(watch: PageWatch, number: int) -> None:
    show_view(watch, f"tools/{quote(f'mcp__naughty__plain_{number}')}")
    page = watch.page
    explore(watch)
    page.get_by_role("tab", name="Try it").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("dialog[open]").get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".trial-result .badge").first).not_to_have_text("running")
    settle(watch)
    explore(watch)


def test_health_shows_the_upstream_as_text(watch: PageWatch) -> None:
    show_view(watch, "health")
    watch.page.evaluate(OPEN_DETAILS)
    settle(watch)

    expect(watch.page.locator("main")).to_contain_text("naughty")
