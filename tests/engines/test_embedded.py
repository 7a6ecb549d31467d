"""The embedded executor passes the suite of the engines, so all of them promise the same."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from spindle.testing import engine_suite
from tests.engines.embedded import EmbeddedProcesses

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]


@asynccontextmanager
async def run_processes(folder: Path) -> AsyncGenerator[EmbeddedProcesses]:
    async with anyio.create_task_group() as tasks:
        harness = EmbeddedProcesses(folder, tasks)
        try:
            yield harness
        finally:
            with anyio.CancelScope(shield=True):
                await harness.close()
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("scenario", engine_suite.SCENARIOS)
async def test_scenario(tmp_path: Path, scenario: str) -> None:
    async with run_processes(tmp_path) as harness:
        await engine_suite.run_scenario(scenario, harness)


@pytest.mark.parametrize("scenario", engine_suite.TURN_SCENARIOS)
async def test_turn_scenario(tmp_path: Path, scenario: str) -> None:
    async with run_processes(tmp_path) as harness:
        await engine_suite.run_turn_scenario(scenario, harness)
