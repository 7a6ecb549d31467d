"""Commands that really run: exit codes, signals and deadlines."""

import shlex
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import Ok, ToolContext
from spindle.errors import CommandNotAllowedError
from spindle.kit.commands import find_shell_syntax
from tests.kit.calling import Workshop

pytestmark = pytest.mark.anyio


@pytest.mark.slow
@pytest.mark.parametrize("command", ["echo one 'two three'", ["echo", "one", "two three"]])
async def test_a_command_runs_as_a_line_or_as_words(tmp_path: Path, command: object) -> None:
    result = await Workshop(tmp_path, commands=["echo"]).ok("terminal", command=command)

    assert result.value == "one two three\n"
    assert result.structured == {"exit_code": 0, "signal": None, "timed_out": False}
    assert not result.trusted


@pytest.mark.slow
async def test_words_are_never_read_by_a_shell(tmp_path: Path) -> None:
    words = ["echo", "$HOME; touch x | `id` $(id) *"]

    result = await Workshop(tmp_path, commands=["echo"]).ok("terminal", command=words)

    assert result.value == f"{words[1]}\n"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "command", ["echo a | cat", "echo a && echo b", "echo $HOME", "echo `id`", 'echo "$(id)"', "echo > x", "echo\necho"]
)
async def test_a_line_for_a_shell_is_refused_without_one(tmp_path: Path, command: str) -> None:
    error = await Workshop(tmp_path, commands=["echo", "cat"]).err("terminal", command=command)

    assert (error.code, error.field) == ("input_invalid", "command")
    assert not (tmp_path / "x").exists()


async def test_a_line_for_a_shell_runs_where_one_was_granted(tmp_path: Path) -> None:
    result = await Workshop(tmp_path, commands=["cat"], shell=True).ok("terminal", command="echo a | cat; echo b")

    assert result.value == "a\nb\n"


async def test_a_command_that_was_not_granted_does_not_run(tmp_path: Path) -> None:
    error = await Workshop(tmp_path, commands=["echo"]).err("terminal", command="cat /etc/passwd")

    assert isinstance(error.cause, CommandNotAllowedError)


async def test_without_any_grant_there_is_not_a_terminal(tmp_path: Path) -> None:
    assert (await Workshop(tmp_path).err("terminal", command="echo a")).code == "not_available"


@pytest.mark.parametrize("command", ["echo 'a", "", [], [""], "   "])
async def test_a_value_that_is_not_a_command_is_refused(tmp_path: Path, command: object) -> None:
    assert not (await Workshop(tmp_path, commands=["echo"]).call("terminal", command=command)).ok


async def test_a_failure_shows_its_exit_code_after_output_and_errors(tmp_path: Path) -> None:
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    workshop = Workshop(tmp_path, commands=[sys.executable, "python3"])

    result = await workshop.ok("terminal", command=["python3", "-c", script])

    assert result.value == "out\nerr\n[exit code 3]"
    assert result.structured == {"exit_code": 3, "signal": None, "timed_out": False}


async def test_a_signal_is_distinguished_from_an_exit_code(tmp_path: Path) -> None:
    result = await Workshop(tmp_path, commands=["sh"]).ok("terminal", command=["sh", "-c", "kill -9 $$"])

    assert result.structured == {"exit_code": None, "signal": 9, "timed_out": False}
    assert result.value == "[killed by signal 9, SIGKILL]"


@pytest.mark.slow
async def test_output_before_the_deadline_is_kept(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo begun; sleep 60"]

    result = await Workshop(tmp_path, commands=["sh"]).ok("terminal", command=command, timeout_seconds=2)

    assert result.structured["timed_out"]
    assert result.value.startswith("begun\n")
    assert "[stopped: it ran longer than 2 s]" in result.value


@pytest.mark.slow
async def test_a_command_reads_what_it_is_given_in_the_folder_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    workshop = Workshop(tmp_path, commands=["cat", "pwd"])

    assert (await workshop.ok("terminal", command="cat", stdin="fed")).value == "fed\n"
    assert (await workshop.ok("terminal", command="pwd", cwd="sub")).value.endswith("/sub\n")
    assert not (await workshop.call("terminal", command="pwd", cwd="..")).ok


async def test_a_dry_run_says_what_would_run(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, commands=["touch"])

    result = await workshop.call("terminal", ctx=ToolContext(dry_run=True), command=["touch", "a b"])

    assert isinstance(result, Ok)
    assert result.value == "[dry-run] run touch 'a b' in the workspace"
    assert not (tmp_path / "a b").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["git status", ["git", "status"]])
async def test_the_reducer_knows_the_real_output(tmp_path: Path, command: object) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed here; its output is not tested")
    workshop = Workshop(tmp_path, reduced=True, commands=["git"])
    await workshop.ok("terminal", command="git init -q")
    for number in range(30):
        (tmp_path / f"a-file-with-a-rather-long-name-{number}.txt").write_text("x")

    result = await workshop.ok("terminal", command=command)

    assert result.value.startswith("git status: 30 untracked.")
    assert result.structured == {"exit_code": 0, "signal": None, "timed_out": False}


async def test_long_output_keeps_its_head_and_tail(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, reduced=True, commands=["seq"])

    result = await workshop.ok("terminal", command="seq 100000")

    assert result.value.startswith("1\n2\n")
    assert result.value.rstrip().endswith("100000")
    assert len(result.value) < 2_000


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "grep '|' a",
        'grep "a|b" a',
        r"grep a\|b a",
        r"find . -exec rm {} \;",
        "awk '{print $1}' a",
        "grep foo$ a",
        "echo '$HOME'",
        "ls *.py",
        "git commit -m 'a; b && c > d'",
        r'echo "\$HOME"',
        "",
    ],
)
def test_plain_words_need_none(line: str) -> None:
    assert find_shell_syntax(line) is None


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a | b", "|"),
        ("a&&b", "&"),
        ("a; b", ";"),
        ("a > b", ">"),
        ("a < b", "<"),
        ("(a)", "("),
        ("a\nb", "\n"),
        ("a `b`", "`"),
        ('a "`b`"', "`"),
        ("a $(b)", "$("),
        ('a "$B"', "$B"),
        ("a ${B}", "${"),
        ("'a' | 'b'", "|"),
    ],
)
def test_shell_syntax_is_found(line: str, found: str) -> None:
    assert find_shell_syntax(line) == found


@given(st.lists(st.text(min_size=1, max_size=10), min_size=1, max_size=5))
def test_quoted_words_are_always_plain(words: list[str]) -> None:
    assert find_shell_syntax(shlex.join(words)) is None
