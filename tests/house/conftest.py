"""Fixtures of the house tests: the repository's folder and its files."""

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.authorities import trust_one_authority

__all__ = ["ROOT", "own_files", "root", "trust_one_authority"]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the repository's folder."""
    return ROOT


@pytest.fixture(scope="session")
def own_files() -> list[Path]:
    """Return every file that git would track."""
    return sorted(_own_files())


def _own_files() -> Iterator[Path]:
    # Reads .gitignore instead of calling git: an unpacked source archive must pass the same tests.
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    ignored = [".git", *(line.rstrip("/") for line in lines if line and not line.startswith("#"))]

    def kept(name: str) -> bool:
        return not any(fnmatch(name, pattern) for pattern in ignored)

    for folder, folders, names in os.walk(ROOT):
        folders[:] = filter(kept, folders)
        yield from (Path(folder, name) for name in names if kept(name))
