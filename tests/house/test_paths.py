"""A path that a page names exists, and ARCHITECTURE.md names every package."""

import re
from collections.abc import Iterator
from pathlib import Path

SPAN = re.compile(r"`([^`\s]+)`")
PATH = re.compile(r"[\w.*-]*/[\w./*-]*|[\w*-]+\.(?:py|md|yml|toml)")
"""A relative path: with a slash, or with the ending of a file of ours."""

TEST_FILE = re.compile(r"`((?:tests|benchmarks|examples)/[\w./*-]+)`")


def named_paths(text: str) -> Iterator[tuple[str, str]]:
    """Yield the paths that a page names, each with the first path of its line, beside which it may be."""
    for line in text.splitlines():
        paths = [span for span in SPAN.findall(line) if PATH.fullmatch(span)]
        yield from ((path, paths[0]) for path in paths)


def exists(pattern: str, *folders: Path) -> bool:
    return any(any(folder.glob(pattern.rstrip("/"))) for folder in folders)


def test_every_path_in_the_architecture_exists(root: Path) -> None:
    text = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    source = root / "src" / "spindle"
    named = [(path, first) for path, first in named_paths(text) if path != "backends/"]  # a folder of several packages

    assert len(named) > 80
    assert [path for path, first in named if not exists(path, root, source, source / first)] == []


def test_the_architecture_names_every_package_and_module_at_the_top(root: Path) -> None:
    text = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    entries = [
        path for path in (root / "src" / "spindle").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    names = [path.name if path.suffix else f"{path.name}/" for path in entries]

    assert [name for name in sorted(names) if f"`{name}`" not in text and name != "__init__.py"] == []


def test_every_test_benchmark_and_example_named_in_the_documentation_exists(root: Path) -> None:
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    named = [(page, path) for page in pages for path in TEST_FILE.findall(page.read_text(encoding="utf-8"))]

    assert len(named) > 20
    assert [f"{page}: {path}" for page, path in named if not exists(path, root)] == []
