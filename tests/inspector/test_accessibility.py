"""axe-core finds nothing serious in any view, in both themes and at both widths."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.inspector.browsing import THEMES, WIDTHS, PageServer, needs_browser, open_page
from tests.inspector.scenes import SCENES, Scene

pytestmark = [pytest.mark.slow, needs_browser, pytest.mark.timeout(600)]

AXE = Path(__file__).resolve().parents[2] / ".npm-page" / "node_modules" / "axe-core" / "axe.min.js"
RUN = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
GRAVE = {"serious", "critical"}


def find_violations(page: Page) -> list[str]:
    """Return the serious and critical findings in a page, one line for each element."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(f"() => {{ {AXE.read_text(encoding='utf-8')} }}")
    found: list[dict[str, Any]] = page.evaluate(RUN)
    return [
        f"{each['impact']} {each['id']}: {node['target'][0]} {node['html'][:150]} {node['failureSummary'][:300]}"
        for each in found
        if each["impact"] in GRAVE
        for node in each["nodes"][:3]
    ]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_view_has_no_serious_findings(browser: Browser, shop: PageServer, scene: Scene) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not in .npm-page; `make test-all` installs it")
    found: list[str] = []
    for width in WIDTHS:
        with open_page(browser, shop, width=width) as watch:
            scene.show(watch)
            for theme in THEMES:
                watch.page.emulate_media(color_scheme=theme)
                found += [f"{theme} {width} {violation}" for violation in find_violations(watch.page)]

    assert found == []


def test_a_field_without_a_name_is_found(browser: Browser, shop: PageServer) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not in .npm-page; `make test-all` installs it")
    with open_page(browser, shop) as watch:
        watch.page.evaluate("document.querySelector('main').append(document.createElement('input'))")

        assert any(line.startswith("critical label") for line in find_violations(watch.page))


def test_the_login_has_no_serious_findings(browser: Browser, shop: PageServer) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not in .npm-page; `make test-all` installs it")
    for theme in THEMES:
        context = browser.new_context(color_scheme=theme)
        page = context.new_page()
        page.goto(shop.origin)

        assert find_violations(page) == []
        context.close()
