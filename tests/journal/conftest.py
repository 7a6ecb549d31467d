"""The journals that the port suite runs over."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from spindle.journal.backends.memory import MemoryStore
from spindle.journal.backends.postgres import PostgresStore
from spindle.journal.backends.postgres_worker import end_all
from spindle.journal.backends.sqlite import SqliteStore
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
        store = MemoryStore()

        def restarted() -> Journal:
            store.lose_process()
            return Journal(store)

        return Place(lambda: Journal(store), restarted)
    path, runs = tmp_path / "journal.db", count(2)
    return Place(lambda: Journal(SqliteStore(path)), lambda: Journal(SqliteStore(path, run_id=f"run {next(runs)}")))


def postgres_place(dsn: str) -> Place:
    def restarted() -> Journal:
        end_all()
        return Journal(PostgresStore(dsn, grace_seconds=0))

    return Place(lambda: Journal(PostgresStore(dsn, grace_seconds=0)), restarted)
