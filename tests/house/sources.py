"""The modules of the repository, parsed once for all house tests of a process."""

import ast
import gc
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")

INDENTED_IMPORT = r"(^[ \t]+|[;:][ \t]*)from\s+spindle\b"
"""Occurs in every module that imports one of ours below its top level."""


def parse_text(text: str) -> ast.Module:
    """Parse a module; the collector would look at all nodes again and again meanwhile, and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if was_enabled:
            gc.enable()


@cache
def parse(path: Path) -> ast.Module:
    """Return the tree of a module of `src`, which most house tests look at; callers must not change it."""
    return parse_text(path.read_text(encoding="utf-8"))


def parse_matching(paths: Iterable[Path], pattern: str) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules whose text the pattern occurs in, and their trees: parsing all of them takes seconds."""
    regex = re.compile(pattern, re.MULTILINE)
    for path in sorted(paths):
        if regex.search(path.read_text(encoding="utf-8")):
            yield path, parse(path)


def walk_statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield every statement below a node, without looking into expressions, which hold none."""
    todo = [tree]
    while todo:
        node = todo.pop()
        for name in _BLOCKS:
            for each in getattr(node, name, ()):
                todo.append(each)
                if isinstance(each, ast.stmt):
                    yield each
