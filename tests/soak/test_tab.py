"""The memory of a tab stays level while calls come in; `make soak` looks at it for an hour."""

from pathlib import Path

import pytest

from tests.inspector.browsing import needs_browser
from tests.soak.tab import run_tab

pytestmark = [pytest.mark.slow, needs_browser, pytest.mark.timeout(600)]


def test_the_memory_of_a_tab_stays_level(tmp_path: Path) -> None:
    result = run_tab(tmp_path, seconds=15, seed=17)

    result.check()
    assert result.counts["looks"] > 0
