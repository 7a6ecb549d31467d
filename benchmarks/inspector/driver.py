"""A tab of a headless Chromium on the page of a `spindle serve`, driven by lines of JSON on standard input.

`python -m benchmarks.inspector.driver FOLDER`, where FOLDER/state has the journal. The browser driver has an event loop
of its own, so it runs in a process of its own; both end with standard input.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any

import anyio
from playwright.sync_api import BrowserContext, Page, sync_playwright

from benchmarks.inspector.fill import build_calls
from spindle import Journal

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
WATCH = """
const useful = location.pathname.startsWith('/page/artifacts/') ? '.text-line'
    : '.call-row, .list .empty:not([hidden]), .empty-state, .chart-bar, .chart-empty:not([hidden])';
window.firstRows = new Promise(resolve => {
    const look = () => {
        if (!document.querySelector(useful)) return;
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
    };
    const observer = new MutationObserver(look);
    observer.observe(document, {childList: true, subtree: true, attributes: true, attributeFilter: ['hidden']});
});
window.longest = 0;
new PerformanceObserver(list => {
    for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({type: 'longtask', buffered: true});
"""
"""Notes when the first rows were painted, and the longest task since `window.longest` was set to 0."""
COUNT_FRAMES = """
seconds => new Promise(resolve => {
    const began = performance.now();
    let frames = 0;
    window.longest = 0;
    const step = () => {
        frames += 1;
        const took = performance.now() - began;
        if (took < seconds * 1000) requestAnimationFrame(step);
        else resolve({frame: took / 1000 / frames, longest: window.longest / 1000,
            rows: document.querySelectorAll('.call-row').length});
    };
    requestAnimationFrame(step);
})
"""


def find_missing() -> str | None:
    """Return why the page cannot be measured here, or `None`."""
    return None if find_chromium() else "needs chromium, which `.ci/servers` installs on Debian"


def find_chromium() -> str | None:
    """Return the path of a Chromium."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def serve(folder: Path) -> Generator[str]:
    """Run `spindle serve` on a free port; yields the one-time link of its page."""
    config = folder / "spindle.toml"
    config.touch()
    command = [sys.executable, "-m", "spindle.cli.main", "serve", "--port", "0"]
    command += ["--config", str(config), "--state", str(folder / "state")]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = next(filter(None, (re.search(r"http://\S+/page/login#\S+", line) for line in process.stderr)), None)
        if found is None:
            raise RuntimeError("spindle serve has printed no link to its page")
        rest = threading.Thread(target=process.stderr.read, daemon=True)  # a full pipe would block the server
        rest.start()
        yield found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


class Tab:
    """A logged-in tab."""

    def __init__(self, context: BrowserContext, link: str, journal: Path) -> None:
        self.context = context
        self.origin = link.partition("/page/")[0]
        self.journal = journal
        self.page: Page = context.new_page()
        self.page.goto(link)
        self.page.wait_for_url("**/page/tools")
        self._numbers = count(1)
        self._client: Any = None

    def view(self, path: str) -> float:
        """Return the seconds from the start of the navigation until the first rows are painted."""
        page = self.context.new_page()
        try:
            page.add_init_script(WATCH)
            page.goto(f"{self.origin}/page/{path}", wait_until="commit")
            return page.evaluate("window.firstRows") / 1000
        finally:
            page.close()

    def watch(self) -> None:
        """Open the live list of calls, which stays open."""
        self.page.add_init_script(WATCH)
        self.page.goto(f"{self.origin}/page/calls", wait_until="commit")
        self.page.evaluate("window.firstRows")

    def live(self, seconds: float, rate: int) -> dict[str, float]:
        """Return the seconds of a frame and of the longest task while calls are made at a rate."""
        number, ended = next(self._numbers), threading.Event()
        writer = threading.Thread(target=anyio.run, args=(write_calls, self.journal, rate, number, ended))
        if rate:
            writer.start()
        try:
            return self.page.evaluate(COUNT_FRAMES, seconds)
        finally:
            ended.set()
            if rate:
                writer.join()

    def heap(self) -> dict[str, float]:
        """Return the bytes of the tab's JavaScript heap after a collection, and its elements and listeners."""
        if self._client is None:
            self._client = self.context.new_cdp_session(self.page)
            self._client.send("Performance.enable")
        for _ in range(2):
            self._client.send("HeapProfiler.collectGarbage")
        metrics = {each["name"]: each["value"] for each in self._client.send("Performance.getMetrics")["metrics"]}
        return {"bytes": metrics["JSHeapUsedSize"], "nodes": metrics["Nodes"], "listeners": metrics["JSEventListeners"]}


async def write_calls(path: Path, rate: int, number: int, ended: threading.Event) -> None:
    """Write calls to the journal as another process of the same machine would, ten times a second."""
    calls = build_calls(1 << 30, seed=number, ending_at=datetime(2100, 1, 1, tzinfo=UTC))
    async with Journal.sqlite(path) as journal:
        while not ended.is_set():
            now = datetime.now(UTC)
            some = list(islice(calls, rate // 10))
            keys = {intent.idempotency_key: f"{number}-{intent.idempotency_key}" for intent, _ in some}
            await journal.begin(
                [replace(each, idempotency_key=keys[each.idempotency_key], started_at=now) for each, _ in some]
            )
            await journal.finish(
                [replace(each, idempotency_key=keys[each.idempotency_key], ended_at=now) for _, each in some]
            )
            await anyio.sleep(0.1 - min(0.1, (datetime.now(UTC) - now).total_seconds()))


def main() -> int:
    """Carry out one line after the other."""
    folder = Path(sys.argv[1])
    with sync_playwright() as playwright, serve(folder) as link:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        tab = Tab(browser.new_context(viewport={"width": 1440, "height": 900}), link, folder / "state/journal.sqlite")
        for line in sys.stdin:
            name, *arguments = json.loads(line)
            sys.stdout.write(f"{json.dumps(getattr(tab, name)(*arguments))}\n")
            sys.stdout.flush()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
