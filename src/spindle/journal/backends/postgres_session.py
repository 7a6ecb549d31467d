"""The connection of a run, its address, and the translation of PostgreSQL errors.

A run writes through one connection, which holds the advisory lock that proves the run alive, so that a run which others
may consider gone never begins a call. When the connection is lost, the lock is free, and another process may mark this
run's calls as interrupted; on reconnect the session acquires the lock first, and then checks for such calls.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import asyncpg

from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import JournalError, SpindleError, UsageError
from spindle.journal.backends import postgres_queries as sql
from spindle.journal.backends.postgres_notices import get_listeners, listen
from spindle.journal.backends.postgres_queries import CallTable
from spindle.journal.backends.postgres_schema import migrate
from spindle.journal.notices import LOST
from spindle.json_types import untyped

_EXAMPLE = "such as postgresql://user:password@host:5432/database"
_ENCODED = "percent-encode reserved characters in names and passwords, such as @ as %40"


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """The address of a database; `str()` returns its hosts and database name, without secrets."""

    dsn: str = field(repr=False)
    hosts: str
    database: str
    secrets: Redactor = field(default_factory=Redactor, repr=False, compare=False)
    """Masks the password in errors."""
    application_name: str = "spindle journal"
    """The name of the connection in the server's statistics."""

    def __str__(self) -> str:
        return f"{self.hosts}/{self.database}"

    def redact(self, text: str) -> str:
        """Return `text` with the password redacted."""
        return self.secrets.redact(text)


def parse_address(dsn: str) -> Address:
    """Parse and validate a dsn.

    Raises:
        UsageError: The dsn is invalid; the error never repeats it, because it may contain a password.
    """
    given = untyped(dsn)
    if not isinstance(given, str) or not given.startswith(("postgresql://", "postgres://")):
        raise _invalid_dsn(f"it does not begin with postgresql://; use a url {_EXAMPLE}")
    if not given.isprintable():
        raise _invalid_dsn("it has a non-printable character; remove it")
    try:
        parts = urlsplit(given)
    except ValueError:
        raise _invalid_dsn(f"its host cannot be parsed; {_ENCODED}") from None
    if parts.fragment or "@" in parts.path or parts.netloc.count("@") > 1:
        raise _invalid_dsn(f"it has an unexpected # or @; {_ENCODED}")
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
        secrets=Redactor(passwords),
        application_name=settings.get("application_name", "spindle journal"),
    )


def _settings(query: str) -> dict[str, str]:
    try:
        return {name: values[-1] for name, values in parse_qs(query, strict_parsing=True).items()} if query else {}
    except ValueError:
        raise _invalid_dsn(f"the part after ? must be name=value pairs joined by &; {_ENCODED}") from None


def _check_ports(hosts: list[str]) -> None:
    for host in hosts:
        _, colon, port = host.rpartition("]")[2].rpartition(":")
        if colon and port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            raise _invalid_dsn(f"a port must be a number from 1 to 65535; {_ENCODED}")


def _invalid_dsn(reason: str) -> UsageError:
    return UsageError(f"Invalid PostgreSQL dsn: {reason}", field="dsn")


CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 30.0
HEARTBEAT_SECONDS = 15.0
"""How often an idle connection is checked."""

GRACE_SECONDS = 10.0
"""How long after a restart no run is considered gone, so that other processes can reconnect."""

_log = logging.getLogger("spindle.journal")

# asyncpg is mostly untyped.
_connect: Callable[..., Awaitable[Any]] = cast("Any", asyncpg).connect

_SETTINGS = {
    # The server detects a lost machine within a minute; a client detects a lost server within half a minute.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    # A process that was stopped inside a transaction must not block others for long.
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "20s",
}

_SERVER_INFO = """
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


class PostgresSession:
    """The connection of one run, which can be reopened after a loss."""

    def __init__(self, address: Address, *, run_id: int, grace_seconds: float, on_loss: Callable[[], None]) -> None:
        self._address = address
        self._run_id = run_id
        self._grace_seconds = grace_seconds
        self._on_loss = on_loss
        self._connection: Any = None
        self._may_mark_gone_from = 0.0
        self._has_been_open = False

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, as far as known."""
        return self._connection is not None and not self._connection.is_closed()

    @property
    def socket_number(self) -> int | None:
        """The file descriptor of the connection."""
        transport = getattr(self._connection, "_transport", None)
        return transport.get_extra_info("socket").fileno() if transport is not None and self.is_open else None

    async def open(self) -> None:
        """Connect, migrate the tables and acquire the lock that proves this run alive."""
        connection = await _connect(
            self._address.dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=COMMAND_SECONDS,
            server_settings={"application_name": self._address.application_name, **_SETTINGS},
        )
        try:
            server_seconds = await self._check_server(connection)
            await migrate(connection, place=str(self._address))
            await self._acquire_run_lock(connection)
            listeners = get_listeners(self._address.dsn)
            await listen(connection, listeners.deliver)
        except BaseException:
            connection.terminate()
            raise
        self._may_mark_gone_from = asyncio.get_running_loop().time() + self._remaining_grace_seconds(server_seconds)
        if self._has_been_open:
            listeners.deliver(LOST)
        self._has_been_open = True
        self._connection = connection
        connection.add_termination_listener(self._handle_loss)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[CallTable]:
        """Run the block in a transaction."""
        may_judge = asyncio.get_running_loop().time() >= self._may_mark_gone_from
        async with self._connection.transaction(isolation="read_committed"):
            yield CallTable(self._connection, run_id=self._run_id, can_mark_gone=may_judge)

    async def check_alive(self) -> None:
        """Check the connection, and drop it if it does not respond."""
        try:
            await self._connection.fetchval("SELECT 1", timeout=CONNECT_SECONDS)
        except Exception:  # noqa: BLE001 - any error makes the connection unusable
            self.drop()

    def drop(self) -> None:
        """Terminate an unusable connection without notifying the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        """Close the connection; the released lock shows other processes that this run has ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                await connection.close(timeout=CONNECT_SECONDS)

    def _handle_loss(self, _: object) -> None:
        self._on_loss()

    async def _check_server(self, connection: Any) -> float:
        found = await connection.fetchrow(_SERVER_INFO)
        if found["pid"] != connection.get_server_pid():
            raise self._unusable_error(
                "there is a connection pooler in front of the server, which could pass the lock of this process to "
                "others; use the address of the server itself"
            )
        if found["is_standby"]:
            raise self._unusable_error("the server is a standby; use the address of the primary")
        if found["encoding"] != "UTF8":
            raise self._unusable_error(
                f"the database has the encoding {found['encoding']}; use one with the encoding UTF8"
            )
        if found["schema"] is None:
            raise self._unusable_error("no schema of the search_path exists; create one, or set another search_path")
        return found["server_seconds"]

    async def _acquire_run_lock(self, connection: Any) -> None:
        if self._has_been_open:
            # The server may not have detected the loss of the previous connection, which holds the lock.
            await connection.fetch(_END_PREDECESSOR, self._run_id)
        await connection.fetch("SELECT pg_advisory_lock($1)", self._run_id)
        lost = await connection.fetchval(sql.COUNT_INTERRUPTED, self._run_id)
        if lost:
            _log.warning(
                "The connection to the journal at %s was lost, and another process marked calls of this process as "
                "interrupted: %d. Their outcomes are still written, unless another outcome was written first",
                self._address,
                lost,
            )

    def _remaining_grace_seconds(self, server_seconds: float) -> float:
        if self._has_been_open:
            return self._grace_seconds
        return max(0.0, self._grace_seconds - server_seconds)

    def _unusable_error(self, reason: str) -> JournalError:
        return JournalError(f"The journal in PostgreSQL at {self._address} cannot be used: {reason}")


_ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (asyncpg.InvalidAuthorizationSpecificationError, "check the user and the password of the dsn"),
    (asyncpg.InvalidCatalogNameError, "create that database, or name another one in the dsn"),
    (asyncpg.ClientConfigurationError, "check the options of the dsn"),
    (asyncpg.UndefinedObjectError, "check the options after the ? of the dsn"),
    (asyncpg.InsufficientPrivilegeError, "allow the user to create and write tables in the schema"),
    (asyncpg.ReadOnlySQLTransactionError, "the server is read-only: use the address of the primary"),
    (asyncpg.TooManyConnectionsError, "close some connections, or raise the server's limit"),
    (asyncpg.DiskFullError, "the server's disk is full: free some space and try again"),
    (asyncpg.LockNotAvailableError, "a lock was not released in time: look for a transaction that does not end"),
    (asyncpg.DataError, "a value does not fit its column; nothing was written"),
    (OSError, "check that the server is running and reachable"),
    (TimeoutError, "check that the server is running and reachable"),
)

_FATAL = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
"""The errors with which a server ends a connection, or does not accept it yet."""

TRANSIENT_ERRORS: tuple[type[BaseException], ...] = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InvalidCachedStatementError,
)
"""Transient conflicts: the same transaction may be retried."""


def is_loss(error: BaseException) -> bool:
    """Return whether an error leaves the connection unusable and the result of the last statement unknown."""
    is_answer = isinstance(error, asyncpg.PostgresError | asyncpg.ClientConfigurationError | SpindleError)
    return isinstance(error, _FATAL) or not is_answer


def translate_error(error: BaseException, address: Address) -> JournalError:
    """Convert an error to a new `JournalError`; every caller gets its own, because raising adds a traceback."""
    if isinstance(error, JournalError):
        again = copy(error)
        again.__cause__ = error.__cause__
        return again
    # Only the first argument: details from the server may repeat the values of a row.
    said = address.redact(str(error.args[0] if error.args else "")) or type(error).__name__
    advice = next((advice for kind, advice in _ADVICE if isinstance(error, kind)), "nothing was written; try again")
    new = JournalError(f"The journal in PostgreSQL at {address} failed: {_error_text(error, said)}; {advice}")
    new.__cause__ = error
    return new


def _error_text(error: BaseException, said: str) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "the server did not answer in time" if isinstance(error, TimeoutError) else said
