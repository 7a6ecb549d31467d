"""Calls on a real Temporal dev server with real worker processes."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from spindle.testing import engine_suite
from tests.engines.harnesses import EngineProcesses
from tests.engines.temporal_server import TemporalServer, running_temporal
from tests.engines.worker_checks import CHECKS

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    with running_temporal(tmp_path_factory.mktemp("temporal")) as running:
        yield running


@pytest.fixture
async def engine(server: TemporalServer, tmp_path: Path) -> AsyncIterator[EngineProcesses]:
    def restart() -> None:
        server.kill()
        server.start()

    async with EngineProcesses(server.url, tmp_path, restart) as processes:
        yield processes


@pytest.mark.parametrize("scenario", engine_suite.SCENARIOS)
async def test_scenario(engine: EngineProcesses, scenario: str) -> None:
    await engine_suite.run_scenario(scenario, engine)


@pytest.mark.parametrize("scenario", engine_suite.TURN_SCENARIOS)
async def test_turn_scenario(engine: EngineProcesses, scenario: str) -> None:
    await engine_suite.run_turn_scenario(scenario, engine)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("check", CHECKS)
async def test_worker(engine: EngineProcesses, check: str) -> None:
    await CHECKS[check](engine)
