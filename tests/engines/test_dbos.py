"""Calls on DBOS in a real PostgreSQL server with real worker processes."""

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from spindle.testing import engine_suite
from tests.engines.harnesses import EngineProcesses
from tests.engines.worker_checks import CHECKS
from tests.journal.postgres_server import Server, running_server

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
async def engine(server: Server, tmp_path: Path) -> AsyncIterator[EngineProcesses]:
    def restart() -> None:
        server.stop(signal.SIGQUIT)
        server.start()

    url = "dbos+" + server.dsn().partition("?")[0]
    async with EngineProcesses(url, tmp_path, restart) as processes:
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
