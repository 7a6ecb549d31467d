"""Turns on an engine: the `TurnEngine` for runners that start them, and what every worker does with an iteration."""

import logging
from collections.abc import Mapping
from typing import Final

from spindle.engines.client import EngineTurn, TurnClient
from spindle.engines.connection import EngineConnection
from spindle.engines.settings import EngineSettings
from spindle.engines.worker import WorkerStats
from spindle.errors import EngineUnavailableError, InvalidTurnStateError, SpindleError, UsageError
from spindle.json_types import JsonObject
from spindle.turns.engine import TurnRest
from spindle.turns.runner import TurnRunner
from spindle.turns.signals import CancelEvent

FORMAT: Final = 1
"""The format of the messages; a worker refuses any other."""

_logger = logging.getLogger("spindle.engines")


class EngineTurns:
    """A `TurnEngine`: runs saved turns on the workers that have a runner of the same name."""

    def __init__(self, client: TurnClient, settings: EngineSettings, name: str) -> None:
        self._client = client
        self._connection = EngineConnection(client, settings)
        self._name = name
        self._queue = settings.get_turn_queue(name)

    async def start(self, run_id: str, turn_id: str) -> None:
        """Start the run of a saved turn; do nothing if the engine knows its id.

        Raises:
            EngineUnavailableError: The engine cannot be reached, or refuses the turn.
        """
        message: JsonObject = {"format": FORMAT, "runner": self._name, "turn_id": turn_id}
        turn = EngineTurn(id=run_id, queue=self._queue, message=message, summary=self._name)
        await self._connection.open()
        try:
            await self._connection.repeat(lambda: self._client.start_turn(turn))
        except SpindleError:
            raise
        except Exception as error:
            # Such as a missing namespace.
            raise EngineUnavailableError(f"The engine refused the turn: {type(error).__name__}") from error

    async def wait(self, run_id: str, *, after: int) -> TurnRest:
        """Wait until the turn has ended, or was suspended at a step later than `after`."""
        return await self._connection.repeat(lambda: self._client.wait_turn(run_id, after))

    async def answer(self, run_id: str, *, step: int) -> None:
        """Let a suspended turn go on."""
        await self._connection.repeat(lambda: self._client.answer_turn(run_id, step))

    async def cancel(self, run_id: str) -> None:
        """Ask for the turn to be aborted."""
        await self._connection.repeat(lambda: self._client.cancel_turn(run_id))

    async def close(self) -> None:
        """Close the connection to the engine."""
        await self._connection.close()


class TurnIterations:
    """Runs the iterations of turns on one worker, with its runners by name."""

    def __init__(self, runners: Mapping[str, TurnRunner], stats: WorkerStats) -> None:
        self._runners = runners
        self._stats = stats

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the runners."""
        return tuple(self._runners)

    async def advance(self, message: JsonObject, cancel: CancelEvent) -> JsonObject:
        """Run one iteration of a turn and return how far it is; `lost` if it cannot be read here.

        Raises:
            SpindleError: The iteration has to be started again, such as a `JournalError`.
        """
        runner = self._runners.get(str(message.get("runner")))
        if runner is None or message.get("format") != FORMAT:
            raise UsageError(f"This worker has no runner {message.get('runner')!r}, or is of another version.")
        async with self._stats.count_running():
            try:
                found = await runner.advance(message["turn_id"], cancel=cancel)
            except InvalidTurnStateError as error:
                _logger.warning("a turn cannot be read by this worker (%s): %s", error.reason, error)
                return {"status": "lost", "step": 0}
        self._stats.iterations[found.status] += 1
        return {"status": found.status, "step": found.step}
