"""Validation of a dsn, and redaction of its password."""

import pytest

from spindle.errors import UsageError
from spindle.journal.backends.postgres_session import parse_address
from spindle.journal.journal import Journal


@pytest.mark.parametrize(
    ("dsn", "name"),
    [
        ("postgresql://ada:secret@db.example:5433/calls", "db.example:5433/calls"),
        ("postgres://ada:secret@db.example/", "db.example/ada"),
        ("postgresql://ada:secret@one:1,two:2/calls?target_session_attrs=primary", "one:1,two:2/calls"),
        ("postgresql://[::1]:5432/calls", "[::1]:5432/calls"),
        ("postgresql:///calls?host=/run/postgresql&password=secret", "/run/postgresql/calls"),
        ("postgresql://%2Frun%2Fpostgresql/calls", "/run/postgresql/calls"),
        ("postgresql://", "the default host/the default database"),
    ],
)
def test_an_address_names_the_place_and_not_the_password(dsn: str, name: str) -> None:
    address = parse_address(dsn)

    assert str(address) == name
    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        None,
        5,
        b"postgresql://host/db",
        "host/db",
        "mysql://ada:secret@host/db",
        "host=localhost password=secret",
        "postgresql://ada:secret@host:port/db",
        "postgresql://ada:secret@host:0/db",
        "postgresql://ada:secret@host:65536/db",
        "postgresql://ada:secret@host:9999999999999999999999/db",
        "postgresql://host/db?password=secret&port=x",
        "postgresql://host/db?secret",
        "postgresql://ada:se@cret@host/db",
        "postgresql://ada:secret/x@host/db",
        "postgresql://ada:secret#x@host/db",
        "postgresql://ada:secret@host/db\0",
        "postgresql://ada:secret@host/db\n",
        "postgresql://ada:secret@[::1/db",
    ],
)
def test_invalid_dsn_is_rejected_without_repeating_it(wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        Journal.postgres(wrong)

    assert caught.value.field == "dsn"
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_password_is_masked_in_each_of_its_spellings() -> None:
    address = parse_address("postgresql://ada:p%40ss%20word@host/db")

    assert address.redact("p@ss word, p%40ss%20word, pass") == "***, ***, pass"
