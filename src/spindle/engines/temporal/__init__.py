"""Calls as standalone activities of a Temporal service; open `client.py` first, then `worker.py`."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.engines.temporal.client import TemporalClient as TemporalClient
    from spindle.engines.temporal.worker import TemporalWorker as TemporalWorker
else:
    __getattr__, __dir__ = open_door(__name__)
