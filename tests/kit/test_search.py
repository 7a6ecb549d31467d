"""Searching a real tree."""

from pathlib import Path

import pytest

from spindle.errors import ArtifactQueryError
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


async def test_hits_are_told_by_path_line_and_text(tree: Path) -> None:
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


async def test_what_is_out_of_reach_is_not_searched(tree: Path) -> None:
    result = await Workshop(tree, read=["src"]).ok("search_files", pattern="find_me", path="src")
    error = await Workshop(tree, read=["src"]).err("search_files", pattern="find_me")

    assert len(result.structured["hits"]) == 2
    assert "a.py" not in error.error
