"""The suites that compare gateways hold for Spindle's."""

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import gateways
from benchmarks.gateway_peers.suites import HOSTILE, ORDINARY, Verdict


def test_the_table_shows_what_holds_what_does_not_and_why() -> None:
    row = gateways.Row("spindle", {"ordinary": {name: Verdict(holds=True) for name in ORDINARY}, "hostile": {}})
    row.verdicts["hostile"] = {name: Verdict(holds=False, reason="why not") for name in HOSTILE}
    printed = StringIO()

    gateways.show([row, gateways.Row("other", problem="not installed")], Console(file=printed, width=200))

    text = printed.getvalue()
    assert f"{len(ORDINARY)} of {len(ORDINARY)}" in text
    assert f"0 of {len(HOSTILE)}" in text
    assert "why not" in text
    assert "other: not measured; not installed" in text


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_every_case_holds_behind_spindle() -> None:
    row = await gateways.measure("spindle", Path(sys.executable))

    assert row.problem == ""
    failed = {case: each.reason for found in row.verdicts.values() for case, each in found.items() if not each.holds}
    assert failed == {}
