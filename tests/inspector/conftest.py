"""Fixtures of the browser tests: one browser for each file, and two servers.

Imports are in the fixtures: quick tests beside them need neither a browser driver nor the gateway.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.inspector.browsing import PageServer, PageWatch


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Start a headless Chromium, for one module: its driver has an event loop that async tests could not share."""
    from playwright.sync_api import sync_playwright

    from tests.inspector.browsing import CHROMIUM, FLAGS

    if CHROMIUM is None:
        pytest.skip("needs chromium, which `.ci/servers` installs on Debian")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def page_server(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[PageServer]":
    """Run `spindle serve` without a configuration, as a newcomer does."""
    from tests.inspector.browsing import serve_page

    with serve_page(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[PageServer]":
    """Run `spindle serve` with the tools and the history of a shop."""
    from tests.inspector.browsing import serve_page
    from tests.inspector.shop_state import prepare_shop

    folder = tmp_path_factory.mktemp("shop")
    prepare_shop(folder)
    with serve_page(folder) as server:
        server.wait_for_upstream()
        yield server


@pytest.fixture
def watched(browser: "Browser", page_server: "PageServer") -> "Iterator[PageWatch]":
    """Open a logged-in page of that server, wide and light; problems fail the test in the end."""
    from tests.inspector.browsing import open_page

    with open_page(browser, page_server) as watch:
        yield watch
