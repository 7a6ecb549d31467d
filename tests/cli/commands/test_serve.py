"""`spindle serve`, as far as it gets without serving."""

import socket
from pathlib import Path

import pytest

from spindle.cli.commands import serve
from spindle.cli.main import USAGE
from tests.cli.conftest import Command, Place


def test_a_port_that_cannot_be_had_is_told_before_anything_is_started(
    spindle: Command, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quiet(_level: str, *, as_json: bool) -> None:
        assert not as_json

    monkeypatch.setattr(serve, "log_to_stderr", quiet)
    place.configure(f'[mcp.servers.up]\ncommand = "sh"\nargs = ["-c", "touch {place.work}/started"]\nrequired = true\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = [spindle("serve", "--port", str(port)) for port in (taken.getsockname()[1], 70_000)]

    assert [(each.code, each.out) for each in ran] == [(USAGE, "")] * 2
    assert all(each.err.startswith("spindle: cannot listen on 127.0.0.1:") for each in ran)
    assert not Path(place.work, "started").exists()
