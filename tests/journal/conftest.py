"""The journals that the port suite runs over."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import asyncpg
import pytest

from spindle.journal.backends.memory import MemoryStore
from spindle.journal.backends.postgres import PostgresStore
from spindle.journal.backends.postgres_portals import end_all
from spindle.journal.backends.sqlite import SqliteStore
from spindle.journal.journal import Journal
from tests.journal.postgres_server import Server, running_server


@dataclass(frozen=True, slots=True)
class Place:
    """Where one journal is kept."""

    journal: Callable[[], Journal]
    """Another journal of the same place, in the same process."""
    restarted: Callable[[], Journal]
    """The same, as a process sees it that was started after the one before had died."""


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server of our own."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres: Server) -> Iterator[str]:
    """A schema of its own in that server; what a test left open is closed."""
    schema = f"test_{uuid4().hex}"
    asyncio.run(execute(postgres.dsn(), f"CREATE SCHEMA {schema}"))
    yield postgres.dsn(schema=schema)
    end_all()


async def execute(dsn: str, statement: str) -> list[Any]:
    """Say something to the server, as another program would."""
    connection = await cast("Any", asyncpg).connect(dsn, timeout=10)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


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
