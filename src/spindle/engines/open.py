"""Opens the transport or a worker of the engine that the settings name; the engine's package is loaded here."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from spindle.artifacts.spool import Spool
from spindle.engines import dbos, temporal
from spindle.engines.settings import EngineSettings
from spindle.engines.transport import EngineTransport
from spindle.engines.worker import CallRunner, EngineWorker

if TYPE_CHECKING:
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
    client = temporal.TemporalClient(settings) if settings.engine == "temporal" else dbos.DbosClient(settings)
    transport = EngineTransport(client, settings, spool=spool, state_key=state_key)
    try:
        yield transport
    finally:
        await transport.close()


def open_worker(
    settings: EngineSettings, runner: CallRunner, *, queues: tuple[str, ...] = (), drain_seconds: float = 30.0
) -> EngineWorker:
    """Build a worker that takes calls from the queues of the settings, or from some of them.

    Raises:
        MissingExtraError: The package of the engine is not installed.
    """
    chosen = queues or settings.queues
    if settings.engine == "temporal":
        return temporal.TemporalWorker(settings, runner, queues=chosen, drain_seconds=drain_seconds)
    return dbos.DbosWorker(settings, runner, queues=chosen, drain_seconds=drain_seconds)
