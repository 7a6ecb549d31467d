"""Implementations of `RecordStore` (see `records.py`): in memory and in SQLite."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.turns.backends.memory import MemoryRecordStore as MemoryRecordStore
    from spindle.turns.backends.sqlite import SqliteRecordStore as SqliteRecordStore
else:
    __getattr__, __dir__ = open_door(__name__)
