"""The frame of the page in a browser: the login by a link, the navigation, keys, and the way out."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.inspector.browsing import (
    IN_TIME_MS,
    VIEWS,
    PageServer,
    PageWatch,
    log_in,
    needs_browser,
    open_page,
    serve_page,
)

pytestmark = [pytest.mark.slow, needs_browser]


def test_the_printed_link_opens_the_tools_once(browser: Browser, tmp_path: Path) -> None:
    with serve_page(tmp_path) as server:
        with open_page(browser, server) as watch:
            expect(watch.page).to_have_url(f"{server.origin}/page/tools")
        other = browser.new_page()
        other.goto(server.link)

        expect(other.locator("#status")).to_contain_text("spindle page", timeout=IN_TIME_MS)
        assert other.context.cookies() == []
        other.context.close()


def test_the_address_of_the_server_leads_to_the_login(browser: Browser, page_server: PageServer) -> None:
    page = browser.new_page()
    page.goto(page_server.origin)

    expect(page).to_have_url(f"{page_server.origin}/page/login")
    expect(page.locator("#status")).to_contain_text("spindle serve")
    page.context.close()


def test_the_cookie_is_hidden_from_scripts_and_other_sites(watched: PageWatch) -> None:
    [cookie] = watched.page.context.cookies()

    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    assert watched.page.evaluate("document.cookie") == ""


def test_each_view_opens_by_its_link_and_by_its_keys(watched: PageWatch) -> None:
    page = watched.page
    for view in (*VIEWS[1:], VIEWS[0]):
        link = page.locator(f"nav a[data-view={view}]")
        link.click()
        expect(page).to_have_url(f"{watched.origin}/page/{view}")
        expect(link).to_have_attribute("aria-current", "page")
        expect(page.locator(f"main.view-{view} > *").first).to_be_attached()
    for number, view in enumerate(VIEWS, 1):
        page.locator("main").focus()
        page.keyboard.press("g")
        page.keyboard.press(str(number))
        expect(page.locator(f"main.view-{view} > *").first).to_be_attached()


def test_a_page_without_a_login_is_sent_to_the_login(browser: Browser, page_server: PageServer) -> None:
    page = browser.new_page()
    for view in VIEWS:
        page.goto(f"{page_server.origin}/page/{view}")
        expect(page).to_have_url(f"{page_server.origin}/page/login")
    page.context.close()


def test_a_logout_ends_the_login_also_in_copies_of_its_cookie(browser: Browser, tmp_path: Path) -> None:
    with serve_page(tmp_path) as server, open_page(browser, server) as first, open_page(browser, server) as second:
        first.page.get_by_role("button", name="Log out").click()
        expect(first.page).to_have_url(f"{server.origin}/page/login")

        # The server looks for logouts of other processes every few seconds; this one was its own.
        second.allowed.append("401")
        second.page.reload()
        expect(second.page).to_have_url(f"{server.origin}/page/login")


def test_the_link_leaves_no_code_in_the_history(browser: Browser, tmp_path: Path) -> None:
    with serve_page(tmp_path) as server:
        page = browser.new_page()
        log_in(page, server.link)
        page.go_back()

        assert "#" not in page.url
        page.context.close()


def test_each_view_lists_its_keys(watched: PageWatch) -> None:
    page = watched.page
    for view, key in (("tools", "Ctrl+Enter"), ("calls", "Escape"), ("approvals", "deny"), ("health", "g 1")):
        page.locator(f"nav a[data-view={view}]").click()
        expect(page.locator(f"main.view-{view} > *").first).to_be_attached()
        page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keys")
        expect(keys).to_contain_text(key)
        expect(keys.get_by_role("button")).to_have_count(1)
        page.keyboard.press("Escape")
        expect(keys).to_have_count(0)


def test_the_keys_are_also_behind_a_button_of_the_bar(watched: PageWatch) -> None:
    page = watched.page
    page.get_by_role("button", name="Keys of this view").click()

    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Ctrl+Enter")


def test_the_links_of_the_bar_stay_where_they_are(watched: PageWatch) -> None:
    def find_places() -> list[float]:
        return watched.page.locator("nav a").evaluate_all("links => links.map(link => link.offsetLeft)")

    before = find_places()
    for view in VIEWS:
        watched.page.locator(f"nav a[data-view={view}]").click()
        expect(watched.page.locator(f"nav a[data-view={view}]")).to_have_attribute("aria-current", "page")
        assert find_places() == before


def test_a_view_that_cannot_be_loaded_says_so_and_opens_when_the_server_is_back(
    browser: Browser, page_server: PageServer
) -> None:
    with open_page(browser, page_server, allowed=("ERR_FAILED", "Failed to load")) as watch:
        page = watch.page
        page.route("**/views/health.js", lambda route: route.abort())
        page.locator("nav a[data-view=health]").click()
        expect(page.get_by_text("The server does not answer")).to_be_visible()
        page.unroute("**/views/health.js")
        page.get_by_role("button", name="Try again").click()

        expect(page.locator("main.view-health > *").first).to_be_attached()


def test_j_moves_in_the_list_without_a_click(watched: PageWatch) -> None:
    page = watched.page
    expect(page.locator("main [role=option]").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")

    expect(page.locator("main [role=option][aria-selected=true]")).to_have_attribute("aria-posinset", "2")


def test_going_back_before_a_view_has_loaded_stays_with_the_address(watched: PageWatch) -> None:
    page = watched.page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/static/views/artifacts.js", hold)
    page.locator("nav a[data-view=artifacts]").click()
    expect(page).to_have_url(re.compile("/page/artifacts$"))
    page.go_back()
    page.wait_for_function("location.pathname === '/page/tools'")
    for route in held:
        route.continue_()
    page.evaluate("import('/page/static/views/artifacts.js')")

    assert len(held) == 1
    expect(page.get_by_role("searchbox", name="Search tools")).to_be_visible()
    assert page.locator("main").get_attribute("class") == "view-tools"
