"""What SQLite's failures mean to those who use a journal."""

import sqlite3
from copy import copy
from pathlib import Path

from spindle.errors import JournalDamagedError, JournalError

_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and try again",
    sqlite3.SQLITE_IOERR: "the disk refused: check it, and that there is space left",
    sqlite3.SQLITE_READONLY: "it may not be written: check whose the file and its folder are",
    sqlite3.SQLITE_PERM: "it may not be opened: check whose the file and its folder are",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that its folder is there and is yours",
    sqlite3.SQLITE_BUSY: "someone else holds it: close what else has the file open and try again",
}
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def primary_code(error: BaseException) -> int | None:
    """SQLite's error number, without the detail that an extended number carries."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def is_damage(error: BaseException) -> bool:
    """Whether it is the file that is wrong."""
    return primary_code(error) in _DAMAGE


def translated(error: BaseException, path: Path) -> JournalError:
    """Say it as one of our errors; each caller is given one of its own, for each adds its own traceback."""
    if isinstance(error, JournalError):
        again = copy(error)
        again.__cause__ = error.__cause__
        return again
    if is_damage(error):
        new = JournalDamagedError(
            f"the journal {path} is damaged ({error}): close it; it is looked at when it is opened again",
            path=str(path),
        )
    else:
        advice = _ADVICE.get(primary_code(error) or -1, "nothing was written; the journal can still be used")
        new = JournalError(f"the journal {path} failed: {error}; {advice}")
    new.__cause__ = error
    return new
