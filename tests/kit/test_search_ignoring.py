"""Ignore files, against what git itself leaves out."""

import shutil
import subprocess
from pathlib import Path

import pytest

from spindle.kit.search import IgnoreRules, compile_patterns
from tests.bounds import bounded_cpu

RULES = "\n".join(
    [
        "# comment",
        "*.log",
        "!keep.log",
        "/top.txt",
        "build/",
        "docs/*.tmp",
        "**/deep/x",
        "a/**/z",
        "\\#odd",
        "sp ace",
        "é*",
    ]
)
PATHS = [
    "a.log",
    "keep.log",
    "sub/keep.log",
    "top.txt",
    "sub/top.txt",
    "build/x",
    "sub/build/y",
    "docs/a.tmp",
    "docs/sub/a.tmp",
    "deep/x",
    "q/deep/x",
    "a/z",
    "a/b/c/z",
    "#odd",
    "sp ace",
    "été",
    "plain.py",
]


def left_out(ignoring: IgnoreRules, path: str) -> bool:
    """Ask for each folder on the way, as a walk does."""
    parts = path.split("/")
    folders = ["/".join(parts[: count + 1]) for count in range(len(parts) - 1)]
    return any(ignoring.is_ignored(folder, is_folder=True) for folder in folders) or ignoring.is_ignored(
        path, is_folder=False
    )


def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed here; there is nothing to compare with")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text(RULES)
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    asked = subprocess.run(
        ["git", "-c", "core.quotePath=false", "-c", "core.excludesFile=", "check-ignore", "--no-index", "--stdin"],
        cwd=tmp_path,
        input="\n".join(PATHS).encode(),
        stdout=subprocess.PIPE,
        check=False,
    )

    ignoring = IgnoreRules().extend(".", {".gitignore": RULES})

    assert [path for path in PATHS if left_out(ignoring, path)] == asked.stdout.decode().splitlines()


def test_the_nearest_rule_and_the_more_special_file_have_the_last_word() -> None:
    above = IgnoreRules().extend(".", {".gitignore": "*.txt\n!b.txt\n"})
    below = above.extend("sub", {".gitignore": "!a.txt\n", ".ignore": "b.txt\n"})

    assert above.is_ignored("sub/a.txt", is_folder=False)
    assert not below.is_ignored("sub/a.txt", is_folder=False)
    assert below.is_ignored("sub/b.txt", is_folder=False)


def test_repositories_are_always_left_out() -> None:
    assert IgnoreRules().is_ignored("sub/.git", is_folder=True)
    assert not IgnoreRules().is_ignored("sub/.github", is_folder=True)


def test_broken_patterns_count_for_nothing() -> None:
    spec = compile_patterns(["!", "/", "*.log", "[", "x" * 5_000, "\ud800", "a[b-"])

    assert spec.check_file("a.log").include
    assert spec.check_file("plain").include is None


def test_a_hostile_pattern_takes_no_time() -> None:
    spec = compile_patterns(["*a" * 40 + "b"])

    with bounded_cpu():
        assert spec.check_file("a" * 255).include is None


def test_a_name_that_is_no_text_can_be_asked_for() -> None:
    assert not IgnoreRules().extend(".", {".gitignore": "*.log"}).is_ignored("\udcff.txt", is_folder=False)
