"""Notices by LISTEN and NOTIFY, over the connection that a journal has anyway."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from spindle.journal.backends.memory_notices import Listeners
from spindle.journal.backends.postgres_queries import CallTable
from spindle.journal.notices import Listener, check_notice

# A channel belongs to a database, a journal to a schema.
_CHANNEL = "SELECT 'spindle_' || md5(current_schema())"
_PUBLISH = "SELECT pg_notify('spindle_' || md5(current_schema()), given) FROM unnest($1::text[]) AS given"


async def publish(table: CallTable, texts: Sequence[str]) -> list[None]:
    """Send each notice when the transaction is committed."""
    await table.connection.fetch(_PUBLISH, list(texts))
    return [None] * len(texts)


_listeners: dict[str, Listeners] = {}
"""Those who listen in this process, by dsn; they outlive a connection, and the thread that has it."""


def get_listeners(dsn: str) -> Listeners:
    """Return those who listen to the notices of a database in this process."""
    return _listeners.setdefault(dsn, Listeners())


async def listen(connection: Any, on_notice: Callable[[str], None]) -> None:
    """Receive the notices of the journal's schema on a connection, as long as it is open."""

    def receive(_connection: object, _pid: int, _channel: str, text: str) -> None:
        on_notice(text)

    await connection.add_listener(await connection.fetchval(_CHANNEL), receive)


class PostgresNoticeBoard:
    """Notices to everyone who has opened the same journal; `run` runs an operation on one item over its connection."""

    def __init__(
        self, dsn: str, run: Callable[[Any, Any], Awaitable[Any]], connect: Callable[[], Awaitable[Any]]
    ) -> None:
        self._listeners = get_listeners(dsn)
        self._run, self._connect = run, connect

    async def publish(self, text: str) -> None:
        """Send a notice to all who listen."""
        check_notice(text)
        await self._run(publish, text)

    async def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each notice from now on."""
        end = self._listeners.add(listener)
        try:
            await self._connect()
        except BaseException:
            end()
            raise
        return end
