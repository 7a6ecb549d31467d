"""Paths and URLs that users configure."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spindle import Journal, Spool
from spindle.addresses import add_password, has_password, hide_credentials, mask_password
from spindle.capabilities import Backends, StorageBackend, from_file
from spindle.errors import UsageError
from spindle.media import FileReader
from spindle.turns import Records

URLS = [
    "postgresql://user:hunter22@db.example/calls",
    "redis://:hunter22@cache.example/0",
    "s3://hunter22@bucket/prefix",
    "mysql+pymysql://user:hunter22@db.example/calls",
    " https://user:hunter22@files.example/x",
    "file:///tmp/hunter22",
]
PLACES: dict[str, Callable[[str | Path], object]] = {
    "journal": Journal.sqlite,
    "spool": Spool.files,
    "storage": StorageBackend.sqlite,
    "records": Records.sqlite,
    "secrets": from_file,
    "media": FileReader,
    "root": Backends.local,
    "read": lambda path: Backends.local(".", read=[str(path)]),
    "write": lambda path: Backends.local(".", write=[str(path)]),
}


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("place", PLACES)
def test_a_url_is_refused_where_a_path_is_expected(
    place: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    for given in (url, Path(url)):
        with pytest.raises(UsageError) as caught:
            PLACES[place](given)
        assert "hunter22" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["plain", "with: colon", "C:/drive", "a/b:c", "12:/x"])
def test_unusual_paths_are_accepted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    Spool.files(name)
    Journal.sqlite(name)


@pytest.mark.parametrize(
    ("url", "shown", "is_secret"),
    [
        ("postgresql://u:p@h:5432/db?password=x", "postgresql://h:5432/db", True),
        ("redis://h/0", "redis://h/0", False),
        ("s3://bucket/prefix", "s3://bucket/prefix", False),
        ("postgresql://u:p@[h/db", "(invalid URL)", False),
    ],
)
def test_urls_are_shown_without_credentials(url: str, shown: str, is_secret: bool) -> None:
    assert hide_credentials(url) == shown
    assert has_password(url) is is_secret


def test_a_password_is_added_in_encoded_form() -> None:
    assert add_password("redis://h:1/0", "a@b/c") == "redis://:a%40b%2Fc@h:1/0"
    assert add_password("postgresql://u:old@h/db?x=1", "new") == "postgresql://u:new@h/db?x=1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://bob:hunter22@db.example/calls?a=b", "postgresql://bob:***@db.example/calls?a=b"),
        ("redis://:hunter22@cache.example/0", "redis://:***@cache.example/0"),
        ("redis://:${REDIS_PASSWORD}@cache.example/0", "redis://:${REDIS_PASSWORD}@cache.example/0"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("folder/a:b@c", "folder/a:b@c"),
    ],
)
def test_only_the_password_of_a_url_is_masked(text: str, shown: str) -> None:
    assert mask_password(text) == shown
