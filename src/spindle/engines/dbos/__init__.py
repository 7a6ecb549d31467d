"""Calls as queued workflows of DBOS in a PostgreSQL database; open `client.py` first, then `worker.py`."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.engines.dbos.client import DbosClient as DbosClient
    from spindle.engines.dbos.worker import DbosWorker as DbosWorker
else:
    __getattr__, __dir__ = open_door(__name__)
