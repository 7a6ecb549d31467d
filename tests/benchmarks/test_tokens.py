import pytest

from benchmarks.tokens import PREVIEW_CHARS, measure_text
from spindle import Budget

pytestmark = pytest.mark.anyio


async def test_a_short_preview_is_billed_less_than_the_share_and_that_less_than_the_whole() -> None:
    share = await measure_text("log", Budget(), "share")
    preview = await measure_text("log", Budget(preview_chars=PREVIEW_CHARS), "preview")

    assert share.whole == preview.whole > share.first > preview.first
    assert share.saved > 8
    assert preview.saved > 60
