"""The official conformance suite on both revisions: against `spindle serve` with tools of its own, and as a gateway."""

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mcp.serving import HERE, node_environment, npm_program, served_over_http

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REVISIONS = ["2025-11-25", "2026-07-28"]
CONFIG = f"""
[tools]
modules = ["fixtures:TOOLS"]
python_path = ["{HERE / "conformance"}"]
[server]
fence = false
offers = "offers:OFFERS"
"""
GATEWAY = """
[mcp.servers.reference]
url = "{url}"
prefix = false
sampling = true
roots = true
"""
BEYOND_THE_OLDER_REVISION = {
    # It has no names of questions, asks one question at a time, and only during calls.
    "input-required-result-basic-elicitation",
    "input-required-result-multiple-input-requests",
    "input-required-result-non-tool-request",
    # It declares capabilities once for a connection, not for each call.
    "input-required-result-capability-check",
    "server-stateless",
}


def run_suite(address: str, revision: str, folder: Path) -> tuple[set[str], set[str], str]:
    """Run what a revision requires; return the scenarios that passed, those that are required and failed, and all."""
    done = subprocess.run(
        [*npm_program("conformance"), "server", "--url", address, "--requirements", revision],
        cwd=folder,
        env=node_environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    summary, _, unscored = done.stdout.partition("=== SUMMARY ===")[2].partition("Not scored")
    passed = set(re.findall(r"✓ ([\w-]+): [1-9]\d* passed, 0 failed", summary))
    failed = set(re.findall(r"✗ ([\w-]+):", summary)) - set(re.findall(r"✗ ([\w-]+) \(", unscored))
    return passed, failed, done.stdout


@contextmanager
def reference_server(*arguments: str) -> Generator[str]:
    """Run the reference server on a free port, and give its address."""
    command = [sys.executable, str(HERE / "conformance" / "reference.py"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        finally:
            process.kill()


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_scenario_that_a_revision_requires_passes(revision: str, tmp_path: Path) -> None:
    with served_over_http(tmp_path, config=CONFIG) as address:
        passed, failed, output = run_suite(address, revision, tmp_path)

    assert failed == set(), output
    assert len(passed) > 20


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_scenario_that_a_server_passes_it_passes_behind_a_gateway(revision: str, tmp_path: Path) -> None:
    with reference_server() as url:
        direct, failed_directly, _ = run_suite(url, revision, tmp_path)
        with served_over_http(tmp_path, config=GATEWAY.format(url=url)) as address:
            behind, failed, output = run_suite(address, revision, tmp_path)

    assert failed_directly == set()
    assert len(direct) > 30
    assert direct - behind == set(), output
    assert failed == set(), output


@pytest.mark.parametrize(
    ("revision", "beyond"), [(REVISIONS[0], set[str]()), (REVISIONS[1], BEYOND_THE_OLDER_REVISION)]
)
def test_a_server_of_the_older_revision_passes_on_both_behind_a_gateway(
    revision: str, beyond: set[str], tmp_path: Path
) -> None:
    with reference_server("older") as url, served_over_http(tmp_path, config=GATEWAY.format(url=url)) as address:
        passed, failed, output = run_suite(address, revision, tmp_path)

    assert failed <= beyond, output
    assert len(passed) > 30


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
