"""Modules and functions are small."""

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from tests.house.sources import parse, parse_text, walk_statements

MAX_MODULE_LINES = 400
MAX_TEST_MODULE_LINES = 800
"""A module has one test file, so that its tests are found by its name."""
MAX_FUNCTION_LINES = 60

TOO_LONG: dict[str, int] = {}
"""Exceptions (`path` or `path::function`) and their own limits. This list only shrinks."""


@lru_cache
def measured(root: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, length and limit of each module and function."""
    return tuple(_measured(root))


def _measured(root: Path) -> Iterator[tuple[str, int, int]]:
    for folder in ("src", "tests", "benchmarks", "examples"):
        for path in sorted((root / folder).rglob("*.py")):
            name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
            yield name, len(text.splitlines()), MAX_TEST_MODULE_LINES if folder == "tests" else MAX_MODULE_LINES
            tree = parse(path) if folder == "src" else parse_text(text)
            for node in walk_statements(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    assert node.end_lineno is not None
                    yield f"{name}::{node.name}", node.end_lineno - node.lineno + 1, MAX_FUNCTION_LINES


def test_no_module_and_no_function_is_too_long(root: Path) -> None:
    over = {name: lines for name, lines, most in measured(root) if lines > TOO_LONG.get(name, most)}

    assert not over, f"split these (name: lines): {over}"


def test_every_exception_is_still_needed(root: Path) -> None:
    over = {name for name, lines, most in measured(root) if lines > most}

    assert TOO_LONG.keys() <= over, "these are short enough now; take them off the list"
