"""Runs calls and turns on the workers of a durable engine; open `transport.py` first, then `worker.py`, `turns.py`.

Engine-specific code is in one package for each engine: `temporal/` and `dbos/`.
"""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.engines.client import EngineAnswer as EngineAnswer
    from spindle.engines.client import EngineCall as EngineCall
    from spindle.engines.client import EngineClient as EngineClient
    from spindle.engines.client import EngineTurn as EngineTurn
    from spindle.engines.client import TurnClient as TurnClient
    from spindle.engines.open import open_transport as open_transport
    from spindle.engines.open import open_turns as open_turns
    from spindle.engines.open import open_worker as open_worker
    from spindle.engines.settings import EngineSettings as EngineSettings
    from spindle.engines.transport import EngineTransport as EngineTransport
    from spindle.engines.turns import EngineTurns as EngineTurns
    from spindle.engines.worker import CallRunner as CallRunner
    from spindle.engines.worker import EngineWorker as EngineWorker
    from spindle.engines.worker import WorkerStats as WorkerStats
else:
    __getattr__, __dir__ = open_door(__name__)
