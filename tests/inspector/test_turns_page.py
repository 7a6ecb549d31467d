"""Turns in a browser: the list, a turn as a story, live updates, and what a newcomer sees."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from spindle import Call, Gate, Journal, ToolContext, TurnRunner, tool
from spindle.cli import load_config
from spindle.testing import ScriptedModel
from tests.inspector.browsing import (
    PHONE,
    PageServer,
    PageWatch,
    needs_browser,
    open_page,
    run_async,
    serve_page,
    show_view,
)
from tests.inspector.shop_state import prepare_shop

pytestmark = [pytest.mark.slow, needs_browser]

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Serve the shop, whose journal has turns."""
    folder = tmp_path_factory.mktemp("turns")
    prepare_shop(folder)
    with serve_page(folder) as server:
        yield server


@pytest.fixture
def shown(browser: Browser, shop: PageServer) -> Iterator[PageWatch]:
    with open_page(browser, shop) as watch:
        yield watch


def open_journal(shop: PageServer) -> Journal:
    """Open the journal of the server, as a program beside it does."""
    journal = load_config(shop.folder / "spindle.toml", state=shop.folder / "state").journal
    return Journal.sqlite(str(journal))


def test_a_turn_is_a_story_with_links_to_its_calls_and_artifacts(shown: PageWatch) -> None:
    page = shown.page
    show_view(shown, "turns")
    page.get_by_role("option").filter(has_text="Where is order").click()

    story = page.locator(".turn-story")
    expect(story.locator(".step.user")).to_contain_text("Where is order 1042?")
    expect(story.locator(".step.model")).to_have_count(3)
    expect(story).to_contain_text("Order 1042 was packed. It leaves tomorrow.")
    expect(story.locator(".facts")).to_contain_text("input tokens 3,700")
    expect(story.locator(".context-bar .piece").first).to_be_visible()
    story.get_by_text("All parts").click()
    expect(story.get_by_role("row").filter(has_text="Results of list_orders")).to_be_visible()

    artifact = story.get_by_role("link", name="artifact").first
    assert re.fullmatch(r"/page/artifacts/[^/]+", artifact.get_attribute("href") or "")
    story.get_by_role("link", name="list_orders").click()
    expect(page).to_have_url(re.compile(r"/page/calls/[0-9a-f]{64}"))


def test_a_failed_turn_tells_its_error_and_the_list_is_filtered(shown: PageWatch) -> None:
    page = shown.page
    show_view(shown, "turns")
    page.get_by_label("Status").select_option("error")
    expect(page).to_have_url(re.compile("status=error"))
    expect(page.locator(".list .row")).to_have_count(1)

    page.get_by_role("listbox", name="Turns").focus()
    page.keyboard.press("j")
    page.keyboard.press("Enter")

    expect(page.locator(".turn-story .problem")).to_contain_text("model is away")
    expect(page).to_have_url(re.compile("status=error"))


def test_a_turn_appears_and_changes_while_it_runs_in_another_process(shown: PageWatch, shop: PageServer) -> None:
    page = shown.page
    show_view(shown, "turns")
    expect(page.locator(".list .row").first).to_be_visible()

    async def run() -> None:
        @tool
        async def decide(*, ctx: ToolContext) -> str:
            """Decide."""
            return str(await ctx.wait_for(Gate(f"Sure? {HOSTILE}", schema=bool, timeout_seconds=60)))

        async with open_journal(shop) as journal:
            script = ScriptedModel(Call("d1", "decide", {}), f"Done {HOSTILE}")
            runner = TurnRunner(executor_callback=script, tools=[decide], journal=journal)
            runner.on("turn_gate_open", lambda gate: runner.gates.resolve(gate.id, True))
            await runner.run(messages=[f"Decide now {HOSTILE}"], session_id="live")

    run_async(run)

    row = page.get_by_role("option").filter(has_text="Decide now")
    expect(row).to_contain_text("ok")
    row.click()
    expect(page.locator(".turn-gate")).to_contain_text("Answer: true")
    expect(page.locator(".turn-story")).to_contain_text(f"Done {HOSTILE}")


def test_a_phone_shows_the_list_or_the_story(browser: Browser, shop: PageServer) -> None:
    with open_page(browser, shop, width=PHONE) as watch:
        page = watch.page
        show_view(watch, "turns")
        page.get_by_role("option").filter(has_text="Where is order").click()
        expect(page.locator(".turn-story")).to_be_visible()
        expect(page.get_by_role("listbox", name="Turns")).to_be_hidden()
        assert page.evaluate("document.querySelector('main').scrollWidth") <= PHONE
        page.get_by_role("link", name="Back").click()
        expect(page.get_by_role("listbox", name="Turns")).to_be_visible()


def test_a_turn_without_a_story_leads_to_its_calls(shown: PageWatch) -> None:
    shown.allowed.append("404")
    show_view(shown, "turns/turn%2041")
    expect(shown.page.locator(".turn-detail .empty-state")).to_contain_text("no story")
    shown.page.get_by_role("link", name="Calls of turn").click()
    expect(shown.page).to_have_url(re.compile(r"/page/calls\?turn=turn.41$"))
    expect(shown.page.get_by_role("listbox").get_by_role("option").first).to_be_visible()


def test_a_newcomer_reads_how_turns_get_here(watched: PageWatch) -> None:
    show_view(watched, "turns")
    expect(watched.page.locator(".empty-state")).to_contain_text("TurnRunner(journal=…)")
