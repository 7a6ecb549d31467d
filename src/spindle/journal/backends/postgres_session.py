"""The one connection of a run: it holds the lock that proves the run alive, and everything is written through it.

So nothing is ever begun by a run that others may take for gone. When the connection is lost the lock is free, and a
process that asks just then may mark this run's calls as interrupted; whoever comes back takes the lock again before
anything else, and finds out.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

import asyncpg

from spindle.errors import JournalError, SpindleError, UsageError
from spindle.journal.backends import postgres_queries as sql
from spindle.journal.backends.postgres_queries import Calls
from spindle.journal.backends.postgres_schema import migrate

_EXAMPLE = "such as postgresql://user:password@host:5432/database"
_ENCODED = "write a reserved character of a name or password by its number, @ as %40"


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A database; `str()` names its hosts and the database, and nothing secret."""

    dsn: str = field(repr=False)
    hosts: str
    database: str
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """The password, in each way in which an error might spell it."""
    application_name: str = "spindle journal"
    """What the server's own lists call the connection."""

    def __str__(self) -> str:
        return f"{self.hosts}/{self.database}"

    def masked(self, text: str) -> str:
        """`text` without the password."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def checked_address(dsn: str) -> Address:
    """Read a dsn.

    Raises:
        UsageError: It is none; the error never repeats it, for it may hold a password.
    """
    given = cast("object", dsn)
    if not isinstance(given, str) or not given.startswith(("postgresql://", "postgres://")):
        raise _wrong(f"it does not begin with postgresql://; give a url {_EXAMPLE}")
    if not given.isprintable():
        raise _wrong("it has a character that nobody can see; take that out")
    try:
        parts = urlsplit(given)
    except ValueError:
        raise _wrong(f"its host is not understood; {_ENCODED}") from None
    if parts.fragment or "@" in parts.path or parts.netloc.count("@") > 1:
        raise _wrong(f"it has a # or an @ where none may be; {_ENCODED}")
    return _address(given, parts)


def _address(dsn: str, parts: SplitResult) -> Address:
    login, _, hosts = parts.netloc.rpartition("@")
    settings = _settings(parts.query)
    _check_ports([*hosts.split(","), *(f":{port}" for port in settings.get("port", "").split(","))])
    user, _, password = login.partition(":")
    database = unquote(parts.path[1:]) or settings.get("dbname") or settings.get("database")
    passwords = {password, unquote(password), settings.get("password", "")} - {""}
    return Address(
        dsn=dsn,
        hosts=unquote(hosts) or settings.get("host") or "the default host",
        database=database or unquote(user) or settings.get("user") or "the default database",
        secrets=tuple(sorted(passwords | {quote(each, safe="") for each in passwords}, key=len, reverse=True)),
        application_name=settings.get("application_name", "spindle journal"),
    )


def _settings(query: str) -> dict[str, str]:
    try:
        return {name: values[-1] for name, values in parse_qs(query, strict_parsing=True).items()} if query else {}
    except ValueError:
        raise _wrong(f"what stands after ? must be name=value, joined by &; {_ENCODED}") from None


def _check_ports(hosts: list[str]) -> None:
    for host in hosts:
        _, colon, port = host.rpartition("]")[2].rpartition(":")
        if colon and port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            raise _wrong(f"a port is a number from 1 to 65535; {_ENCODED}")


def _wrong(reason: str) -> UsageError:
    return UsageError(f"that is no dsn of a PostgreSQL database: {reason}", field="dsn")


CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 30.0
HEARTBEAT_SECONDS = 15.0
"""How often a connection that has nothing to do is asked whether it is there."""

GRACE_SECONDS = 10.0
"""So long after a restart nobody is taken for gone: others need a moment to come back."""

_log = logging.getLogger("spindle.journal")

# Most of asyncpg says nothing about its types.
_connect: Callable[..., Awaitable[Any]] = cast("Any", asyncpg).connect

_SETTINGS = {
    # A machine that is gone is noticed within a minute; its own connections notice within half of one.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    # Nobody is held up for long by a process that was stopped in the middle.
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "20s",
}

_ARRIVE = """
    SELECT current_schema() AS schema,
        current_setting('server_encoding') AS encoding,
        pg_backend_pid() AS pid,
        pg_is_in_recovery() AS is_standby,
        extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8 AS server_seconds,
        set_config('search_path', quote_ident(current_schema()), FALSE),
        set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), FALSE)
"""
_END_PREDECESSOR = """
    SELECT pg_terminate_backend(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND pid <> pg_backend_pid()
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::bigint = $1::bigint >> 32 AND objid::bigint = $1::bigint & 4294967295 AND objsubid = 1
"""


class Session:
    """Connects as one run, again and again if need be."""

    def __init__(self, address: Address, *, run_id: int, grace_seconds: float, on_loss: Callable[[], None]) -> None:
        self._address = address
        self._run_id = run_id
        self._grace_seconds = grace_seconds
        self._on_loss = on_loss
        self._connection: Any = None
        self._judge_from = 0.0
        self._has_been_open = False

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None and not self._connection.is_closed()

    @property
    def socket_number(self) -> int | None:
        """The file descriptor of the connection."""
        transport = getattr(self._connection, "_transport", None)
        return transport.get_extra_info("socket").fileno() if transport is not None and self.is_open else None

    async def open(self) -> None:
        """Connect, bring the tables up to date and prove that this run lives."""
        connection = await _connect(
            self._address.dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=COMMAND_SECONDS,
            server_settings={"application_name": self._address.application_name, **_SETTINGS},
        )
        try:
            server_seconds = await self._arrive(connection)
            await migrate(connection, place=str(self._address))
            await self._appear(connection)
        except BaseException:
            connection.terminate()
            raise
        self._judge_from = asyncio.get_running_loop().time() + self._doubtful_seconds(server_seconds)
        self._has_been_open = True
        self._connection = connection
        connection.add_termination_listener(self._lost)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Calls]:
        """Keep all that happens in the block, or nothing of it."""
        may_judge = asyncio.get_running_loop().time() >= self._judge_from
        async with self._connection.transaction(isolation="read_committed"):
            yield Calls(self._connection, run_id=self._run_id, may_judge=may_judge)

    async def beat(self) -> None:
        """Find out whether the connection is still there, and let go of it if it is not."""
        try:
            await self._connection.fetchval("SELECT 1", timeout=CONNECT_SECONDS)
        except Exception:  # noqa: BLE001 - whatever it was, the connection is of no use
            self.drop()

    def drop(self) -> None:
        """Let go of a connection that is of no use, without a word to the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        """Say goodbye, and let others know that this run has ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                await connection.close(timeout=CONNECT_SECONDS)

    def _lost(self, _: object) -> None:
        self._on_loss()

    async def _arrive(self, connection: Any) -> float:
        found = await connection.fetchrow(_ARRIVE)
        if found["pid"] != connection.get_server_pid():
            raise self._refusal(
                "a connection pooler stands before the server, and could lend to others what proves that this process "
                "lives; give the address of the server itself"
            )
        if found["is_standby"]:
            raise self._refusal("that server is a standby; give the address of the primary")
        if found["encoding"] != "UTF8":
            raise self._refusal(f"the database is in {found['encoding']}; use one whose encoding is UTF8")
        if found["schema"] is None:
            raise self._refusal("no schema of the search_path exists; create one, or name another")
        return found["server_seconds"]

    async def _appear(self, connection: Any) -> None:
        if self._has_been_open:
            # The server may not have noticed yet that the connection before is gone, and it has the lock.
            await connection.fetch(_END_PREDECESSOR, self._run_id)
        await connection.fetch("SELECT pg_advisory_lock($1)", self._run_id)
        lost = await connection.fetchval(sql.LOST, self._run_id)
        if lost:
            _log.warning(
                "the connection to the journal at %s was away, and another process took this one for gone: %d of its "
                "calls are marked as interrupted; their outcomes are still written, unless someone else's was first",
                self._address,
                lost,
            )

    def _doubtful_seconds(self, server_seconds: float) -> float:
        if self._has_been_open:
            return self._grace_seconds
        return max(0.0, self._grace_seconds - server_seconds)

    def _refusal(self, reason: str) -> JournalError:
        return JournalError(f"the journal in PostgreSQL at {self._address} cannot be used: {reason}")


_ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (asyncpg.InvalidAuthorizationSpecificationError, "check the user and the password of the dsn"),
    (asyncpg.InvalidCatalogNameError, "create that database, or name another one in the dsn"),
    (asyncpg.ClientConfigurationError, "check what the dsn asks for"),
    (asyncpg.UndefinedObjectError, "check what the dsn asks for after the ?"),
    (asyncpg.InsufficientPrivilegeError, "let that user create and write tables in the schema"),
    (asyncpg.ReadOnlySQLTransactionError, "it may only be read there: give the address of the primary server"),
    (asyncpg.TooManyConnectionsError, "close some connections, or allow more of them"),
    (asyncpg.DiskFullError, "the server's disk is full: free some space and try again"),
    (asyncpg.LockNotAvailableError, "someone else holds what is asked for: look for a transaction that does not end"),
    (asyncpg.DataError, "a value does not fit its column; nothing was written"),
    (OSError, "check that the server runs and can be reached"),
    (TimeoutError, "check that the server runs and can be reached"),
)

_FATAL = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
"""With these words a server ends a connection, or does not take it yet."""

CLASHES: tuple[type[BaseException], ...] = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InvalidCachedStatementError,
)
"""Nothing was wrong but the moment: the same may be asked once more."""


def is_loss(error: BaseException) -> bool:
    """Whether the connection cannot be trusted any more, so that nobody knows what became of the last statement."""
    is_answer = isinstance(error, asyncpg.PostgresError | asyncpg.ClientConfigurationError | SpindleError)
    return isinstance(error, _FATAL) or not is_answer


def translated(error: BaseException, address: Address) -> JournalError:
    """Say it as one of our errors; each caller is given one of its own, for each adds its own traceback."""
    if isinstance(error, JournalError):
        again = copy(error)
        again.__cause__ = error.__cause__
        return again
    # The first part only: what the server adds may repeat the values of a row.
    said = address.masked(str(error.args[0] if error.args else "")) or type(error).__name__
    advice = next((advice for kind, advice in _ADVICE if isinstance(error, kind)), "nothing was written; try again")
    new = JournalError(f"the journal in PostgreSQL at {address} failed: {_words(error, said)}; {advice}")
    new.__cause__ = error
    return new


def _words(error: BaseException, said: str) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it did not answer in time" if isinstance(error, TimeoutError) else said
