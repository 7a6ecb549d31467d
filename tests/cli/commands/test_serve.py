"""`spindle serve`, as far as it gets without serving."""

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from spindle.cli.commands import serve
from spindle.cli.commands.serve import LineFormatter, log_to_stderr
from spindle.cli.main import USAGE
from tests.cli.conftest import Command, Place


def test_an_unavailable_port_is_reported_before_servers_start(
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


def test_a_server_without_a_sandbox_is_said_out_loud(
    spindle: Command, place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def quiet(_level: str, *, as_json: bool) -> None:
        assert not as_json

    monkeypatch.setattr(serve, "log_to_stderr", quiet)
    place.configure(
        '[mcp.servers.loose]\ncommand = "x"\nsandbox = "none"\n[mcp.servers.tight]\ncommand = "x"\n'
        '[mcp.servers.off]\ncommand = "x"\nsandbox = "none"\nenabled = false\n'
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        spindle("serve", "--port", str(taken.getsockname()[1]))

    said = [record.getMessage() for record in caplog.records if "without a sandbox" in record.getMessage()]
    assert len(said) == 1
    assert "'loose'" in said[0]


def line(message: str, *args: Any, **extra: Any) -> str:
    record = logging.LogRecord("spindle.x", logging.WARNING, "x.py", 1, message, args, None)
    record.__dict__.update(extra)
    return LineFormatter().format(record)


@pytest.mark.parametrize(
    "said",
    ["a\nWARNING forged: b", "a\x1b[31mb", "a\r\x1b[2Kb", "a\u202eb", "a\x9b31mb", "a\x00b", "a\u2028b"],
    ids=["line", "escape", "return", "turned", "C1", "nul", "separator"],
)
def test_nothing_that_was_said_commands_a_terminal_or_forges_a_line(said: str) -> None:
    shown = line("Invalid Host header: %s", said)

    assert shown.isprintable()
    assert shown.startswith("WARNING spindle.x: Invalid Host header: a")


def test_tokens_are_masked_and_long_lines_cut() -> None:
    shown = line("sent Authorization: Bearer abcdefgh12345678 and %s", "x" * 10_000_000)

    assert "abcdefgh" not in shown
    assert len(shown) < 2_100


def test_the_log_line_of_a_call_has_its_facts() -> None:
    event = {
        "name": "tool_call",
        "tool": "add\x1b[31m",
        "code": "ok",
        "duration_ms": 1.25,
        "tool_call_id": "c_1",
        "session_id": "session 12 of everybody",
    }

    assert (
        line("tool_call", event=event) == "WARNING spindle.x: add\\x1b[31m ok in 1.25 ms (c_1, session 12 of everybody)"
    )


def test_an_exception_is_named_without_its_message() -> None:
    error = ValueError("the argument was s3cret")

    assert line("it failed", exc_info=(ValueError, error, None)) == "WARNING spindle.x: it failed (ValueError)"


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("level", ["debug", "info", "error"])
def test_libraries_that_write_session_ids_and_messages_stay_quiet(
    level: Any, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.Logger("a root of its own")
    monkeypatch.setattr(logging, "root", root)
    for name in ("mcp", "sse_starlette", "spindle"):
        monkeypatch.setattr(logging.getLogger(name), "parent", root)
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
    log_to_stderr(level, as_json=as_json)
    logging.getLogger("mcp.server.streamable_http_manager").info("Created new transport with session ID: xyzzy")
    logging.getLogger("sse_starlette.sse").debug("chunk: secret")
    logging.getLogger("spindle.calls").info("ours")

    said = capsys.readouterr().err
    assert "xyzzy" not in said
    assert "secret" not in said
    assert ("ours" in said) is (level != "error")
