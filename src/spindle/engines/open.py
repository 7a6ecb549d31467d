"""Opens the transport or a worker of the engine that the settings name; the engine's package is loaded here."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from spindle.artifacts.spool import Spool
from spindle.engines import dbos, temporal
from spindle.engines.settings import EngineSettings
from spindle.engines.transport import EngineTransport
from spindle.engines.turns import EngineTurns, TurnIterations
from spindle.engines.worker import CallRunner, EngineWorker
from spindle.turns.runner import TurnRunner

if TYPE_CHECKING:
    from spindle.engines.client import TurnClient
    from spindle.execution.state_key import StateKey


@asynccontextmanager
async def open_transport(
    settings: EngineSettings, *, spool: Spool | None = None, state_key: "StateKey | None" = None
) -> AsyncGenerator[EngineTransport]:
    """Open a transport for an `Executor`, and close it at exit; the first call connects.

    Callers and workers need the same spool for large results, and the same state key for secret arguments.

    Raises:
        MissingExtraError: The package of the engine is not installed.
    """
    transport = EngineTransport(_build_client(settings), settings, spool=spool, state_key=state_key)
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def open_turns(settings: EngineSettings, name: str) -> "AsyncGenerator[EngineTurns]":
    """Open the engine for a `TurnRunner(engine=…)`, and close it at exit; the first turn connects.

    The turns run on workers that have a runner of this name.

    Raises:
        MissingExtraError: The package of the engine is not installed.
    """
    turns = EngineTurns(_build_client(settings), settings, name)
    try:
        yield turns
    finally:
        await turns.close()


def _build_client(settings: EngineSettings) -> "TurnClient":
    return temporal.TemporalClient(settings) if settings.engine == "temporal" else dbos.DbosClient(settings)


def open_worker(
    settings: EngineSettings,
    runner: CallRunner,
    *,
    queues: tuple[str, ...] = (),
    turns: Mapping[str, TurnRunner] | None = None,
    drain_seconds: float = 30.0,
) -> EngineWorker:
    """Build a worker that takes calls from the queues of the settings, or from some of them.

    It also takes the turns of runners with the names in `turns`.

    Raises:
        MissingExtraError: The package of the engine is not installed.
    """
    chosen = queues or settings.queues
    iterations = TurnIterations(turns or {}, runner.stats)
    if settings.engine == "temporal":
        return temporal.TemporalWorker(settings, runner, iterations, queues=chosen, drain_seconds=drain_seconds)
    return dbos.DbosWorker(settings, runner, iterations, queues=chosen, drain_seconds=drain_seconds)
