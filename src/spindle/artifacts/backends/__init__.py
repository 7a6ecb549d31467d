"""Backends of artifacts on disk, in memory, in object stores and in DuckDB, one technology per module."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.artifacts.backends.duckdb import TableSource as TableSource
    from spindle.artifacts.backends.duckdb import query_rows as query_rows
    from spindle.artifacts.backends.duckdb import read_columns as read_columns
    from spindle.artifacts.backends.small_notes import SMALL_BYTES as SMALL_BYTES
    from spindle.artifacts.backends.small_notes import build_small_note as build_small_note
    from spindle.artifacts.backends.small_notes import get_boot_id as get_boot_id
    from spindle.artifacts.backends.small_notes import list_notes as list_notes
    from spindle.artifacts.backends.small_notes import read_note as read_note
    from spindle.artifacts.backends.small_notes import restore_data as restore_data
    from spindle.artifacts.backends.sql_process import SqlAnswer as SqlAnswer
    from spindle.artifacts.backends.sql_process import SqlQuery as SqlQuery
    from spindle.artifacts.backends.sql_process import query_sql as query_sql
else:
    __getattr__, __dir__ = open_door(__name__)
