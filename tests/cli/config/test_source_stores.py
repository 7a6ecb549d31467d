"""Where a configuration keeps its data: paths, and databases and object stores by URL."""

from pathlib import Path

import pytest

from spindle.cli.config import Config, load_config
from spindle.cli.config.sources import RemoteStore
from spindle.errors import InvalidConfigError, UsageError

ENV = {"HOME": "/nowhere", "PG_PASSWORD": "hunter22"}
DSN = "postgresql://calls:hunter22@db.example:5432/calls"


def load(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "spindle.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, state=tmp_path / "state", environ=ENV)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f'[journal]\npath = "{DSN}"', "journal.path"),
        (f'[storage]\npath = "{DSN}"', "storage.path"),
        (f'[spool]\npath = "{DSN}"', "spool.path"),
        (f'[reach]\nroot = "{DSN}"', "reach.root"),
        (f'[reach]\nsecrets_file = "{DSN}"', "reach.secrets_file"),
        (f'[reach]\nread = ["src", "{DSN}"]', "reach.read"),
        (f'[reach]\nwrite = ["{DSN}"]', "reach.write"),
        (f'[spindle]\nstate = "{DSN}"', "spindle.state"),
        (f'[tools]\npython_path = ["{DSN}"]', "tools.python_path"),
        (f'[mcp]\nimport = ["{DSN}"]', "mcp.import"),
        (f'[mcp.servers.a]\ncommand = "a"\ncwd = "{DSN}"', "mcp.servers.a.cwd"),
        ('[journal]\npath = "postgresql://u:${PG_PASSWORD}@h/db"', "journal.path"),
        ('[journal]\nurl = "mysql://u:hunter22@h/db"', "journal.url"),
        ('[journal]\nurl = "calls.sqlite?hunter22"', "journal.url"),
        (f'[storage]\nurl = "{DSN}"', "storage.url"),
        (f'[spool]\nurl = "{DSN}"', "spool.url"),
        (f'[journal]\npath = "a.db"\nurl = "{DSN}"', "journal"),
        ('[spool]\nurl = "s3://b"\noptions = { secret_access_key = "hunter22+/=" }', "spool.options.secret_access_key"),
        ('[spool]\nurl = "s3://b"\noptions = { endpoint = "ftp://hunter22" }', "spool.options.endpoint"),
        ('[spool]\nurl = "s3://b"\noptions = { hunter = 22 }', "spool.options.hunter"),
    ],
)
def test_wrong_places_are_refused_without_showing_a_password(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InvalidConfigError) as caught:
        load_config(path, environ=ENV)

    assert caught.value.field == key
    assert "hunter22" not in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["spindle.toml"]


def test_a_url_is_refused_as_configuration(tmp_path: Path) -> None:
    for given, environ in ((Path(DSN), ENV), (None, ENV | {"SPINDLE_CONFIG": DSN})):
        with pytest.raises(InvalidConfigError) as caught:
            load_config(given, cwd=tmp_path, environ=environ)
        assert "hunter22" not in str(caught.value)


def test_a_url_is_refused_as_state_folder(tmp_path: Path) -> None:
    for given, environ in ((Path(DSN), ENV), (None, ENV | {"SPINDLE_STATE": DSN})):
        with pytest.raises(UsageError) as caught:
            load_config(state=given, cwd=tmp_path, environ=environ)
        assert "hunter22" not in str(caught.value)


def test_urls_and_options_are_read_and_passwords_are_not_shown(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        '[journal]\nurl = "postgresql://calls:${PG_PASSWORD}@db.example/calls"\n'
        '[storage]\nurl = "redis://cache.example/0"\noptions = { password = "REDIS_PASSWORD" }\n'
        '[spool]\nurl = "s3://bucket/prefix"\n[spool.options]\nendpoint = "http://127.0.0.1:9000"\n'
        'region = "eu-1"\nallow_http = true\naccess_key_id = "KEY_ID"\n'
        'credentials = { secret_access_key = "KEY" }\n',
    )

    assert isinstance(config.journal, RemoteStore)
    assert isinstance(config.storage, RemoteStore)
    assert isinstance(config.spool, RemoteStore)
    assert config.journal.url == "postgresql://calls:hunter22@db.example/calls"
    assert str(config.journal) == "postgresql://db.example/calls"
    assert config.storage.secrets == {"password": "REDIS_PASSWORD"}
    assert config.spool.options == {"endpoint": "http://127.0.0.1:9000", "region": "eu-1", "allow_http": True}
    assert config.spool.secrets == {"access_key_id": "KEY_ID", "secret_access_key": "KEY"}
    assert "hunter22" not in repr(config)
    assert config.notes == ()


def test_a_literal_password_is_noted_and_not_repeated(tmp_path: Path) -> None:
    [note] = load(tmp_path, f'[journal]\nurl = "{DSN}"\n').notes

    assert note.startswith("journal.url ")
    assert "hunter22" not in note


def test_memory_and_paths_are_places_of_the_storage(tmp_path: Path) -> None:
    assert load(tmp_path, "").storage == tmp_path / "state/storage.sqlite"
    assert load(tmp_path, '[storage]\npath = "memory"').storage is None
    assert load(tmp_path, '[storage]\npath = "s.db"').storage == tmp_path / "s.db"
