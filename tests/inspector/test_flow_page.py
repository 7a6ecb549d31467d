"""The information flow of a session in a browser: sources, taint, and why a person was asked."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.inspector.browsing import PHONE, PageServer, PageWatch, needs_browser, open_page, serve_page, show_view
from tests.inspector.shop_state import SESSION, prepare_shop

pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Serve the shop, in one of whose sessions a mail was stopped."""
    folder = tmp_path_factory.mktemp("flow")
    prepare_shop(folder)
    with serve_page(folder) as server:
        yield server


@pytest.fixture
def shown(browser: Browser, shop: PageServer) -> Iterator[PageWatch]:
    with open_page(browser, shop) as watch:
        yield watch


def test_a_session_shows_what_tainted_it_and_why_a_person_was_asked(shown: PageWatch) -> None:
    page = shown.page
    show_view(shown, "flow")
    row = page.get_by_role("option").filter(has_text=SESSION)
    expect(row).to_contain_text("tainted")
    row.click()

    session = page.locator(".flow-session")
    tainting = session.locator(".flow-step").filter(has_text="tainted the session")
    expect(tainting).to_have_count(1)
    asked = session.locator(".flow-step.asked").filter(has_text="send_mail")
    expect(asked.locator(".flow-reasons li").first).to_contain_text("kim@elsewhere.example")
    suspect = asked.get_by_role("row").filter(has_text="kim@elsewhere.example")
    expect(suspect).to_have_class("suspect")
    expect(asked).to_have_class(re.compile("tainted"))


def test_the_origin_of_a_value_leads_to_its_source(shown: PageWatch) -> None:
    page = shown.page
    show_view(shown, f"flow/{SESSION}".replace(" ", "%20"))
    link = page.locator(".flow-step.asked .flow-link").first
    text = link.text_content() or ""
    found = re.search(r"result \S+ of (\S+)", text)
    assert found, text
    link.click()
    expect(page.locator(".flow-step:focus")).to_contain_text(found[1])


def test_a_call_that_ran_is_explained_when_it_is_opened(shown: PageWatch) -> None:
    page = shown.page
    show_view(shown, f"flow/{SESSION}".replace(" ", "%20"))
    step = page.locator(".flow-step.call").filter(has_text="check_stock").first
    step.get_by_text("Why was nobody asked?").click()
    expect(step.locator(".flow-why")).to_contain_text("By the current policy")
    expect(step.get_by_role("row").filter(has_text="article")).to_be_visible()
    step.get_by_role("link", name="check_stock").click()
    expect(page).to_have_url(re.compile(r"/page/calls/.+"))


def test_a_session_is_opened_by_its_id_on_a_phone(browser: Browser, shop: PageServer) -> None:
    with open_page(browser, shop, width=PHONE) as watch:
        page = watch.page
        show_view(watch, "flow")
        page.get_by_label("Open a session by its id").fill("desk 2")
        page.keyboard.press("Enter")
        expect(page.locator(".flow-session h1")).to_have_text("desk 2")
        assert page.evaluate("document.querySelector('main').scrollWidth") <= PHONE
        page.get_by_role("link", name="Back").click()
        expect(page.get_by_role("listbox", name="Sessions")).to_be_visible()


def test_an_unknown_session_is_refused(shown: PageWatch) -> None:
    shown.allowed.append("404")
    show_view(shown, "flow/none")
    expect(shown.page.get_by_role("alert")).to_contain_text("none")


def test_a_newcomer_reads_how_sessions_get_here(watched: PageWatch) -> None:
    show_view(watched, "flow")
    expect(watched.page.locator(".empty-state")).to_contain_text("A session appears with its first recorded call")
