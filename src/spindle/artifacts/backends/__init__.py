"""Backends of artifacts on disk, in memory, in object stores and in DuckDB, one technology per module."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.artifacts.backends.duckdb import TableSource as TableSource
    from spindle.artifacts.backends.duckdb import query_rows as query_rows
    from spindle.artifacts.backends.duckdb import read_columns as read_columns
else:
    __getattr__, __dir__ = open_door(__name__)
