"""What the page shows of the shop, scene by scene, for the accessibility run and for the pictures."""

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page, expect

from tests.inspector.browsing import PageWatch, settle, show_view


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """One thing that the page shows."""

    name: str
    path: str
    """Below /page/."""
    prepare: Callable[[Page], None] | None = None
    """What is done before it is looked at."""

    def show(self, watch: PageWatch) -> None:
        """Open it, and wait until it is complete."""
        show_view(watch, self.path)
        if self.prepare is not None:
            self.prepare(watch.page)
        settle(watch)


def open_row(text: str) -> Callable[[Page], None]:
    """Return a function that opens the first row of a list with a text."""

    def click(page: Page) -> None:
        before = page.url
        page.locator("main [role=option]").filter(has_text=text).first.click()
        page.wait_for_url(lambda url: url != before)

    return click


def await_rows(page: Page) -> None:
    """Wait for the rows of a list."""
    expect(page.locator("main [role=option]").first).to_be_visible()


def run_tool(page: Page) -> None:
    """Run a tool whose result is large."""
    open_row("list_orders")(page)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".trial-result .badge").first).to_have_text("ok")


SCENES = [
    Scene(name="tools", path="tools", prepare=run_tool),
    Scene(name="tools-form", path="tools", prepare=open_row("send_parcels")),
    Scene(name="tools-list", path="tools", prepare=await_rows),
    Scene(name="calls", path="calls", prepare=open_row("list_orders")),
    Scene(name="calls-list", path="calls", prepare=await_rows),
    Scene(name="turns", path="turns", prepare=open_row("Where is order")),
    Scene(name="turns-list", path="turns", prepare=await_rows),
    Scene(name="artifacts", path="artifacts", prepare=open_row("batch_1")),
    Scene(name="artifacts-markdown", path="artifacts", prepare=open_row("batch_2")),
    Scene(name="artifacts-list", path="artifacts", prepare=await_rows),
    Scene(name="approvals", path="approvals", prepare=open_row("send_mail")),
    Scene(name="flow", path="flow", prepare=open_row("desk 7")),
    Scene(name="health", path="health"),
]
