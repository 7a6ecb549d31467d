"""Backends of the journal: memory, a SQLite file or a PostgreSQL database; start with `sqlite.py`."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.journal.backends.memory import MemoryJournalStore as MemoryJournalStore
    from spindle.journal.backends.postgres import PostgresJournalStore as PostgresJournalStore
    from spindle.journal.backends.sqlite import SqliteJournalStore as SqliteJournalStore
    from spindle.journal.backends.sqlite_search import scan_sqlite as scan_sqlite
    from spindle.journal.backends.sqlite_search import summarize_sqlite as summarize_sqlite
    from spindle.journal.search import CallSearch as CallSearch
else:
    __getattr__, __dir__ = open_door(__name__)
