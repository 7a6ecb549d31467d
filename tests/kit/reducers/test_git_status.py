"""Against real repositories: each count is known from how the repository was made."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spindle.kit.reducers.git_status import is_git_status, summarise_git_status

FORMATS = [
    "git status",
    "git status --long --branch",
    "git -c color.status=always status",
    "git -c status.relativePaths=false status --no-renames",
    "git status -s",
    "git status -sb",
    "git -c color.ui=always status --short --branch",
    "git --no-pager status --porcelain",
    "git status --porcelain=v1 --branch",
    "git status --porcelain=v2",
    "git status --porcelain=v2 --branch --show-stash",
    "git status -z",
    "git status -z --branch",
    "git status --porcelain=v2 -z",
    "git status --porcelain=v2 -z -b",
]

Shell = Callable[..., Any]


def write(folder: Path, names: list[str], text: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text} of {name}\n" * 5, encoding="utf-8")


@pytest.fixture
def repository(shell: Shell, tmp_path: Path) -> Path:
    """7 modified (2 of them staged), 3 deleted (1 staged), 2 renamed, 4 added (1 changed since), 6 untracked."""
    write(tmp_path, [f"source/modified_{n}.txt" for n in range(6)], "old")
    write(tmp_path, [f"source/deleted {n}.txt" for n in range(3)], "gone")
    write(tmp_path, [f"source/named_{n}.txt" for n in range(2)], "unchanged")
    shell("git init -q -b main && git add . && git commit -qm start", ok=True)
    write(tmp_path, [f"source/modified_{n}.txt" for n in range(6)], "new")
    shell("git add source/modified_0.txt source/modified_1.txt", ok=True)
    write(tmp_path, ["source/modified_0.txt"], "newer")
    shell("git rm -q 'source/deleted 0.txt' && rm source/deleted*", ok=True)
    shell("git mv source/named_0.txt source/renamed_0.txt && git mv source/named_1.txt source/renamed_1.txt", ok=True)
    write(tmp_path, [f"source/added_{n}.txt" for n in range(4)], "added")
    shell("git add source/added*", ok=True)
    write(tmp_path, ["source/added_3.txt"], "changed since")
    write(tmp_path, [f"source/untracked_{n} ünïcode.txt" for n in range(6)], "new")
    return tmp_path


@pytest.mark.usefixtures("repository")
def test_the_counts_are_true_in_every_format(shell: Shell, subtests: pytest.Subtests) -> None:
    for command in FORMATS:
        with subtests.test(command=command):
            ran = shell(command)

            first, *rest = ran.reduced.split("\n")

            if "--no-renames" in command:
                expected = "7 modified, 6 added, 6 untracked, 5 deleted, 11 staged"
            else:
                expected = "7 modified, 4 added, 6 untracked, 3 deleted, 2 renamed, 9 staged"
            assert first == f"git status: {expected}."
            assert len(ran.reduced) < len(ran.text)
            assert "clean" not in ran.reduced
            assert any(line.startswith("First 5: ") for line in rest)


@pytest.mark.usefixtures("repository")
def test_git_status_behind_a_cd_is_summarized(shell: Shell) -> None:
    ran = shell("cd source && git status")

    assert ran.reduced.startswith("git status: 7 modified, ")
    assert len(ran.reduced) < len(ran.text)


@pytest.mark.usefixtures("repository")
def test_the_branch_stays(shell: Shell, subtests: pytest.Subtests) -> None:
    for command in [line for line in FORMATS if "branch" in line or "-sb" in line or "-z -b" in line]:
        with subtests.test(command=command):
            assert "main" in shell(command).reduced


def test_a_clean_repository_is_never_made_dirty_nor_anything_clean(
    shell: Shell, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    write(tmp_path, ["one.txt"], "text")
    shell("git init -q -b main && git add . && git commit -qm start", ok=True)

    for command in FORMATS:
        with subtests.test(command=command):
            ran = shell(command)

            assert ("clean" in ran.reduced) == ("clean" in ran.text)
            assert "modified" not in ran.reduced


@pytest.mark.parametrize("command", ["git status --porcelain=v2 --branch", "git status"])
def test_files_hidden_by_a_setting_do_not_count_as_clean(shell: Shell, tmp_path: Path, command: str) -> None:
    write(tmp_path, ["one.txt"], "text")
    shell("git init -q -b main && git add . && git commit -qm start", ok=True)
    shell("git config status.showUntrackedFiles no", ok=True)
    write(tmp_path, ["hidden.txt"], "text")

    assert "clean" not in shell(command).reduced


def test_conflicts_are_counted_and_named_first(shell: Shell, tmp_path: Path, subtests: pytest.Subtests) -> None:
    names = [f"folder_of_many_names/file_{n:02}.txt" for n in range(20)]
    write(tmp_path, names, "base")
    shell("git init -q -b main && git add . && git commit -qm base && git switch -qc side", ok=True)
    write(tmp_path, [*names[17:19], "folder_of_many_names/both.txt"], "side")
    shell("git rm -q folder_of_many_names/file_19.txt && git add . && git commit -qm side", ok=True)
    shell("git switch -q main", ok=True)
    write(tmp_path, [*names[17:], "folder_of_many_names/both.txt"], "main")
    shell("git add . && git commit -qm main", ok=True)
    assert shell("git merge side").exit_code != 0
    write(tmp_path, names[:9], "changed")

    for command in FORMATS:
        with subtests.test(command=command):
            ran = shell(command)

            assert ran.reduced.startswith("git status: 4 in conflict, 9 modified.")
            listed = next(line for line in ran.reduced.split("\n") if line.startswith("First 5: "))
            assert all(name in listed for name in ("both.txt", "file_17.txt", "file_18.txt", "file_19.txt"))


@pytest.mark.slow
def test_submodules_count_as_modified_whatever_changed_in_them(
    shell: Shell, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    write(tmp_path / "inner", ["a.txt"], "text")
    shell("cd inner && git init -q -b main && git add . && git commit -qm inner", ok=True)
    shell("git init -q -b main outer", ok=True)
    outer = tmp_path / "outer"
    write(outer, [f"some/long/path/of/a/file_{n}.txt" for n in range(12)], "text")
    # A repository within one is a submodule to `git status`; `git submodule add` would take ten times as long.
    for name in ("moved_submodule", "dirty_submodule", "littered_submodule"):
        shutil.copytree(tmp_path / "inner", outer / name)
    shell("cd outer && git add . 2>/dev/null && git commit -qm outer", ok=True)
    shell("cd outer/moved_submodule && git commit --allow-empty -qm further", ok=True)
    write(outer, ["dirty_submodule/a.txt"], "changed")
    write(outer, ["littered_submodule/b.txt"], "new")
    write(outer, [f"some/long/path/of/a/file_{n}.txt" for n in range(12)], "changed")

    for command in FORMATS:
        with subtests.test(command=command):
            ran = shell(f"cd outer && {command}", called=command)

            assert ran.reduced.startswith("git status: 15 modified.")


def test_a_detached_head_is_shown_in_gits_own_words(shell: Shell, repository: Path, subtests: pytest.Subtests) -> None:
    shell("git switch -q --detach", ok=True)

    for command in ["git status", "git status -sb", "git status --porcelain=v2 --branch"]:
        with subtests.test(command=command):
            ran = shell(command)

            said = next(line for line in ran.text.split("\n") if "HEAD" in line or "detached" in line)
            assert said in ran.reduced
            assert "7 modified" in ran.reduced


def test_states_and_distances_are_shown_in_gits_own_words(shell: Shell, repository: Path) -> None:
    shell("git commit -qam more && git branch -q upstream HEAD~1 && git branch -q -u upstream", ok=True)

    ran = shell("git status")

    assert "Your branch is ahead of 'upstream' by 1 commit." in ran.reduced
    assert ran.reduced.startswith("git status: 6 untracked.")


def test_a_stopped_rebase_is_shown(shell: Shell, tmp_path: Path) -> None:
    write(tmp_path, ["a.txt"], "base")
    shell("git init -q -b main && git add . && git commit -qm base && git switch -qc side", ok=True)
    write(tmp_path, ["a.txt"], "side")
    shell("git commit -qam side && git switch -q main", ok=True)
    write(tmp_path, ["a.txt"], "main")
    shell("git commit -qam main", ok=True)
    assert shell("git rebase side").exit_code != 0

    ran = shell("git status")

    assert ran.reduced.startswith("git status: 1 in conflict.")
    assert "rebase in progress" in ran.reduced
    assert "You are currently rebasing branch 'main'" in ran.reduced


def test_a_new_repository_says_that_it_has_no_commits(shell: Shell, tmp_path: Path) -> None:
    write(tmp_path, [f"file_{n}.txt" for n in range(20)], "text")
    shell("git init -q -b main && git add file_1.txt", ok=True)

    ran = shell("git status")

    assert ran.reduced.startswith("git status: 1 added, 19 untracked, 1 staged.\nOn branch main\nNo commits yet\n")


@pytest.mark.slow
def test_ignored_files_are_counted_apart(shell: Shell, repository: Path, subtests: pytest.Subtests) -> None:
    write(repository, [".gitignore", "build.log", "other.log"], "*.log\n#")

    for command in FORMATS:
        with subtests.test(command=command):
            ran = shell(f"{command} --ignored")

            assert "7 untracked" in ran.reduced.split("\n")[0]
            assert "2 ignored" in ran.reduced.split("\n")[0]


def test_outside_a_repository_the_error_stays(shell: Shell, subtests: pytest.Subtests) -> None:
    for command in FORMATS:
        with subtests.test(command=command):
            ran = shell(command, env={"GIT_CEILING_DIRECTORIES": "/"})

            assert "not a git repository" in ran.text
            assert ran.reduced == ran.text


@pytest.mark.usefixtures("repository")
def test_a_status_with_a_line_that_is_not_understood_stays(shell: Shell, subtests: pytest.Subtests) -> None:
    for command in FORMATS:
        with subtests.test(command=command):
            text = shell(command).text

            for strange in ("\tstrange", "\tmodified: strange", "fatal: strange"):
                assert summarise_git_status(f"{text}{strange}\n") is None


@pytest.mark.usefixtures("repository")
def test_a_status_trimmed_by_the_terminal_is_still_counted_right(shell: Shell, subtests: pytest.Subtests) -> None:
    for command in ["git status -s", "git status --porcelain"]:
        with subtests.test(command=command):
            text = shell(command).text

            assert (summarise_git_status(text.strip()) or "").startswith("git status: 7 modified, 4 added, 6 untracked")


def test_untracked_names_in_columns_are_not_counted(shell: Shell, tmp_path: Path) -> None:
    write(tmp_path, [f"f{n}" for n in range(40)], "text")
    shell("git init -q", ok=True)

    ran = shell("git -c column.status=always,dense status")

    assert ran.reduced == ran.text


def test_a_status_in_another_language_or_with_a_diff_stays(shell: Shell, repository: Path) -> None:
    ran = shell("git status -v")

    assert "diff --git" in ran.text
    assert ran.reduced == ran.text


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "  git   status -s ",
        "git -C some/folder status",
        "git -c color.ui=never --no-pager status --porcelain",
        "/usr/bin/git status",
        "GIT_PAGER=cat git status",
        "git status 2>&1",
        "git status -- 'a folder'",
    ],
)
def test_a_line_that_is_a_git_status_is_known(command: str) -> None:
    assert is_git_status(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "git",
        "git log",
        "git stash",
        "git status && make",
        "make; git status",
        "git status\nmake",
        "git status | head",
        "git status > out.txt",
        "git status & make",
        "git status $(make)",
        "git status `make`",
        "echo git status",
        "echo 'git status'",
        "git commit -m 'git status'",
        "git log status",
        "mygit status",
        "git status 'unfinished",
        "(git status)",
    ],
)
def test_a_line_that_is_more_or_less_than_a_git_status_is_not_taken_for_one(command: str) -> None:
    assert not is_git_status(command)


@pytest.mark.usefixtures("repository")
def test_output_of_other_commands_of_a_line_is_not_hidden(shell: Shell) -> None:
    ran = shell("git status --short && echo all is well")

    assert ran.reduced == ran.text


@pytest.mark.slow
def test_of_very_many_paths_the_first_are_named_and_the_others_counted(shell: Shell, tmp_path: Path) -> None:
    write(tmp_path, [f"folder/file_{n:03}.txt" for n in range(300)], "text")
    shell("git init -q && git add . && git commit -qm start", ok=True)
    write(tmp_path, [f"folder/file_{n:03}.txt" for n in range(300)], "changed")

    for command in ("git status", "git status -s", "git status --porcelain=v2 -z"):
        reduced = shell(command).reduced
        assert reduced.startswith("git status: 300 modified.")
        assert "file_049.txt" in reduced
        assert "file_050.txt" not in reduced
        assert "(and 250 more)" in reduced
