"""Modules and functions are small."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from textwrap import indent as indent_lines

from tests.house.sources import parse, parse_text, walk_statements

MAX_MODULE_LINES = 400
MAX_TEST_MODULE_LINES = 800
"""A module has one test file, so that its tests are found by its name."""
MAX_FUNCTION_LINES = 60

TOO_LONG: dict[str, int] = {}
"""Exceptions (`path` or `path::function`) and their own limits. This list only shrinks."""

_START = re.compile(r"^([ \t]*)(async def\b|def\b|class\b|@)|^[A-Za-z_]", re.MULTILINE)


def may_have_long_function(text: str) -> bool:
    """Return whether a function can be too long: most files have none, and parsing them all takes seconds.

    A function ends before the next definition that is not indented further, or the next statement of the module. Those
    that are part of a text end none: where one has a definition, the file is parsed.
    """
    if "'''" in text:
        return True
    begun: list[tuple[int, int]] = []
    line, is_in_text, seen = 1, False, 0
    for match in _START.finditer(text):
        between = text[seen : match.start()]
        line, is_in_text, seen = line + between.count("\n"), is_in_text ^ between.count('"""') % 2, match.start()
        if is_in_text:
            if match[2]:
                return True
            continue
        indent = len(match[1] or "")
        while begun and begun[-1][1] >= indent:
            if line - begun.pop()[0] > MAX_FUNCTION_LINES:
                return True
        if match[2] and match[2].endswith("def"):
            begun.append((line, indent))
    end = line + text.count("\n", seen)
    return any(end - first > MAX_FUNCTION_LINES for first, _ in begun)


@lru_cache
def measured(root: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, length and limit of each module and function."""
    return tuple(_measured(root))


def _measured(root: Path) -> Iterator[tuple[str, int, int]]:
    for folder in ("src", "tests", "benchmarks", "examples"):
        for path in sorted((root / folder).rglob("*.py")):
            name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
            yield name, len(text.splitlines()), MAX_TEST_MODULE_LINES if folder == "tests" else MAX_MODULE_LINES
            if not may_have_long_function(text):
                continue
            tree = parse(path) if folder == "src" else parse_text(text)
            for node in walk_statements(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    assert node.end_lineno is not None
                    yield f"{name}::{node.name}", node.end_lineno - node.lineno + 1, MAX_FUNCTION_LINES


def test_no_module_and_no_function_is_too_long(root: Path) -> None:
    over = {name: lines for name, lines, most in measured(root) if lines > TOO_LONG.get(name, most)}

    assert not over, f"split these (name: lines): {over}"


def test_long_functions_are_found_before_files_are_parsed() -> None:
    short, long = ("def f() -> None:\n" + "    x = 1\n" * lines for lines in (59, 60))
    with_text = 'def f() -> None:\n    x = """\ndef g(): ...\n"""\n' + "    x = 1\n" * 58

    assert not may_have_long_function(f"{short}x = (\n{'    1,' * 99}\n)\n{short}")
    for text in (long, f"{long}x = 1\n", f"class A:\n{indent_lines(long, '    ')}\n{short}", with_text):
        assert may_have_long_function(text)


def test_every_exception_is_still_needed(root: Path) -> None:
    over = {name for name, lines, most in measured(root) if lines > most}

    assert TOO_LONG.keys() <= over, "these are short enough now; take them off the list"
