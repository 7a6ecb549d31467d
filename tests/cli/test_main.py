"""The command as it is really started: pipes, terminals, signals, and what it imports."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from spindle.cli.commands.journal import CallFilter, read_calls
from spindle.cli.main import COMMANDS, FAILED, INTERRUPTED, NOT_FOUND, OK, PIPE_CLOSED, USAGE, move_global_options, run
from spindle.errors import UsageError
from tests.cli.conftest import Command, Place
from tests.cli.terminal import Terminal

SPINDLE = [sys.executable, "-m", "spindle.cli.main"]
MODULE = """
import anyio
from spindle import tool
@tool
async def hang() -> str:
    "Hang."
    await anyio.sleep_forever()
@tool(requires_approval=True)
def pay(cents: int) -> str:
    "Pay."
    return f"paid {cents}"
@tool
def rude() -> str:
    "Rude."
    return "\\x1b]0;owned\\x07\\x1b[2J漢字"
tools = [hang, pay, rude]
"""


def test_the_package_installs_the_command() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["scripts"] == {"spindle": "spindle.cli.main:main"}


@pytest.mark.parametrize("name", [name for name, _, _ in COMMANDS])
def test_every_command_has_help(spindle: Command, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run([name, "--help"])

    assert code == OK
    assert f"spindle {name}" in capsys.readouterr().out


def test_help_lists_the_commands_in_their_order(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == OK

    reported = capsys.readouterr().out
    places = [reported.index(f"  {name}: ") for name, _, _ in COMMANDS]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["list"], ["list"]),
        (["--config", "x", "list", "--json"], ["list", "--config", "x", "--json"]),
        (["--debug", "--state=s", "spool", "head", "id"], ["spool", "head", "--debug", "--state=s", "id"]),
        (["--config", "x"], ["--config", "x"]),
        (["--config", "x", "--help"], ["--config", "x", "--help"]),
        (["call", "t", "--json"], ["call", "t", "--output=json"]),
        (["call", "t", "--json", "a=1"], ["call", "t", "--output=json", "a=1"]),
        (["call", "t", "--json", "{}"], ["call", "t", "--json", "{}"]),
        (["call", "t", "--json", "-"], ["call", "t", "--json", "-"]),
        (["call", "t", "--json", "{}", "--json"], ["call", "t", "--json", "{}", "--output=json"]),
        (["list", "--json"], ["list", "--json"]),
        (["--install-completion", "bash"], ["completion", "bash", "--install"]),
        ([], []),
    ],
)
def test_options_may_stand_before_the_command(given: list[str], expected: list[str]) -> None:
    assert move_global_options(given) == expected


@pytest.mark.parametrize("words", [["shw"], ["list", "--jsn"], ["show"], ["spool", "nothing"], ["--config"]])
def test_wrong_words_are_one_line_and_a_hint(
    place: Place, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == USAGE

    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert printed.out == ""
    assert lines[0].startswith("spindle: ")
    assert lines[1].startswith("hint: ")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", "calcu", "--json"], NOT_FOUND),
        (["journal", "show", "nothing", "--json"], NOT_FOUND),
        (["shw", "--json"], USAGE),
        (["call", "calculate", "nonsense", "--json"], USAGE),
        (["call", "calculate", "--json", '{"expression": ', "-o", "json"], USAGE),
        (["call", "calculate", "--output", "json", "--timeout", "0"], USAGE),
    ],
)
def test_programs_get_a_document_for_an_error_too(spindle: Command, words: list[str], code: int) -> None:
    ran = spindle(*words)

    reported = json.loads(ran.out)
    assert (ran.code, reported["exit_code"], reported["ok"]) == (code, code, False)
    assert ran.err.startswith(f"spindle: {reported['error']}")


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (ExceptionGroup("tasks", [UsageError("the port is taken", field="port")]), USAGE, "the port is taken"),
        (OSError(28, "No space left on device"), FAILED, "No space left on device"),
    ],
    ids=["of a group", "of the system"],
)
def test_an_expected_error_is_not_reported_as_a_bug(
    spindle: Command, raised: Exception, code: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("spindle.cli.options.load_config", broken)

    ran = spindle("list")

    assert (ran.code, ran.err.splitlines()[0]) == (code, f"spindle: {line}")
    assert "this is a bug" not in ran.err


@pytest.mark.slow
def test_closed_standard_streams_are_tolerated(place: Place) -> None:
    line = f"exec {shlex.join([*SPINDLE, 'call', 'calculate', 'expression=1', '--state', str(place.state)])}"

    done = subprocess.run(["sh", "-c", f"{line} <&- >&- 2>&-"], check=False, timeout=50)

    assert done.returncode == OK
    assert [entry.code for entry in anyio.run(read_calls, place.state / "journal.sqlite", CallFilter())] == [None]


def test_a_bug_is_one_line_unless_the_traceback_is_wanted(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("spindle.cli.options.load_config", broken)

    assert run(["list"]) == 1
    assert capsys.readouterr().err.splitlines()[0] == "spindle: ZeroDivisionError: inside"
    with pytest.raises(ZeroDivisionError):
        run(["list", "--debug"])


@pytest.mark.parametrize(
    ("commands", "unneeded"),
    [
        ([["--version"]], {"rich", "cyclopts", "pydantic", "anyio"}),
        pytest.param(  # tests/house/test_startup.py starts these two
            [["list"], ["list", "--json"], ["call", "calculate", "expression=1"]], set[str](), marks=pytest.mark.slow
        ),
    ],
)
def test_starting_imports_nothing_that_is_not_needed(
    place: Place, commands: list[list[str]], unneeded: set[str]
) -> None:
    heavy = {"mcp", "openai", "anthropic", "starlette", "uvicorn", "duckdb", "opentelemetry", "trio"} | unneeded
    code = (
        "import sys\nfrom spindle.cli.main import run\n"
        f"for words in {commands!r}:\n"
        "    assert run(words) == 0\n"
        f"print(sorted({heavy!r} & sys.modules.keys()), file=sys.stderr)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)

    assert done.stderr.strip() == "[]"


@pytest.mark.slow  # test_output.py closes one in this process
def test_a_closed_pipe_is_left_quietly(place: Place) -> None:
    (place.state / "workspace").mkdir(parents=True)
    (place.state / "workspace/big.txt").write_text("line\n" * 50_000)
    words = ["call", "read_file", "path=big.txt", "--output", "raw", "--state", str(place.state)]
    with subprocess.Popen([*SPINDLE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()

    assert complaint == b""
    assert process.returncode == PIPE_CLOSED


def test_a_missing_extra_is_one_line(place: Place) -> None:
    code = (
        "import sys, importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('cyclopts', 'rich') else find(name, *a)\n"
        "from spindle.cli.main import main\nmain(['list'])\n"
    )

    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=50)

    assert done.returncode == USAGE
    assert (
        done.stderr
        == "spindle: the spindle command requires cyclopts\nhint: pip install '.[cli]' in a clone of Spindle\n"
    )


@pytest.fixture
def terminal(place: Place) -> Iterator[Terminal]:
    (place.work / "tty_tools.py").write_text(MODULE, encoding="utf-8")
    place.configure('[tools]\nkit = ["files"]\nmodules = ["tty_tools:tools"]\npython_path = ["."]\n')
    env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    with Terminal(columns=40, cwd=place.work, env=env | {"TERM": "xterm", "SPINDLE_STATE": str(place.state)}) as it:
        yield it


@pytest.mark.slow  # test_output.py writes to a terminal in this process, as to a pipe
def test_a_terminal_gets_colours_within_its_width(terminal: Terminal) -> None:
    screen = terminal.run([*SPINDLE, "list"])

    assert "\x1b[36mread_file" in screen
    plain = terminal.plain(screen)
    assert all(len(line) <= 40 for line in plain.splitlines())
    assert terminal.exit_code == OK


@pytest.mark.slow
def test_no_color_is_respected(terminal: Terminal) -> None:
    terminal.env["NO_COLOR"] = "1"

    screen = terminal.run([*SPINDLE, "list"])

    assert "read_file" in screen
    assert "\x1b[3" not in screen


@pytest.mark.slow
def test_a_tool_cannot_command_the_terminal(terminal: Terminal) -> None:
    screen = terminal.run([*SPINDLE, "call", "rude"])

    assert "\x1b]0;owned" not in screen
    assert "\x1b[2J" not in screen
    assert "漢字" in screen


@pytest.mark.slow
def test_ctrl_c_ends_a_call_and_is_written_down(terminal: Terminal, place: Place, spindle: Command) -> None:
    terminal.start([*SPINDLE, "call", "hang"])
    terminal.wait_for("hang …")
    path, started = place.state / "journal.sqlite", CallFilter(state="started")
    terminal.wait_until(lambda: bool(anyio.run(read_calls, path, started)))
    terminal.type("\x03")
    screen = terminal.finish()

    assert "interrupted" in screen
    assert "Traceback" not in screen
    assert terminal.exit_code == INTERRUPTED
    [call] = json.loads(spindle("journal", "list", "--json").out)["calls"]
    assert (call["tool"], call["code"]) == ("hang", "cancelled")


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        pytest.param("y", "paid 3", id="yes"),
        pytest.param("n", "denied", id="no", marks=pytest.mark.slow),
        pytest.param("", "denied", id="enter", marks=pytest.mark.slow),
    ],
)
def test_a_person_at_the_terminal_is_asked(terminal: Terminal, answer: str, word: str) -> None:
    terminal.start([*SPINDLE, "call", "pay", "cents=3"])
    terminal.wait_for("[y/N]")
    terminal.type(f"{answer}\n")

    assert word in terminal.finish()


@pytest.mark.slow
def test_ctrl_c_at_a_question_leaves(terminal: Terminal) -> None:
    terminal.start([*SPINDLE, "call", "pay", "cents=3"])
    terminal.wait_for("[y/N]")
    terminal.type("\x03")

    assert "interrupted" in terminal.finish()
    assert terminal.exit_code == INTERRUPTED


@pytest.mark.slow
def test_following_ends_with_ctrl_c_and_prints_each_call(place: Place) -> None:
    words = [*SPINDLE, "journal", "follow", "--json", "--state", str(place.state)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        run(["call", "calculate", "expression=1", "--state", str(place.state)])
        seen: list[dict[str, str]] = []
        while not seen:
            run(["call", "calculate", "expression=2", "--state", str(place.state)])
            os.set_blocking(process.stdout.fileno(), False)
            line = process.stdout.readline()
            seen += [json.loads(line)] if line else []
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)

    assert seen[0]["tool"] == "calculate"
    assert complaint == b""
    assert process.returncode == INTERRUPTED


@pytest.mark.slow
def test_exit_handlers_run_and_output_is_complete_at_the_end(place: Place) -> None:
    code = (
        "import atexit, sys; from spindle.cli.main import main\n"
        "atexit.register(lambda: sys.stdout.write('last words\\n'))\n"
        "sys.argv = ['spindle', 'list', '--server', 'none']\n"
        "main()"
    )

    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=place.work, capture_output=True, text=True, timeout=50, check=False)

    assert done.returncode == NOT_FOUND
    assert "no tools from MCP server 'none'" in done.stderr
    assert done.stdout == "last words\n"
