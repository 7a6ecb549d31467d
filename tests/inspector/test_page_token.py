"""The token of the page in a browser: the live stream, a browser without it, and a server that gets the cookie only."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.inspector.browsing import PageServer, PageWatch, needs_browser, open_page, serve_page, show_view

pytestmark = [pytest.mark.slow, needs_browser]

READ = """
async ([text, size]) => {
    const { readEvents } = await import('/page/static/events.js');
    const bytes = new TextEncoder().encode(text);
    let at = 0;
    const body = new ReadableStream({ pull(control) {
        if (at >= bytes.length) control.close();
        else control.enqueue(bytes.slice(at, at += size));
    } });
    const found = [];
    await readEvents(body, (name, data) => found.push([name, data]));
    return found;
}
"""
READ_ENDLESS = """
async () => {
    const { readEvents } = await import('/page/static/events.js');
    const part = new TextEncoder().encode('x'.repeat(1 << 20));
    let parts = 0, isCancelled = false;
    const body = new ReadableStream({
        pull(control) { parts += 1; control.enqueue(part); },
        cancel() { isCancelled = true; },
    });
    const failed = await readEvents(body, () => {}).then(() => null, error => error.name);
    return [failed, parts < 20, isCancelled];
}
"""


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_events_are_read_wherever_the_stream_is_divided(watched: PageWatch, size: int) -> None:
    text = (
        "retry: 2000\n\nevent: hello\ndata: {}\n\n: beat\n\nevent: calls\ndata: [1,\ndata:  2]\n\n"
        'data:"ü 𝄞"\n\nevent: empty\n\nevent: late\ndata: 3'
    )

    found = watched.page.evaluate(READ, [text, size])
    assert found == [["hello", "{}"], ["calls", "[1,\n 2]"], ["message", '"ü 𝄞"']]


def test_an_event_without_an_end_does_not_fill_the_memory(watched: PageWatch) -> None:
    assert watched.page.evaluate(READ_ENDLESS) == ["RangeError", True, True]


def test_a_lost_stream_is_said_and_opened_again(browser: Browser, page_server: PageServer) -> None:
    with open_page(browser, page_server, allowed=("ERR_FAILED",)) as watch:
        page = watch.page
        page.route("**/api/v1/events*", lambda route: route.abort())
        show_view(watch, "calls")
        expect(page.locator("#connection")).to_have_text("Not connected")

        page.unroute("**/api/v1/events*")
        expect(page.locator("#connection")).to_have_text("")


@pytest.mark.parametrize("change", ["removeItem('spindle-token')", "setItem('spindle-token', 'of another login')"])
def test_a_browser_without_the_token_is_sent_to_the_login_with_the_reason(
    browser: Browser, page_server: PageServer, change: str
) -> None:
    with open_page(browser, page_server, allowed=("401",)) as watch:
        watch.page.evaluate(f"localStorage.{change}")
        watch.page.goto(f"{page_server.origin}/page/calls")

        expect(watch.page).to_have_url(f"{page_server.origin}/page/login?ended")
        expect(watch.page.locator("#status")).to_contain_text("Your login has ended")
        expect(watch.page.locator("#status")).to_contain_text("spindle page")


def test_a_logout_leaves_no_token_in_the_browser(browser: Browser, tmp_path: Path) -> None:
    with serve_page(tmp_path) as server, open_page(browser, server) as watch:
        assert watch.page.evaluate("localStorage.getItem('spindle-token')")
        watch.page.get_by_role("button", name="Log out").click()
        expect(watch.page).to_have_url(f"{server.origin}/page/login")

        assert watch.page.evaluate("localStorage.getItem('spindle-token')") is None


class _CookieThief(BaseHTTPRequestHandler):
    """Another program on the same host, whose page the browser opens."""

    seen: list[str] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Cookie", ""))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_server_on_another_port_gets_the_cookie_and_reads_nothing_with_it(
    browser: Browser, page_server: PageServer
) -> None:
    thief = HTTPServer(("127.0.0.1", 0), _CookieThief)
    thread = threading.Thread(target=thief.serve_forever)
    thread.start()
    _CookieThief.seen.clear()
    try:
        with open_page(browser, page_server) as watch:
            other = watch.page.context.new_page()
            other.goto(f"http://127.0.0.1:{thief.server_port}/")
            other.close()
    finally:
        thief.shutdown()
        thread.join()
        thief.server_close()

    stolen = next(filter(None, _CookieThief.seen))
    assert "spindle" in stolen
    for path in ("/calls", "/artifacts", "/approvals", "/health", "/openapi.json", "/events?topics=calls"):
        answer = httpx2.get(f"{page_server.origin}/api/v1{path}", headers={"Cookie": stolen})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "E_PAGE_LOGIN"), path
