import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.peers.__main__ import LIBRARIES, Missing, installed, main, measure, run_single
from benchmarks.peers.adapters.driving import HANG_SECONDS, Line, Seen, Speed
from benchmarks.peers.table import BAD, GOOD, ran, saw, show, siblings
from examples.hostile_calls.cases import CASES, DEADLINE_SECONDS, LOG_CHARS

KEYS = {*(case.key for case in CASES), "clash"}


def measured_line(library: str) -> Line:
    speed = Speed(floor_seconds=1e-6, seconds=5e-6, ratio=5.0)
    return Line(
        library=library, version="1", driven="by hand", cases=dict.fromkeys(KEYS, Seen()), trivial=speed, sync=speed
    )


def not_there(tmp_path: Path, library: str) -> Path:
    """A cache in which the library's environment looks ready and has no such library."""
    home = tmp_path / library
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    (home / "bin" / "python").chmod(0o755)
    (home / ".ready").touch()
    return tmp_path


@pytest.mark.slow
def test_spindle_is_measured_like_its_peers(tmp_path: Path) -> None:
    (line,) = measure(["spindle"], tmp_path)

    assert isinstance(line, Line)
    assert line.cases.keys() == KEYS
    assert line.cases["truncated"].entered == []
    assert line.cases["wrong_type"].entered == []
    assert line.cases["raising"].siblings_answered == 2
    assert line.cases["hanging"].seconds >= DEADLINE_SECONDS
    assert "printed" not in (line.cases["hanging"].answer or "printed"), "it was waited for"
    assert line.cases["large"].answer_chars < LOG_CHARS / 10
    assert line.cases["clash"].raised is not None
    assert line.trivial.ratio > 1
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_one_call_and_one_turn_of_spindle_are_measured(tmp_path: Path) -> None:
    single = run_single("spindle", tmp_path)

    assert single.with_deadline is not None
    assert single.whole_turn is not None
    assert single.whole_turn > single.with_deadline > 0


def test_only_peers_with_an_environment_are_installed(tmp_path: Path) -> None:
    assert installed(not_there(tmp_path, "fastmcp")) == ["fastmcp"]
    assert installed(tmp_path / "none") == []


def test_a_library_that_is_not_there_is_reported_with_the_reason(tmp_path: Path) -> None:
    (row,) = measure(["fastmcp"], not_there(tmp_path, "fastmcp"))

    assert isinstance(row, Missing)
    assert row.library == "fastmcp"
    assert "ModuleNotFoundError" in row.reason


def test_a_library_that_is_not_measured_does_not_fail_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fastmcp", "--cache", str(not_there(tmp_path, "fastmcp"))]) == 0

    printed = capsys.readouterr().out
    assert re.search(r"fastmcp: not measured; not driven: ModuleNotFoundError", printed)


def test_an_unknown_library_is_a_mistake_of_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fastmpc"])

    assert "fastmpc" in capsys.readouterr().err


def test_every_library_has_an_adapter() -> None:
    folder = Path(__file__).resolve().parents[2] / "benchmarks" / "peers" / "adapters"

    names = {path.stem for path in folder.glob("*.py")} - {"__init__", "driving"}
    assert names == {library.replace("-", "_") for library in LIBRARIES}


@pytest.mark.parametrize(
    ("key", "seen", "style"),
    [
        ("truncated", Seen(), GOOD),
        ("truncated", Seen(entered=["delete_files('*', dry_run=False)"]), BAD),
        ("wrong_type", Seen(entered=["refund('A-7', 'a lot')"]), BAD),
        ("hanging", Seen(seconds=DEADLINE_SECONDS + 0.1), GOOD),
        ("hanging", Seen(seconds=HANG_SECONDS), BAD),
        ("clash", Seen(raised="ValueError: twice"), GOOD),
        ("clash", Seen(entered=["impostor('A-7', 250)"]), BAD),
    ],
)
def test_a_run_is_judged_by_its_tools_and_its_duration(key: str, seen: Seen, style: str) -> None:
    assert ran(key, seen).style == style


@pytest.mark.parametrize(
    ("key", "seen", "style"),
    [
        ("truncated", Seen(), BAD),
        ("raising", Seen(raised="ConnectionError: no"), BAD),
        ("large", Seen(answer="x", answer_chars=LOG_CHARS), BAD),
        ("large", Seen(answer="x", answer_chars=80_000), GOOD),
    ],
)
def test_a_call_without_an_answer_and_a_flood_are_shown_as_bad(key: str, seen: Seen, style: str) -> None:
    assert saw(key, seen).style == style


def test_lost_siblings_are_counted() -> None:
    kept, lost = siblings(Seen(siblings=2, siblings_answered=2)), siblings(Seen(siblings=2, siblings_answered=1))

    assert kept is not None
    assert lost is not None
    assert (kept.style, lost.style) == (GOOD, BAD)
    assert siblings(Seen()) is None


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_fit_the_screen_and_have_a_row_for_each_library(width: int) -> None:
    out = StringIO()
    show([measured_line(each) for each in LIBRARIES], {"absent": "[no] such thing"}, Console(file=out, width=width))

    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    for library in LIBRARIES:
        rows = [line for line in lines if line.split()[:1] == [library]]
        assert len(rows) == len(KEYS) + 2  # the cases, the speed, and how it was driven
    assert any("absent: not measured; [no] such thing" in line for line in lines)


@pytest.mark.slow
@pytest.mark.timeout(290)
def test_real_peers_are_installed_driven_and_shown(tmp_path: Path) -> None:
    libraries = ["toolregistry", "pydantic-ai-slim"]
    command = [sys.executable, "-m", "benchmarks.peers", "--cache", str(tmp_path), *libraries]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as running:
        try:
            printed = running.communicate(timeout=280)[0]
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise

    assert running.returncode == 0
    if "not installed" in printed:
        pytest.skip(f"the package registry cannot be reached:\n{printed}")
    for library in libraries:
        rows = [line for line in printed.splitlines() if line.split()[:1] == [library]]
        assert len(rows) == len(KEYS) + 2
    assert "not measured" not in printed
