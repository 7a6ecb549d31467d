"""What the failures of a PostgreSQL server mean to those who use a journal."""

from copy import copy

import asyncpg

from spindle.errors import JournalError, SpindleError
from spindle.journal.backends.postgres_address import Address

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
