"""Migrations of the tables in PostgreSQL."""

import asyncio
from typing import Any, cast

import anyio
import asyncpg
import pytest

from spindle.errors import JournalError
from spindle.journal.backends.postgres_schema import MIGRATIONS, migrate
from spindle.journal.journal import Journal
from tests.journal.postgres_fixtures import execute
from tests.journal.sample_calls import intent

pytestmark = pytest.mark.slow

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"


async def migrated(dsn: str, *steps: list[str]) -> None:
    connection = await cast("Any", asyncpg).connect(dsn, timeout=30)
    try:
        await migrate(connection, place="here", migrations=steps)
    finally:
        await connection.close()


def test_a_step_that_fails_leaves_nothing_of_itself_and_the_ones_before_stay(postgres_dsn: str) -> None:
    with pytest.raises(asyncpg.PostgresError):
        asyncio.run(migrated(postgres_dsn, ["CREATE TABLE a ()"], ["CREATE TABLE b ()", "CREATE TABLE a ()"]))
    after_failure = asyncio.run(execute(postgres_dsn, TABLES))
    asyncio.run(migrated(postgres_dsn, ["CREATE TABLE a ()"], ["CREATE TABLE b ()"]))

    assert after_failure == [("a",), ("spindle_journal",)]
    assert asyncio.run(execute(postgres_dsn, TABLES)) == [("a",), ("b",), ("spindle_journal",)]
    assert asyncio.run(execute(postgres_dsn, "SELECT version FROM spindle_journal")) == [(2,)]


def test_concurrent_migrations_run_each_step_once(postgres_dsn: str) -> None:
    async def all_at_once() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(migrated(postgres_dsn, ["CREATE TABLE a ()"], ["CREATE TABLE b ()"]))

    asyncio.run(all_at_once())

    assert asyncio.run(execute(postgres_dsn, "SELECT version FROM spindle_journal")) == [(2,)]


def test_tables_that_a_newer_spindle_made_are_left_alone(postgres_dsn: str) -> None:
    newer = len(MIGRATIONS) + 1
    asyncio.run(migrated(postgres_dsn, *[["SELECT 1"]] * newer))

    async def begin() -> None:
        async with Journal.postgres(postgres_dsn) as journal:
            await journal.begin([intent("a")])

    with pytest.raises(JournalError):
        anyio.run(begin)
    assert asyncio.run(execute(postgres_dsn, TABLES)) == [("spindle_journal",)]


def test_a_journal_lives_in_the_first_schema_of_the_search_path_alone(postgres_dsn: str) -> None:
    async def begin(dsn: str) -> object:
        async with Journal.postgres(dsn) as journal:
            return await journal.begin([intent("a")])

    asyncio.run(execute(postgres_dsn, 'CREATE SCHEMA "Odd ""name"""'))
    behind = postgres_dsn.replace("search_path=", "search_path=%22Odd%20%22%22name%22%22%22,")
    try:
        assert anyio.run(begin, postgres_dsn) == [None]
        assert anyio.run(begin, behind) == [None]
        assert asyncio.run(execute(behind, TABLES)) == [("spindle_calls",), ("spindle_journal",), ("spindle_states",)]
    finally:
        asyncio.run(execute(postgres_dsn, 'DROP SCHEMA "Odd ""name""" CASCADE'))
