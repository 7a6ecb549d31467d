"""The file that says where the server of a state runs: written for its owner, and ignored when it is stale."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spindle.cli.config import load_config
from spindle.cli.config.loader import Config
from spindle.cli.running_server import find_server
from spindle.cli.server_file import NAME, read_record, remove_record, write_record


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load_config(None, state=tmp_path / "state", cwd=tmp_path, environ={})


def test_a_record_is_read_as_written_by_its_owner_only_and_removed(config: Config) -> None:
    written = write_record(config, "http://127.0.0.1:8321/mcp", page=True, certificate=None)
    path = config.state / NAME

    assert written.address == "http://127.0.0.1:8321"
    assert read_record(config) == written
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in config.state.iterdir()] == [NAME]
    remove_record(config, written)
    assert read_record(config) is None
    assert not path.exists()


def test_the_record_of_another_server_is_not_removed(config: Config) -> None:
    first = write_record(config, "http://127.0.0.1:1", page=True, certificate=None)
    second = write_record(config, "http://127.0.0.1:2", page=True, certificate=None)
    remove_record(config, first)

    assert read_record(config) == second


def test_the_record_of_a_process_that_has_ended_is_ignored(config: Config) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write_record(config, "http://127.0.0.1:1", page=True, certificate=None)
    path = config.state / NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": ended.pid}))

    assert read_record(config) is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"address": 1}', '{"address": "x", "pid": "y"}', "[" * 100_000, "\0", '{"pid": 1e99}'],
)
def test_a_record_that_is_not_valid_is_ignored(config: Config, content: str) -> None:
    config.state.mkdir(parents=True)
    (config.state / NAME).write_text(content)

    assert read_record(config) is None
    assert find_server(config) is None


@pytest.mark.parametrize(
    ("address", "page"),
    [("http://127.0.0.1:1", True), ("http://127.0.0.1:1", False), ("http://192.0.2.1:1", True), ("nonsense", True)],
    ids=["nobody listens", "no page", "another machine", "no address"],
)
def test_a_server_that_cannot_be_asked_is_not_found(config: Config, address: str, page: bool) -> None:
    write_record(config, address, page=page, certificate=None)

    assert read_record(config) is not None
    assert find_server(config) is None


def test_a_folder_that_cannot_be_written_is_said_and_the_server_goes_on(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    config.state.parent.mkdir(exist_ok=True)
    config.state.write_text("a file")
    record = write_record(config, "http://127.0.0.1:8321", page=True, certificate=None)

    assert record.pid == os.getpid()
    assert "spindle page" in capsys.readouterr().err
