"""A PostgreSQL server for whichever test asks for one, and a place of its own in it."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast
from uuid import uuid4

import asyncpg
import pytest

from spindle.journal.backends.postgres_worker import end_all
from tests.journal.postgres_server import Server, running_server


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
    connection = await cast("Any", asyncpg).connect(dsn, timeout=30)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()
