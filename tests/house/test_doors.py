"""Every package has a door, and code outside of a package imports from it."""

import ast
import importlib
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.sources import parse_text, walk_statements

PUBLIC_MODULES = {
    "spindle.blocking",
    "spindle.bridges.frameworks.langchain",
    "spindle.bridges.frameworks.langgraph",
    "spindle.bridges.frameworks.openai_agents",
    "spindle.bridges.frameworks.pydantic_ai",
    "spindle.bridges.mcp",
    "spindle.bridges.openai.chat_completions",
    "spindle.bridges.openai.responses_api",
    "spindle.calls",
    "spindle.capabilities.declare",
    "spindle.events",
    "spindle.journal.backends.postgres",
    "spindle.stash",
    "spindle.tools.identity",
    "spindle.trust.envelope",
    "spindle.trust.sanitise",
    "spindle.turns.context",
}
"""Modules that are documented under their own path."""

BEHIND_THE_DOOR = {
    "spindle.cli.commands.journal",
    "spindle.concurrency",
    "spindle.extras",
}
"""Modules that tests of other packages and benchmarks still import directly. This list only shrinks."""


def packages(root: Path) -> list[str]:
    source = root / "src"
    return sorted(".".join(path.parent.relative_to(source).parts) for path in source.rglob("__init__.py"))


def offered(package: str) -> list[str]:
    return list(getattr(importlib.import_module(package), "__all__", []))


def imports(code: str) -> Iterator[tuple[str, str]]:
    """Yield the modules of ours and the names that `code` imports."""
    for node in walk_statements(parse_text(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "spindle":
            yield from ((node.module, alias.name) for alias in node.names)


def imported_modules(code: str) -> set[str]:
    """Return the modules of ours that `code` imports from, or seems to: texts are not distinguished."""
    return set(re.findall(r"\bfrom +(spindle[\w.]*) +import\b", code))


def is_allowed(module: str, name: str, doors: set[str]) -> bool:
    return module in doors or module in PUBLIC_MODULES or f"{module}.{name}" in PUBLIC_MODULES


def test_a_door_offers_each_name_and_none_is_hidden_by_a_submodule(root: Path) -> None:
    hidden = [
        f"{package}.{name}"
        for package in packages(root)
        for name in offered(package)
        if isinstance(getattr(importlib.import_module(package), name), ModuleType)
    ]

    assert hidden == ["spindle.errors"]


def test_a_door_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match=r"module 'spindle\.tools' has no attribute 'nothing'"):
        _ = importlib.import_module("spindle.tools").nothing


def test_documentation_imports_from_doors_only(root: Path) -> None:
    doors = set(packages(root))
    wrong = [
        f"{page.name}: {module}"
        for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        for module, name in imports(imports_of(block))
        if not is_allowed(module, name, doors)
    ]

    assert not wrong


def imports_of(block: str) -> str:
    """The import lines of an example, which may await at its top level."""
    return textwrap.dedent("\n".join(re.findall(r"^from spindle[\w.]* import [^(\n]+$", block, re.MULTILINE)))


def test_tests_benchmarks_and_examples_import_other_packages_through_their_doors(root: Path) -> None:
    doors = set(packages(root))
    wrong: set[str] = set()
    for path in (path for folder in ("tests", "benchmarks", "examples") for path in (root / folder).rglob("*.py")):
        place = path.relative_to(root).parts
        own = place[1] if place[0] == "tests" and len(place) > 2 else path.stem.removeprefix("test_")
        text = path.read_text(encoding="utf-8")
        modules = imported_modules(text) - doors
        if all(module.split(".")[1:2] in ([], [own]) for module in modules):
            continue  # parsing takes ten times as long
        wrong |= {
            f"{path.relative_to(root)}: {module}"
            for module, name in imports(text)
            if module.split(".")[1:2] not in ([], [own]) and not is_allowed(module, name, doors)
            if module not in BEHIND_THE_DOOR
        }

    assert not wrong
