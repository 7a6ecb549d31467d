import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.hostile_calls.demonstration import every_call, six_calls


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "NO_COLOR", "COLUMNS"}}
    return subprocess.run(
        [sys.executable, "-m", "examples.hostile_calls", *arguments],
        cwd=Path(__file__).resolve().parents[2],
        env={**kept, "PYTHONIOENCODING": "utf-8", **settings},
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("columns", [80, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("arguments", "count"),
    [pytest.param((), len(six_calls()), marks=pytest.mark.slow), (("--all",), len(every_call()))],
)
def test_the_demo_ends_and_fits_the_screen(columns: int, arguments: tuple[str, ...], count: int) -> None:
    done = run(*arguments, COLUMNS=str(columns))

    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    text = done.stdout.decode()
    assert "\x1b" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= columns
    assert f"{count} calls, {count} answers" in text


@pytest.mark.slow  # another process of the demo
def test_a_terminal_that_knows_only_ascii_gets_a_table_too() -> None:
    done = run(PYTHONIOENCODING="ascii")

    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


@pytest.mark.slow  # two processes of the demo
def test_colours_are_shown_on_a_terminal_unless_the_user_wants_none() -> None:
    assert b"\x1b[32m" in run(FORCE_COLOR="1", TERM="xterm").stdout
    assert b"\x1b[32m" not in run(FORCE_COLOR="1", TERM="xterm", NO_COLOR="1").stdout
