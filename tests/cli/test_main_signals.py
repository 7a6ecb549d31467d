"""A signal ends the command and the processes it started."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from spindle.cli import main as command
from spindle.cli.main import INTERRUPTED
from tests.cli.conftest import Place

DEAF = "import os, sys, time, pathlib; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)"


@pytest.fixture
def as_before() -> Generator[None]:
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["term", "hangup"])
def test_a_signal_is_taken_as_ctrl_c_with_a_code_of_its_own(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def reported(argv: object) -> int:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            return INTERRUPTED
        return 0

    monkeypatch.setattr(command, "run", reported)
    monkeypatch.setattr(command.threading, "active_count", lambda: 1)

    with pytest.raises(SystemExit) as left:
        command.main([])

    assert left.value.code == 128 + number


@pytest.mark.usefixtures("as_before")
def test_ctrl_c_during_start_up_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(argv: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", interrupted)
    monkeypatch.setattr(command.threading, "active_count", lambda: 1)

    with pytest.raises(SystemExit) as left:
        command.main([])

    assert left.value.code == INTERRUPTED
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=["term", "hangup", "ctrl-c"])
def test_a_server_that_was_being_started_is_not_left_behind(number: int, place: Place) -> None:
    place.configure(
        f'[mcp.servers.deaf]\ncommand = "{sys.executable}"\nargs = ["-c", "{DEAF}"]\ncwd = "{place.work}"\n'
        'sandbox = "none"\n'
    )
    words = [sys.executable, "-m", "spindle.cli.main", "list", "--state", str(place.state)]
    with subprocess.Popen(words, cwd=place.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        pid = _written(place.work / "pid")
        process.send_signal(number)
        process.communicate(timeout=30)

    assert process.returncode == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def _written(path: Path) -> int:
    for _ in range(1_000):
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.02)  # another process writes it, without a notification
    raise AssertionError("the server was not started")
