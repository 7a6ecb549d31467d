"""The documentation site lists every page once, and each works in a browser, wide and narrow, without another host."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urldefrag

import pytest
import yaml
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

Navigation: TypeAlias = "str | list[Navigation] | dict[str, Navigation]"

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which `.ci/servers` installs on Debian")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]

DESKTOP, PHONE = 1280, 390

TOO_WIDE = """() => [...document.querySelectorAll('article pre, article table, article img, article p, article li')]
    .filter(element => {
        let { left, right } = element.getBoundingClientRect();
        // A reader sees only what the boxes around it that scroll by themselves do not clip.
        for (let box = element.parentElement; box !== document.body; box = box.parentElement) {
            if (getComputedStyle(box).overflowX === 'visible') continue;
            left = Math.max(left, box.getBoundingClientRect().left);
            right = Math.min(right, box.getBoundingClientRect().right);
        }
        return left < -1 || right > document.documentElement.clientWidth + 1;
    })
    .map(element => element.tagName + ': ' + element.textContent.trim().slice(0, 60))"""
"""Elements that stick out of the page at its present width."""

SCROLLING_TABLES = """() => [...document.querySelectorAll('article .md-typeset__scrollwrap')]
    .filter(wrap => wrap.scrollWidth > wrap.clientWidth + 1)
    .map(wrap => wrap.textContent.trim().slice(0, 60))"""
"""Tables that do not fit the column and must be scrolled."""

SCROLLING_CODE = """() => [...document.querySelectorAll('article pre code')]
    .filter(code => code.scrollWidth > code.clientWidth + 1)
    .map(code => code.textContent.split('\\n').reduce((a, b) => a.length >= b.length ? a : b).trim().slice(0, 60))"""
"""The longest line of each code block that does not fit the column and must be scrolled."""

WITHOUT_BUTTON = """() => [...document.querySelectorAll('article pre')]
    .filter(block => !block.querySelector('button[data-clipboard-target], button[data-md-type=copy]'))
    .map(block => block.textContent.trim().slice(0, 60))"""
"""Code blocks that cannot be copied with a click."""


def pages_in(navigation: Navigation) -> Iterator[str]:
    """Yield the pages of a part of the navigation, in order."""
    if isinstance(navigation, str):
        yield navigation
    elif isinstance(navigation, list):
        for part in navigation:
            yield from pages_in(part)
    else:
        for part in navigation.values():
            yield from pages_in(part)


def test_the_navigation_lists_every_page_once(root: Path) -> None:
    navigation = yaml.safe_load((root / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    docs = root / "docs"

    assert sorted(pages_in(navigation)) == sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line on stderr for each."""

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site in a temporary folder and return its path."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(root / "docs", folder / "docs")
    shutil.copy(root / "mkdocs.yml", folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
    return folder / "site"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Serve the site and return its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=os.fspath(site)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a headless Chromium."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Open a new browser profile with the width of a desktop."""
    fresh = browser.new_context(viewport={"width": DESKTOP, "height": 900}, permissions=["clipboard-read"])
    yield fresh
    fresh.close()


@dataclass(kw_only=True)
class Visit:
    """Opens pages of the site, follows its links and collects problems."""

    page: Page
    address: str
    problems: list[str] = field(default_factory=list[str])
    ids: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The anchors of each page that was opened."""
    links: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Pairs of a page and a link on it."""

    def __post_init__(self) -> None:
        self.page.on("console", self.check_message)
        self.page.on("pageerror", lambda error: self.report(f"uncaught {error}"))
        self.page.on("request", self.check_request)

    def report(self, problem: str) -> None:
        self.problems.append(f"{self.page.url.removeprefix(self.address)}: {problem}")

    def check_message(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.report(f"console {message.type} {message.text}")

    def check_request(self, request: Request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.report(f"request to another host {request.url}")

    def open(self, url: str) -> None:
        """Open a page and check it at both widths; of other files, check only that they are there."""
        self.ids[url] = set()
        if not url.endswith(("/", ".html")):
            if self.page.request.get(url).status != 200:
                self.problems.append(f"{url}: cannot be opened")
            return
        response = self.page.goto(url)
        if response is None or response.status != 200:
            self.report("cannot be opened")
            return
        if self.page.locator("article pre").count():
            self.page.locator("article pre button").first.wait_for(state="attached")
        self.problems += [f"{url}: no copy button on {block!r}" for block in self.page.evaluate(WITHOUT_BUTTON)]
        self.problems += [f"{url}: scrolling table {text!r}" for text in self.page.evaluate(SCROLLING_TABLES)]
        self.problems += [f"{url}: scrolling code {line!r}" for line in self.page.evaluate(SCROLLING_CODE)]
        for width in (DESKTOP, PHONE):
            self.page.set_viewport_size({"width": width, "height": 900})
            self.problems += [f"{url}: at {width} px too wide {text!r}" for text in self.page.evaluate(TOO_WIDE)]
            if self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
                self.report(f"scrolls sideways at {width} px")
        self.page.set_viewport_size({"width": DESKTOP, "height": 900})
        self.ids[url] = set(self.page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)"))
        hrefs: list[str] = self.page.evaluate("[...document.querySelectorAll('a[href]')].map(link => link.href)")
        self.links |= {(url, href) for href in hrefs if href.startswith(self.address)}

    def follow_links(self) -> None:
        """Open every page that a link leads to, and check the anchors."""
        while waiting := {urldefrag(href).url for _, href in self.links} - set(self.ids):
            for url in sorted(waiting):
                self.open(url)
        for url, href in sorted(self.links):
            target, anchor = urldefrag(href)
            if anchor and unquote(anchor) not in self.ids[target]:
                self.problems.append(f"{url}: no such anchor {href}")


@needs_browser
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_page_is_linked_and_works_in_a_browser(site: Path, address: str, context: BrowserContext) -> None:
    visit = Visit(page=context.new_page(), address=address)

    visit.open(f"{address}index.html")
    visit.follow_links()

    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html"}
    assert visit.problems == []
    assert built <= {url.removeprefix(address) for url in visit.ids}


@needs_browser
@pytest.mark.slow
def test_a_click_copies_a_code_block(address: str, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(f"{address}execution.html")

    page.locator("article pre").first.hover()
    page.locator("article pre button").first.click()

    # The page copies after the click returned.
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('execute_parallel')")


@needs_browser
@pytest.mark.slow
def test_search_finds_a_page(address: str, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(f"{address}index.html")

    page.get_by_role("button", name="Search").first.click()
    page.keyboard.type("truncated")
    result = page.locator("a[href*='h=truncated']").first
    result.click()

    expect(page.locator("article mark").first).to_contain_text(re.compile("truncated", re.IGNORECASE), timeout=30_000)


@needs_browser
@pytest.mark.slow
def test_a_broken_page_is_reported(address: str, site: Path, context: BrowserContext) -> None:
    page = """<body><article><table><td style="min-width: 1500px">wide</td></table><pre>code</pre>
        <pre style="width: 50px; overflow: auto"><code style="display: block; overflow: auto">long_code()</code></pre>
        <img src="http://other.invalid/picture.png"><a href="#nowhere">anchor</a><a href="none.html">dead</a>
        <a href="none.svg">dead</a></article>
        <script>document.querySelector('pre').append(document.createElement('button')); missing()</script>"""
    (site / "broken.html").write_text(page, encoding="utf-8")
    visit = Visit(page=context.new_page(), address=address)

    visit.open(f"{address}broken.html")
    visit.follow_links()
    (site / "broken.html").unlink()

    expected = [
        "no copy button on",
        "scrolling code 'long_code()'",
        "at 390 px too wide",
        "at 1280 px too wide",
        "scrolls sideways at 1280 px",
        "request to another host",
        "uncaught missing is not defined",
        "no such anchor",
        "none.html: cannot be opened",
        "none.svg: cannot be opened",
    ]
    assert [part for part in expected if not any(part in problem for problem in visit.problems)] == []
