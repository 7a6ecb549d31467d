"""The official conformance suite against `spindle serve`, on both revisions of the protocol."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp.gateways import entry
from tests.mcp.serving import HERE, node_environment, npm_program, served_over_http

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TOOLS = f"""
[tools]
modules = ["fixtures:TOOLS"]
python_path = ["{HERE / "conformance"}"]
[server]
fence = false
"""
CONFIGS = {
    "offers": f'{TOOLS}offers = "offers:OFFERS"',
    "upstream": TOOLS + entry("up", [sys.executable, str(HERE / "conformance" / "upstream.py")], prefix=False),
}
"""Where prompts and resources come from: the server itself, or one behind it."""


@pytest.mark.parametrize("origin", CONFIGS)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_that_a_revision_requires_passes(revision: str, origin: str, tmp_path: Path) -> None:
    suite = npm_program("conformance")
    with served_over_http(tmp_path, config=CONFIGS[origin]) as address:
        done = subprocess.run(
            [*suite, "server", "--url", address, "--requirements", revision],
            cwd=tmp_path,
            env=node_environment(),
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

    summary, _, unscored = done.stdout.partition("=== SUMMARY ===")[2].partition("Not scored")
    passed = set(re.findall(r"✓ ([\w-]+):", summary))
    failed = set(re.findall(r"✗ ([\w-]+):", summary)) - set(re.findall(r"✗ ([\w-]+) \(", unscored))
    assert failed == set(), done.stdout
    assert len(passed) > 20
