"""The journals that the port suite runs over."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from spindle.journal.backends import sqlite_writer
from spindle.journal.backends.memory import MemoryJournalStore
from spindle.journal.backends.postgres import PostgresJournalStore
from spindle.journal.backends.postgres_worker import end_all
from spindle.journal.journal import Journal


@dataclass(frozen=True, slots=True)
class Place:
    """Where one journal is kept."""

    journal: Callable[[], Journal]
    """Another journal of the same place, in the same process."""
    restarted: Callable[[], Journal]
    """The same, as a process sees it that was started after the one before had died."""


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "postgres":
        return postgres_place(request.getfixturevalue("postgres_dsn"))
    if request.param == "memory":
        store = MemoryJournalStore()

        def restarted() -> Journal:
            store.mark_process_lost()
            return Journal(store)

        return Place(lambda: Journal(store), restarted)
    return sqlite_place(tmp_path / "journal.db")


def sqlite_place(path: Path) -> Place:
    def restarted() -> Journal:
        sqlite_writer.end_all()
        return Journal.sqlite(path)

    return Place(lambda: Journal.sqlite(path), restarted)


def postgres_place(dsn: str) -> Place:
    def restarted() -> Journal:
        end_all()
        return Journal(PostgresJournalStore(dsn, grace_seconds=0))

    return Place(lambda: Journal(PostgresJournalStore(dsn, grace_seconds=0)), restarted)
