"""What the process capability allows, decided without running anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.capabilities.process.policy import (
    CommandRules,
    Finished,
    ProcessLimits,
    check_argv,
    check_commands,
    check_cwd,
    check_env,
    check_stdin,
    check_timeout,
)
from spindle.errors import CapabilityError, CommandNotAllowedError


def rules(declared: list[str], granted: list[str]) -> CommandRules:
    return CommandRules(frozenset(declared), frozenset(granted), "builder")


@pytest.mark.parametrize(
    ("declared", "granted", "command"),
    [
        (["git"], ["git"], "git"),
        (["*"], ["git"], "git"),
        (["git"], ["*"], "git"),
        (["*"], ["*"], "git"),
        (["/opt-tools/git"], ["/opt-tools/git"], "/opt-tools/git"),
        (["*"], ["/opt-tools/git"], "/opt-tools/git"),
    ],
)
def test_a_command_runs_when_it_is_declared_and_granted(declared: list[str], granted: list[str], command: str) -> None:
    rules(declared, granted).check(command)


@pytest.mark.parametrize(
    ("declared", "granted", "command"),
    [
        ([], ["*"], "git"),
        (["*"], [], "git"),
        (["git"], ["rg"], "git"),
        (["git"], ["git"], "rg"),
        (["git"], ["git"], "/usr/bin/git"),
        (["git"], ["git"], "./git"),
        (["git"], ["git"], "GIT"),
        (["git"], ["git"], "git "),
        (["*"], ["*"], "/usr/bin/git"),
        (["*"], ["*"], "bin/git"),
        (["/usr/bin/git"], ["*"], "/usr/bin/git"),
    ],
)
def test_any_other_command_is_refused(declared: list[str], granted: list[str], command: str) -> None:
    with pytest.raises(CommandNotAllowedError) as caught:
        rules(declared, granted).check(command)

    assert (caught.value.command, caught.value.tool, caught.value.field) == (command, "builder", "process")


@given(
    st.lists(st.sampled_from(["git", "rg", "*", "/bin/x"])),
    st.lists(st.sampled_from(["git", "rg", "*", "/bin/x"])),
    st.text(min_size=1),
)
def test_nothing_runs_that_is_not_on_both_sides(declared: list[str], granted: list[str], command: str) -> None:
    try:
        rules(declared, granted).check(command)
    except CommandNotAllowedError:
        return
    assert command in declared or "*" in declared
    assert command in granted or ("*" in granted and "/" not in command)


@pytest.mark.parametrize("commands", ["git", b"git", [""], ["bin/git"], ["./git"], [".."], ["a\0b"], [1]])
def test_a_grant_that_is_not_a_command_is_refused(commands: object) -> None:
    with pytest.raises(CapabilityError):
        check_commands(commands)  # pyright: ignore[reportArgumentType] - that is the test


@pytest.mark.parametrize(
    "argv", [[], (), None, {"git"}, b"git", ["git", 1], ["git", b"x"], ["git", "a\0b"], [""], ["\ud800"]]
)
def test_a_value_that_is_not_a_list_of_texts_is_refused(argv: object) -> None:
    with pytest.raises(CapabilityError):
        check_argv(argv, shell=True)


def test_a_line_for_a_shell_needs_a_shell() -> None:
    with pytest.raises(CommandNotAllowedError) as caught:
        check_argv("git status; rm -rf /", shell=False)

    assert caught.value.command == "git status; rm -rf /"
    assert check_argv("git status", shell=True) == ["sh", "-c", "git status"]


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "TMPDIR",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "BASH_ENV",
        "ENV",
        "BASH_FUNC_ls%%",
    ],
)
def test_a_tool_does_not_set_what_decides_which_code_runs(name: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        check_env({name: "x"}, pinned=True)

    assert caught.value.field == "env"
    assert check_env({name: "x"}, pinned=False) == {name: "x"}


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A": "x\0y"}, {"A\0": "x"}, {"A": 1}])
def test_a_value_that_is_not_a_variable_is_refused(env: dict[str, str]) -> None:
    with pytest.raises(CapabilityError):
        check_env(env, pinned=False)


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [
        (None, "/srv/job"),
        (".", "/srv/job"),
        ("a/b", "/srv/job/a/b"),
        ("a/../b", "/srv/job/b"),
        ("/srv/job/a", "/srv/job/a"),
    ],
)
def test_a_folder_is_relative_to_the_root(cwd: str | None, folder: str) -> None:
    assert check_cwd("/srv/job", cwd) == folder


@pytest.mark.parametrize("cwd", ["..", "a/../..", "/srv", "/srv/jobs", "/", "/srv/job/../x", "a\0", 7])
def test_a_folder_outside_the_root_is_refused(cwd: object) -> None:
    with pytest.raises(CapabilityError) as caught:
        check_cwd("/srv/job", cwd)

    assert caught.value.field == "cwd"


@given(st.text(alphabet="./ab\\~", max_size=20))
def test_no_spelling_of_a_folder_leaves_the_root(cwd: str) -> None:
    try:
        folder = check_cwd("/srv/job", cwd)
    except CapabilityError:
        return
    assert folder == "/srv/job" or folder.startswith("/srv/job/")
    assert ".." not in folder.split("/")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), True, "5"])
def test_a_timeout_that_is_not_a_time_is_refused(seconds: object) -> None:
    with pytest.raises(CapabilityError):
        check_timeout(seconds)


def test_input_is_bytes_or_text() -> None:
    assert check_stdin("é") == "é".encode()
    assert check_stdin(b"\xff") == b"\xff"
    assert check_stdin(None) is None
    for bad in (1, ["x"], "\ud800"):
        with pytest.raises(CapabilityError):
            check_stdin(bad)


@pytest.mark.parametrize(
    "limit",
    [{"cpu_seconds": 0}, {"processes": -1}, {"memory_bytes": 1.5}, {"output_bytes": None}, {"file_bytes": True}],
)
def test_a_limit_that_is_none_is_refused(limit: dict[str, int]) -> None:
    with pytest.raises(CapabilityError):
        ProcessLimits(**limit)


def test_a_limit_may_be_left_off_and_output_may_be_nothing() -> None:
    assert ProcessLimits(cpu_seconds=None, output_bytes=0).output_bytes == 0


@pytest.mark.parametrize(
    ("exit_code", "timed_out", "ok"), [(0, False, True), (1, False, False), (None, False, False), (0, True, False)]
)
def test_only_exit_code_0_in_time_is_ok(exit_code: int | None, timed_out: bool, ok: bool) -> None:
    assert Finished(exit_code=exit_code, timed_out=timed_out, stdout="", stderr="").ok is ok
