"""Leases of workers: who is alive, in the same database; the calls of a worker without a lease are taken over.

DBOS itself leaves the calls of a dead worker until that worker returns.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from spindle.errors import EngineUnavailableError
from spindle.extras import needs_extra

with needs_extra("dbos", purpose="The engine DBOS"):
    import psycopg

_CREATE: Final = """
create table if not exists spindle_worker_leases (
    worker_id text primary key,
    expires_at timestamptz not null
)"""
_RENEW: Final = """
insert into spindle_worker_leases values (%(id)s, now() + make_interval(secs => %(seconds)s))
on conflict (worker_id) do update set expires_at = excluded.expires_at"""
_LIST: Final = "select worker_id from spindle_worker_leases where expires_at > now()"
_PRUNE: Final = "delete from spindle_worker_leases where expires_at < now() - interval '1 day'"
_LOCK_KEY: Final = 0x7370696E646C65
"""The advisory lock of the one worker that takes over calls."""


class WorkerLeases:
    """The leases of all workers, and the own one, over a connection that is opened again after a loss."""

    def __init__(self, database_url: str, worker_id: str, *, seconds: float) -> None:
        self._url = database_url
        self._id = worker_id
        self._seconds = seconds
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None

    async def renew(self) -> None:
        """Extend the own lease; the first time, create it.

        Raises:
            EngineUnavailableError: The database cannot be reached.
        """
        await self._execute(_RENEW, {"id": self._id, "seconds": self._seconds})

    async def list_living(self) -> set[str]:
        """Return the workers with a valid lease, by the clock of the database.

        Raises:
            EngineUnavailableError: The database cannot be reached.
        """
        return {str(row[0]) for row in await self._execute(_LIST)}

    @asynccontextmanager
    async def hold_takeover_lock(self) -> AsyncGenerator[bool]:
        """Try to become the one worker that takes over calls now; give whether this succeeded.

        Raises:
            EngineUnavailableError: The database cannot be reached.
        """
        rows = await self._execute("select pg_try_advisory_lock(%(key)s)", {"key": _LOCK_KEY})
        is_held = bool(rows[0][0])
        try:
            yield is_held
        finally:
            if is_held:
                await self._execute("select pg_advisory_unlock(%(key)s)", {"key": _LOCK_KEY})

    async def release(self) -> None:
        """Give up the own lease and close the connection; nothing is raised."""
        try:
            await self._execute("delete from spindle_worker_leases where worker_id = %(id)s", {"id": self._id})
            await self._execute(_PRUNE)
        except EngineUnavailableError:
            pass
        await self._drop()

    async def _execute(self, query: Any, values: dict[str, object] | None = None) -> list[tuple[Any, ...]]:
        try:
            async with asyncio.timeout(self._seconds):
                connection = await self._connect()
                cursor = await connection.execute(query, values)
                return [] if cursor.description is None else await cursor.fetchall()
        except (psycopg.Error, OSError, TimeoutError) as error:
            await self._drop()
            raise EngineUnavailableError(f"The leases cannot be reached: {type(error).__name__}") from error

    async def _connect(self) -> "psycopg.AsyncConnection[tuple[Any, ...]]":
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
            await self._connection.execute(_CREATE)
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
