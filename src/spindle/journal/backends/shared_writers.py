"""One writer for each file in a process, however many journals name it."""

import atexit
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from uuid import uuid4
from weakref import WeakValueDictionary

from spindle.journal.backends.sqlite_database import Database
from spindle.journal.backends.writer import Writer

_EXIT_SECONDS = 5.0

_lock = Lock()
_writers: WeakValueDictionary[Path, Writer] = WeakValueDictionary()
_inherited: list[Writer] = []
"""Writers of the process this one was forked from: kept, for closing their connections would reach its files."""

_run_id = uuid4().hex


def process_run_id() -> str:
    """Name this process, unlike any other that ever writes the same journal."""
    return _run_id


def borrow(path: Path, open_database: Callable[[], Database]) -> Writer:
    """Give the writer of a file, to be left again; one that is ending is waited for by its successor's thread."""
    with _lock:
        writer = _writers.get(path)
        if writer is None or not writer.enter():
            writer = _writers[path] = Writer(open_database, after=writer)
        return writer


def _end_all() -> None:
    for writer in list(_writers.values()):
        writer.end(timeout_seconds=_EXIT_SECONDS)


def _forget_in_child() -> None:
    global _lock, _run_id  # noqa: PLW0603 - the child is another process, and its parent may have held the lock
    _lock = Lock()
    _run_id = uuid4().hex
    _inherited.extend(_writers.values())
    _writers.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget_in_child)
