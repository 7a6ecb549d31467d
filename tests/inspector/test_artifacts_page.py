"""The view of artifacts in a browser: list, lines of any size, grep, JSON, Markdown, tables, bytes, the download."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from spindle import Spool
from tests.inspector.browsing import (
    DESKTOP,
    HEIGHTS,
    PHONE,
    PageServer,
    PageWatch,
    needs_browser,
    open_page,
    run_async,
    serve_page,
    show_view,
)

pytestmark = [pytest.mark.slow, needs_browser]

HOSTILE_ID = "turn/<img src=x onerror=alert(1)>\u202e'\""
HOSTILE_TEXT = "<script>alert(1)</script>\n\u202eabc\n![x](http://evil.example/x.png)\n"
HOSTILE_MARKDOWN = """# A <img src=x onerror=alert(1)> title

[click](javascript:alert(1)) ![pic](http://evil.example/x.png) <iframe src="http://evil.example"></iframe>

<script>alert(1)</script>

- [x] done
- **strong** and *soft* and `code`

| a | b |
| - | -: |
| 1 | 2 |
"""
LINES = 600_000
"""As many lines as an element could not be high."""


async def fill(folder: Path) -> None:
    spool = Spool.files(folder / "state" / "spool")
    for number in range(150):
        await spool.write(f"old/{number:03}", f"artifact {number}\n")
    await spool.write("log", (f"line {n} {'ERROR' if n % 50_000 == 0 else 'fine'}\n" for n in range(LINES)))
    await spool.write("long", "x" * 300_000 + "needle" + "y" * 300_000)
    await spool.write("orders", json.dumps({"items": [{"n": n, "name": f"item {n}"} for n in range(500)], "ok": True}))
    await spool.write("table.csv", "town,total\n" + "".join(f"t{n % 3},{n}\n" for n in range(1_000)))
    await spool.write("notes.md", HOSTILE_MARKDOWN)
    await spool.write("picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (64).to_bytes(4) + (48).to_bytes(4) + bytes(99))
    await spool.write(HOSTILE_ID, HOSTILE_TEXT, turn_id="<b>turn</b>")


@pytest.fixture(scope="module")
def artifact_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = tmp_path_factory.mktemp("artifacts")
    run_async(lambda: fill(folder))
    with serve_page(folder) as server:
        yield server


@pytest.fixture
def reader(browser: Browser, artifact_server: PageServer) -> Iterator[PageWatch]:
    with open_page(browser, artifact_server) as watch:
        yield watch


def open_artifact(watch: PageWatch, name: str, **query: str) -> Page:
    rest = "&".join(f"{key}={quote(value)}" for key, value in query.items())
    show_view(watch, f"artifacts/{quote(name, safe='')}?{rest}")
    return watch.page


def test_the_list_loads_more_as_it_is_scrolled_and_is_filtered(reader: PageWatch) -> None:
    show_view(reader, "artifacts")
    page = reader.page
    rows = page.get_by_role("listbox", name="Artifacts")
    expect(page.get_by_text("157 artifacts")).to_be_visible()
    expect(rows.get_by_role("option").first).to_contain_text("onerror=alert(1)")
    rows.focus()
    page.keyboard.press("End")
    expect(rows.locator('[aria-setsize="157"]').first).to_be_visible()  # the next page has come
    page.keyboard.press("End")
    expect(rows.get_by_role("option").filter(has_text="000").first).to_be_visible()
    page.get_by_label("Filter artifacts").fill("old/07")
    expect(page.get_by_text("10 of 157")).to_be_visible()


def test_lines_are_drawn_where_they_are_looked_at(reader: PageWatch) -> None:
    page = open_artifact(reader, "log", tab="lines")
    lines = page.get_by_role("region", name="Lines")
    expect(lines.get_by_text("line 0 ERROR")).to_be_visible()
    lines.focus()
    page.keyboard.press("G")
    expect(lines.get_by_text(f"line {LINES - 1} fine")).to_be_visible()
    page.keyboard.press("g")
    expect(lines.get_by_text("line 0 ERROR")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_text(f"line 2 of {LINES + 1:,}")).to_be_visible()
    page.get_by_label("Go to a line or a percentage").fill("50%")
    page.keyboard.press("Enter")
    near_the_middle = re.compile(r"^(29[4-9]|30[0-5]),\d{3}$")
    expect(page.locator(".text-line.picked .line-number")).to_have_text(near_the_middle)
    page.get_by_label("Go to a line or a percentage").fill("123,457")
    page.keyboard.press("Enter")
    expect(page.locator(".text-line.picked")).to_contain_text("line 123456 fine")
    # Only what is in sight exists.
    assert page.locator(".text-line").count() < 120


def test_a_hit_of_grep_leads_to_its_line_and_n_to_the_next(reader: PageWatch) -> None:
    page = open_artifact(reader, "log", tab="lines")
    page.get_by_role("region", name="Lines").focus()
    page.keyboard.press("/")
    page.get_by_label("Search this artifact").fill("error$")
    page.get_by_label("ignore case").check()
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_text("12 hits")).to_be_visible()
    hits = page.get_by_role("listbox", name="Hits")
    expect(hits.locator("mark").first).to_have_text("ERROR")
    hits.get_by_role("option").filter(has_text="line 100000 ERROR").click()
    expect(page.locator(".text-line.picked")).to_contain_text("line 100000 ERROR")
    expect(page.locator(".text-line.picked mark")).to_have_text("ERROR")
    page.keyboard.press("n")
    expect(page.locator(".text-line.picked")).to_contain_text("line 150000 ERROR")
    page.keyboard.press("N")
    expect(page.locator(".text-line.picked")).to_contain_text("line 100000 ERROR")


def test_a_search_without_a_hit_offers_to_ignore_case(reader: PageWatch) -> None:
    page = open_artifact(reader, "log", tab="grep", q="error$")
    expect(page.get_by_text("No line matches in this case.")).to_be_visible()
    page.get_by_role("button", name="Ignore case").click()

    expect(page.get_by_text("12 hits")).to_be_visible()
    expect(page.get_by_role("button", name="Ignore case")).to_be_hidden()


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_match_of_a_long_line_is_in_sight(reader: PageWatch, width: int) -> None:
    reader.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
    page = open_artifact(reader, "orders", tab="grep", q="item 499")

    expect(page.get_by_role("listbox", name="Hits").locator("mark")).to_be_in_viewport(ratio=1)


def test_a_bad_pattern_is_explained(reader: PageWatch) -> None:
    reader.allowed.append("422")
    page = open_artifact(reader, "log", tab="grep", q="(")
    expect(page.get_by_role("alert")).to_contain_text("pattern")


def test_a_long_line_is_read_in_parts(reader: PageWatch) -> None:
    page = open_artifact(reader, "long", tab="lines")
    page.get_by_role("button", name="KB more").click()
    dialog = page.get_by_role("dialog", name="A long line")
    expect(dialog).to_contain_text("600,006")
    dialog.get_by_role("button", name="Next part").click()
    expect(dialog.get_by_role("status")).to_contain_text("Bytes 16,384 to")
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("tab", name="Grep").click()
    page.get_by_label("Search this artifact").fill("needle")
    page.keyboard.press("Enter")
    page.get_by_role("option").filter(has_text="needle").click()
    expect(page.get_by_role("dialog", name="A long line")).to_contain_text("needle")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_json_is_browsed_and_queried(reader: PageWatch) -> None:
    page = open_artifact(reader, "orders")
    tree = page.get_by_role("region", name="JSON")
    expect(tree.get_by_role("button", name="items")).to_be_visible()
    tree.get_by_role("button", name="items").click()
    expect(tree.locator(".json-toggle")).to_have_count(202)
    tree.get_by_role("button", name="Show more").click()
    expect(tree.locator(".json-toggle")).to_have_count(402)
    tree.locator(".json-toggle").filter(has_text="item 7").first.click()
    expect(tree.locator(".json-value.string").first).to_have_text("item 7")
    page.get_by_label("JSONPath").fill("$.items[?@.n > 498].name")
    page.keyboard.press("Enter")
    expect(tree.get_by_label("Value 1")).to_have_text('"item 499"')


def test_markdown_is_rendered_without_links_images_and_html(reader: PageWatch) -> None:
    page = open_artifact(reader, "notes.md")
    text = page.get_by_role("region", name="Markdown")
    expect(text.get_by_role("heading")).to_have_text("A <img src=x onerror=alert(1)> title")
    expect(text).to_contain_text("click<javascript:alert(1)>")
    expect(text).to_contain_text("[image: pic]")
    expect(text.locator("table td").last).to_have_text("2")
    assert text.locator("a, img, iframe, script").count() == 0
    page.get_by_role("button", name="Raw").click()
    expect(page.get_by_role("region", name="Lines")).to_contain_text("<iframe src=")


def test_a_table_is_queried(reader: PageWatch) -> None:
    page = open_artifact(reader, "table.csv")
    rows = page.get_by_role("region", name="Rows")
    expect(rows.locator("tbody tr")).to_have_count(200)
    page.get_by_label("SQL").fill("select town, sum(total) as n from artifact group by town order by town")
    page.keyboard.press("Control+Enter")
    expect(rows.locator("tbody tr")).to_have_count(3)
    expect(rows.locator("tbody tr").first).to_have_text("t0166833")
    reader.allowed.append("422")
    page.get_by_label("SQL").fill("drop table artifact")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_be_visible()


def test_an_image_is_described_and_never_loaded(reader: PageWatch) -> None:
    page = open_artifact(reader, "picture")
    expect(page.get_by_text("64 × 48 pixels")).to_be_visible()
    page.get_by_role("tab", name="Bytes").click()
    expect(page.get_by_role("region", name="Bytes of the artifact")).to_contain_text("89 50 4e 47")


def test_hostile_names_and_texts_are_only_text(reader: PageWatch) -> None:
    for tab in ("lines", "grep", "json", "markdown", "hex", "facts"):
        page = open_artifact(reader, HOSTILE_ID, tab=tab)
        expect(page.get_by_role("heading", level=1)).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.get_by_text("<b>turn</b>")).to_be_visible()


def test_a_download_is_a_file(reader: PageWatch) -> None:
    page = open_artifact(reader, "notes.md")
    reader.allowed.append("download")
    with page.expect_download() as started:
        page.get_by_role("button", name="Download").click()
    assert started.value.suggested_filename == "notes.md"
    assert started.value.path().read_text() == HOSTILE_MARKDOWN


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_page_is_never_wider_than_the_screen(browser: Browser, artifact_server: PageServer, width: int) -> None:
    with open_page(browser, artifact_server, width=width) as watch:
        for name in ("log", "long", "orders", "notes.md", "picture", HOSTILE_ID):
            page = open_artifact(watch, name)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
