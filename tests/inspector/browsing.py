"""A real Chromium on the page of a real `spindle serve`, and a watch for what a page must never do."""

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import httpx2
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, expect

from tests.mcp.serving import COMMAND, chosen_config

Theme: TypeAlias = Literal["light", "dark"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which `.ci/servers` installs on Debian")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--font-render-hinting=none", "--disable-lcd-text"),
]
DESKTOP, PHONE = 1440, 390
HEIGHTS = {DESKTOP: 900, PHONE: 844}
THEMES: tuple[Theme, ...] = ("light", "dark")
WIDTHS = (DESKTOP, PHONE)
VIEWS = ("tools", "calls", "turns", "artifacts", "approvals", "flow", "health")
IN_TIME_MS = 30_000
"""Far more than anything here takes, for a machine with other things to do."""
expect.set_options(timeout=IN_TIME_MS)

DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"

WATCH_POLICY = """
window.violations = [];
addEventListener('securitypolicyviolation', event => {
    window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
"""Collects violations of the content security policy, before any script of the page runs."""

STRANGE_ELEMENTS = """() => {
    const isOwn = address => new URL(address, location.href).origin === location.origin;
    const unused = ['iframe', 'frame', 'object', 'embed', 'base', 'video', 'audio', 'marquee', 'applet', 'font', 'math',
        'isindex', 'blink', 'bgsound', 'layer', 'xml', 'style', 'foreignobject', 'foreignObject', 'animate', 'set'];
    const found = [];
    for (const element of document.querySelectorAll('*')) {
        const tag = element.localName, facts = () => found.push(element.outerHTML.slice(0, 200));
        const isStatic = address => address.startsWith(location.origin + '/page/static/');
        if (unused.includes(tag)) facts();
        else if (tag === 'script' && !(isStatic(element.src) && element.text === '')) facts();
        else if (tag === 'link' && !isStatic(element.href)) facts();
        else if (tag === 'img' && !isStatic(element.src)) facts();
        else if (tag === 'meta' && element.httpEquiv) facts();
        for (const { name, value } of element.attributes) {
            if (/^on/.test(name) || name === 'srcdoc' || name === 'background' || name === 'formaction') facts();
            if (['href', 'src', 'action', 'xlink:href', 'ping', 'poster', 'srcset'].includes(name)) {
                const isPath = /^[#/]/.test(value) && !/^\\/[\\/\\\\]/.test(value);
                if (!isPath || !isOwn(value)) facts();
            }
        }
    }
    return found;
}"""
"""Elements and attributes that no view uses, and that text of an upstream server could become."""


@dataclass(kw_only=True)
class PageServer:
    """A running `spindle serve`."""

    process: "subprocess.Popen[str]"
    folder: Path
    printed: list[str] = field(default_factory=list[str])
    """The lines on its standard error."""
    link: str = ""
    """The one-time link that it has printed."""
    address: str = ""
    """The address for MCP clients."""
    login: Any = None
    """The cookies of the browser that has used the link, for others."""
    _more: threading.Condition = field(default_factory=threading.Condition, repr=False)

    @property
    def origin(self) -> str:
        """The origin of the page."""
        return self.address.removesuffix("/mcp")

    def wait_for(self, pattern: str) -> str:
        """Return the first group of the first printed line that matches."""

        def find() -> str | None:
            return next((found[1] for line in self.printed if (found := re.search(pattern, line))), None)

        with self._more:
            self._more.wait_for(lambda: find() is not None or self.process.poll() is not None, timeout=60)
            found = find()
        assert found is not None, f"the server has not printed {pattern!r}:\n{''.join(self.printed)}"
        return found

    def wait_for_upstream(self) -> None:
        """Wait until all upstream servers are connected."""
        status: Any = None
        for _ in range(600):
            status = httpx2.get(f"{self.origin}/health", timeout=60).json()
            if all(each["state"] == "ready" for each in status["servers"]):
                return
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.2)
        raise AssertionError(f"an upstream server is not connected: {status}")

    def read_on(self) -> None:
        """Collect what the server prints until it ends."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.printed.append(line)
                self._more.notify_all()
        with self._more:
            self._more.notify_all()


@contextmanager
def serve_page(folder: Path, *arguments: str, config: str | None = None) -> Generator[PageServer]:
    """Run `spindle serve` on a free port with the state folder `state`; it is stopped gracefully."""
    if config is not None:
        (folder / "spindle.toml").write_text(config, encoding="utf-8")
    command = [*COMMAND, "serve", "--port", "0", *chosen_config(folder), "--state", str(folder / "state"), *arguments]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)
    server = PageServer(process=process, folder=folder)
    reader = threading.Thread(target=server.read_on)
    reader.start()
    try:
        server.address = server.wait_for(r"(http://\S+/mcp)\b")
        server.link = server.wait_for(r"(http://\S+/page/login#\S+)")
        yield server
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        reader.join()
        if process.stderr is not None:
            process.stderr.close()
    assert process.returncode == 0, "".join(server.printed)


@dataclass(kw_only=True)
class PageWatch:
    """Collects what a page must not do: fail, log errors, break its policy, open dialogs, load from elsewhere."""

    page: Page
    origin: str
    allowed: list[str] = field(default_factory=list[str])
    """Patterns of problems that a test provokes."""
    problems: list[str] = field(default_factory=list[str])
    requests: list[str] = field(default_factory=list[str])
    """The paths of the requests to the API, in order."""
    in_flight: set[Request] = field(default_factory=set[Request])
    """Requests without an answer, except for live updates and those that wait for something."""

    def __post_init__(self) -> None:
        self.page.on("console", self._check_message)
        self.page.on("pageerror", lambda error: self._report(f"uncaught {error}"))
        self.page.on("request", self._check_request)
        self.page.on("requestfinished", self._end_request)
        self.page.on("requestfailed", self._end_request)
        self.page.on("dialog", self._refuse_dialog)
        self.page.on("popup", lambda popup: self._report(f"popup {popup.url}"))
        self.page.on("download", lambda download: self._report(f"download {download.url}"))
        self.page.add_init_script(WATCH_POLICY)

    def check(self) -> None:
        """Fail if the page has done any of that."""
        self.problems += [f"policy: {text}" for text in self.page.evaluate("window.violations ?? []")]
        self.problems += [f"element: {text}" for text in self.page.evaluate(STRANGE_ELEMENTS)]
        bad = [each for each in self.problems if not any(re.search(pattern, each) for pattern in self.allowed)]
        assert not bad, "\n".join(bad)

    def _report(self, problem: str) -> None:
        self.problems.append(f"{self.page.url.removeprefix(self.origin)}: {problem}")

    def _check_message(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self._report(f"console {message.type} {message.text} {message.location.get('url', '')}")

    def _check_request(self, request: Request) -> None:
        path = request.url.removeprefix(self.origin)
        if path == request.url:
            self._report(f"request to another place {request.url}")
        if path.startswith("/api/"):
            self.requests.append(path)
        if not path.startswith("/api/v1/events") and "wait_seconds=" not in path:
            self.in_flight.add(request)

    def _end_request(self, request: Request) -> None:
        self.in_flight.discard(request)

    def _refuse_dialog(self, dialog: Dialog) -> None:
        self._report(f"dialog {dialog.message}")
        dialog.dismiss()


@contextmanager
def open_page(
    browser: Browser,
    server: PageServer,
    *,
    width: int = DESKTOP,
    theme: Theme = "light",
    allowed: tuple[str, ...] = (),
) -> Generator[PageWatch]:
    """Open a logged-in page, and check it in the end."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHTS[width]},
        color_scheme=theme,
        reduced_motion="reduce",
        storage_state=server.login,
        locale="en-GB",
        timezone_id="UTC",
    )
    try:
        context.set_default_timeout(IN_TIME_MS)
        watch = PageWatch(page=context.new_page(), origin=server.origin, allowed=list(allowed))
        if server.login is None:
            log_in(watch.page, server.link)
            server.login = context.storage_state()
        else:
            show_view(watch, "tools")
        yield watch
        watch.check()
    finally:
        context.close()


def log_in(page: Page, link: str) -> None:
    """Follow a one-time link, and wait for the first view."""
    page.goto(link)
    page.wait_for_url("**/page/tools")
    page.locator("nav a[aria-current=page]").wait_for()
    page.locator("main > *").first.wait_for(state="attached")  # before that, it has no keys


def show_view(watch: PageWatch, path: str) -> None:
    """Open a view by its path below /page/, and wait until it is drawn and has loaded what it shows."""
    page = watch.page
    page.goto(f"{watch.origin}/page/{path}")
    page.locator("nav a[aria-current=page]").wait_for()
    page.locator("main > *").first.wait_for(state="attached")
    settle(watch)


def settle(watch: PageWatch) -> None:
    """Wait until the page has the answers to all of its requests, and has drawn them."""
    for _ in range(IN_TIME_MS // 25):
        watch.page.evaluate(DRAWN)  # also lets the driver deliver events of requests
        if not watch.in_flight:
            watch.page.evaluate(DRAWN)
            if not watch.in_flight:
                return
        watch.page.wait_for_timeout(25)
    raise AssertionError(f"without an answer: {[request.url for request in watch.in_flight]}")


def run_async(run: Callable[[], Any]) -> Any:
    """Run a coroutine function in a thread: the browser driver has an event loop in this one."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(anyio.run(run))
        except BaseException as error:  # noqa: BLE001 (raised in the thread of the test)
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
