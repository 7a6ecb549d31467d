"""Where a PostgreSQL journal is kept: a checked dsn, and its name without the password."""

from dataclasses import dataclass, field
from typing import cast
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from spindle.errors import UsageError

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
