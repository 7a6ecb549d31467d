"""Searching a real tree."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts import compile_pattern
from spindle.errors import ArtifactQueryError
from spindle.kit.search import MAX_LINE_CHARS, IgnoreRules, compile_patterns, find_matches
from tests.bounds import bounded_cpu
from tests.kit.calling import Workshop

pytestmark = pytest.mark.anyio


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path, text in {
        "a.py": "import os\n\ndef find_me():\n    pass\n",
        "src/b.py": "find_me()\nFind_Me()\n",
        "src/c.ts": "find_me();\n",
        "build/d.py": "find_me()\n",
        "node_modules/x/e.js": "find_me()\n",
        ".git/config": "find_me\n",
        ".hidden/f.txt": "find_me\n",
        ".gitignore": "build/\nnode_modules\n*.log\n",
        "g.log": "find_me\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "h.bin").write_bytes(b"\0find_me\n")
    return tmp_path


async def hits(root: Path, **args: object) -> list[str]:
    result = await Workshop(root).ok("search_files", **args)
    return [f"{hit['path']}:{hit['line']}" for hit in result.structured["hits"]]


async def test_hits_show_path_line_and_text(tree: Path) -> None:
    result = await Workshop(tree).ok("search_files", pattern="find_me")

    assert result.value.split("\n") == [
        "a.py:3: def find_me():",
        ".hidden/f.txt:1: find_me",
        "src/b.py:1: find_me()",
        "src/c.ts:1: find_me();",
    ]
    assert result.structured["is_complete"]


async def test_a_search_is_narrowed_by_path_glob_and_case(tree: Path) -> None:
    assert await hits(tree, pattern="find_me", glob="*.py") == ["a.py:3", "src/b.py:1"]
    assert await hits(tree, pattern="find_me", glob="src/**") == ["src/b.py:1", "src/c.ts:1"]
    assert await hits(tree, pattern="find_me", path="src") == ["src/b.py:1", "src/c.ts:1"]
    assert await hits(tree, pattern="FIND_ME", ignore_case=True, path="src/b.py") == ["src/b.py:1", "src/b.py:2"]
    assert await hits(tree, pattern=r"^def \w+", path=".") == ["a.py:3"]


async def test_an_ignored_folder_is_searched_when_it_is_named(tree: Path) -> None:
    assert await hits(tree, pattern="find_me", path="build") == ["build/d.py:1"]
    assert await hits(tree, pattern="find_me", path="node_modules/x") == ["node_modules/x/e.js:1"]


async def test_ignore_files_count_from_their_folder_and_above(tree: Path) -> None:
    (tree / "src" / ".ignore").write_text("/c.ts\n")
    (tree / "src" / ".gitignore").write_text("!b.log\n")
    (tree / "src" / "b.log").write_text("find_me\n")

    assert await hits(tree, pattern="find_me", path="src") == ["src/b.log:1", "src/b.py:1"]


async def test_too_many_hits_are_cut_and_said_to_be(tree: Path) -> None:
    (tree / "many.txt").write_text("find_me\n" * 50)

    result = await Workshop(tree).ok("search_files", pattern="find_me", path="many.txt", limit=10)

    assert len(result.structured["hits"]) == 10
    assert not result.structured["is_complete"]
    assert "stopped after 10 hits" in result.value


async def test_nothing_found_says_what_was_searched(tree: Path) -> None:
    result = await Workshop(tree).ok("search_files", pattern="nowhere to be found")

    assert result.value == "No hits. 5 files searched; skipped: 1 binary."


async def test_a_pattern_of_another_dialect_is_refused(tree: Path) -> None:
    error = await Workshop(tree).err("search_files", pattern=r"(?<=a)b")

    assert (error.code, error.field) == ("input_invalid", "pattern")
    assert isinstance(error.cause, ArtifactQueryError)


async def test_a_path_that_is_not_there_is_an_error(tree: Path) -> None:
    assert (await Workshop(tree).err("search_files", pattern="x", path="gone")).code == "execution_failed"


async def test_files_out_of_reach_are_not_searched(tree: Path) -> None:
    result = await Workshop(tree, read=["src"]).ok("search_files", pattern="find_me", path="src")
    error = await Workshop(tree, read=["src"]).err("search_files", pattern="find_me")

    assert len(result.structured["hits"]) == 2
    assert "a.py" not in error.error


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


def test_files_ignored_by_git_are_left_out(tmp_path: Path) -> None:
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


def test_a_name_that_is_not_text_can_be_asked_for() -> None:
    assert not IgnoreRules().extend(".", {".gitignore": "*.log"}).is_ignored("\udcff.txt", is_folder=False)


@given(st.text("ab\n", max_size=40), st.sampled_from(["a", "b", "ab", "^a", "b$", "a.b", "a*", r"\Aa", r"b\z", "^$"]))
def test_each_line_is_found_once_with_its_number(text: str, pattern: str) -> None:
    import re

    python = re.compile(pattern.replace(r"\z", r"\Z"))
    lines = text.split("\n")
    expected = [number for number, line in enumerate(lines, 1) if python.search(line)]
    if text.endswith("\n") or not text:
        expected = [number for number in expected if number != len(lines)]

    assert [line for line, _ in find_matches(compile_pattern(pattern), text.encode())] == expected


@pytest.mark.parametrize("at", [0, 50, 5_000, 9_990])
def test_a_long_line_is_shown_round_its_match(at: int) -> None:
    line = "ü" * at + "needle" + "ü" * (10_000 - at)

    ((number, shown),) = find_matches(compile_pattern("needle"), line.encode())

    assert number == 1
    assert "needle" in shown
    assert len(shown) <= MAX_LINE_CHARS + 2
