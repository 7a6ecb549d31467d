"""Migrations of the tables in PostgreSQL."""

import asyncio
from hashlib import sha256
from typing import Any, cast

import anyio
import asyncpg
import pytest

from spindle.errors import JournalError
from spindle.journal.backends.postgres_schema import MIGRATIONS, migrate
from spindle.journal.journal import Journal
from spindle.journal.states import StateQuery, StateRecord
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


RELEASED = range(1, len(MIGRATIONS) + 1)
"""Every version of the tables that a Spindle has ever written; the list only grows."""
DIGESTS = {
    1: "8d4f571edf7f5040",
    2: "2e1a8ca270f9ce09",
    3: "f43ac1e14c35d18b",
    4: "955d01b2ccb17184",
    5: "3a757210ae04ee7c",
    6: "e1d606f63df32df7",
    7: "9da802d715036993",
}
"""The hash of the statements of each version: what was released is never changed."""
OLD_ROW = """
    INSERT INTO spindle_calls (key_digest, run_id, claim_id, may_repeat, idempotency_key, tool_call_id, tool, checksum,
        state, args, started_at, attempts, ended_at, result)
    VALUES (sha256($1::text::bytea), 1, 2, FALSE, $1, $1, 'old', 'c', 'finished', '{}', 1, 1, 2, '{"value": "kept"}')
"""
"""What the first version writes."""


def test_released_migrations_are_never_changed() -> None:
    digests = {
        number: sha256("\0".join(" ".join(each.split()) for each in statements).encode()).hexdigest()[:16]
        for number, statements in enumerate(MIGRATIONS, 1)
    }

    assert digests == DIGESTS


@pytest.mark.parametrize("version", RELEASED)
def test_each_released_schema_is_migrated_while_its_processes_go_on(postgres_dsn: str, version: int) -> None:
    async def run() -> tuple[list[str], int]:
        old = await cast("Any", asyncpg).connect(postgres_dsn, timeout=30)
        try:
            await migrate(old, place="here", migrations=MIGRATIONS[:version])
            await old.execute(OLD_ROW, "before")
            async with Journal.postgres(postgres_dsn) as journal:
                await old.execute(OLD_ROW, "meanwhile")
                assert await journal.begin([intent("new")]) == [None]
                found = await journal.list(limit=None)
                states = journal.states
                assert states is not None
                await states.insert(StateRecord("kind", "id", "open", "{}", 1))
                kept = await states.select(StateQuery("kind"))
                await old.execute(OLD_ROW, "after")
            return [each.tool_call_id for each in found], len(kept)
        finally:
            await old.close()

    found, kept = anyio.run(run)

    assert {"before", "meanwhile"} <= set(found)
    assert kept == 1
    assert asyncio.run(execute(postgres_dsn, "SELECT version FROM spindle_journal")) == [(len(MIGRATIONS),)]


@pytest.mark.parametrize("is_contracted", [False, True])
def test_tables_of_a_newer_spindle_are_used_until_it_removes_what_is_needed(
    postgres_dsn: str, is_contracted: bool
) -> None:
    newer = len(MIGRATIONS) + 1
    added = ["ALTER TABLE spindle_states ADD COLUMN more TEXT"]
    if is_contracted:
        added.append(f"UPDATE spindle_journal SET oldest = {newer}")
    asyncio.run(migrated(postgres_dsn, *[list(each) for each in MIGRATIONS], added))

    async def begin() -> object:
        async with Journal.postgres(postgres_dsn) as journal:
            states = journal.states
            assert states is not None
            await states.insert(StateRecord("kind", "id", "open", "{}", 1))
            return await journal.begin([intent("a")])

    if is_contracted:
        with pytest.raises(JournalError):
            anyio.run(begin)
    else:
        assert anyio.run(begin) == [None]
    assert asyncio.run(execute(postgres_dsn, "SELECT version FROM spindle_journal")) == [(newer,)]
