"""Every view as a picture, in both themes and at both widths.

`make pictures` sets SPINDLE_PICTURES to the folder of the documentation, and the pictures that a page refers to are
written there; otherwise all of them are only checked.
"""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.inspector.browsing import THEMES, WIDTHS, PageServer, needs_browser, open_page
from tests.inspector.pictures import count_rows, reduce_colours
from tests.inspector.scenes import SCENES, Scene

pytestmark = [pytest.mark.slow, needs_browser, pytest.mark.timeout(600)]

DOCS = Path(__file__).resolve().parents[2] / "docs"
MAX_BYTES = 150_000
MIN_ROWS = 40
"""The bar at the top alone has fewer different rows of pixels."""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def find_shown() -> set[str]:
    """Return the names of the pictures that pages of the documentation refer to."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    return set(re.findall(r"pictures/inspector/([\w-]+\.png)", pages))


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_view_is_drawn(browser: Browser, shop: PageServer, tmp_path: Path, scene: Scene) -> None:
    problems: list[str] = []
    chosen, shown = os.environ.get("SPINDLE_PICTURES"), find_shown()
    for width in WIDTHS:
        with open_page(browser, shop, width=width) as watch:
            scene.show(watch)
            for theme in THEMES:
                watch.page.emulate_media(color_scheme=theme)
                picture = watch.page.screenshot(animations="disabled", caret="hide")
                sideways: int = watch.page.evaluate(SIDEWAYS)
                name = f"{scene.name}-{theme}-{width}.png"
                (tmp_path / name).write_bytes(picture)
                problems += [f"{name}: is blank"] * (count_rows(picture) < MIN_ROWS)
                problems += [f"{name}: scrolls sideways by {sideways} px"] * (sideways > 0)
                if chosen is not None and name in shown:
                    (Path(chosen) / name).write_bytes(small := reduce_colours(picture))
                    problems += [f"{name}: {len(small)} bytes"] * (len(small) > MAX_BYTES)

    assert problems == []


def test_pages_refer_to_pictures_that_exist() -> None:
    drawn = {f"{scene.name}-{theme}-{width}.png" for scene in SCENES for theme in THEMES for width in WIDTHS}
    known = {path.name: path.stat().st_size for path in (DOCS / "pictures" / "inspector").glob("*.png")}

    assert find_shown() <= drawn
    assert known.keys() == find_shown()
    assert max(known.values(), default=0) <= MAX_BYTES
