"""The embedded executor passes the suite of the engines, so all of them promise the same."""

from pathlib import Path

import anyio
import pytest

from spindle.testing import engine_suite
from tests.engines.embedded import EmbeddedProcesses

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("scenario", engine_suite.SCENARIOS)
async def test_scenario(tmp_path: Path, scenario: str) -> None:
    async with anyio.create_task_group() as tasks:
        harness = EmbeddedProcesses(tmp_path, tasks)
        try:
            await engine_suite.run_scenario(scenario, harness)
        finally:
            with anyio.CancelScope(shield=True):
                await harness.close()
            tasks.cancel_scope.cancel()
