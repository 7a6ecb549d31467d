"""The official conformance suite against `spindle serve`, on both revisions of the protocol."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.mcp.serving import HERE, node_environment, npm_program, served_over_http

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CONFIG = f"""
[tools]
modules = ["fixtures:TOOLS"]
python_path = ["{HERE / "conformance"}"]
[server]
fence = false
offers = "offers:OFFERS"
"""


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_that_a_revision_requires_passes(revision: str, tmp_path: Path) -> None:
    suite = npm_program("conformance")
    with served_over_http(tmp_path, config=CONFIG) as address:
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


TASKS = f"""
[tools]
modules = ["task_fixtures:TOOLS"]
python_path = ["{HERE / "conformance"}"]
[server]
fence = false
task_after_seconds = 0.5
"""
TASK_SCENARIOS = [
    *("lifecycle", "capability-negotiation", "mrtr-input", "mrtr-composition", "dispatch-and-envelope"),
    *("request-headers", "request-state-removal", "required-task-error", "wire-fields"),
]


def test_every_scenario_about_tasks_passes(tmp_path: Path) -> None:
    suite = npm_program("conformance")
    with served_over_http(tmp_path, config=TASKS) as address:
        for scenario in TASK_SCENARIOS:
            done = subprocess.run(
                [*suite, "server", "--url", address, "--scenario", f"tasks-{scenario}"],
                cwd=tmp_path,
                env=node_environment(),
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            assert re.search(r"Passed: (\d+)/\1, 0 failed", done.stdout), done.stdout
            assert done.returncode == 0
