"""Docstrings, messages and documentation are written in plain engineering English."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

DIALECT = re.compile(
    r"\b(told|untold|whoever|whomever|somebody|nobody|strangers?'?|be had|so many|so much as|witness(es)?"
    r"|who (leaves|asks|comes|gives|says)|what is none)\b"
    r"|\b(is|are|was|were) no [a-z]+\b",
    re.IGNORECASE,
)
"""Words of a private dialect: each has a plain word in docs/glossary.md or in STYLE."""

PLAIN = re.compile(
    r"\b(there|it) (is|are|was|were) no\b|\b(is|are|was|were) no (longer|more|other|limit)\b", re.IGNORECASE
)

LEFT: dict[str, int] = {}
"""How many such words each file still has. The numbers only go down."""


def prose_of_code(text: str) -> Iterator[str]:
    """The docstrings and messages of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def prose_of_page(text: str) -> str:
    """A page without its examples and their output."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def count(text: str) -> int:
    return sum(1 for _ in DIALECT.finditer(PLAIN.sub("", text)))


def found(root: Path) -> dict[str, int]:
    """The number of dialect words in each file that has any."""
    numbers: dict[str, int] = {}
    for path in sorted((root / "src").rglob("*.py")):
        numbers[path.relative_to(root).as_posix()] = count("\n".join(prose_of_code(path.read_text(encoding="utf-8"))))
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    for path in sorted(pages):
        numbers[path.relative_to(root).as_posix()] = count(prose_of_page(path.read_text(encoding="utf-8")))
    return {name: number for name, number in numbers.items() if number}


def test_prose_uses_plain_words(root: Path) -> None:
    worse = {name: number for name, number in found(root).items() if number > LEFT.get(name, 0)}

    assert not worse, f"rewrite the sentences with {DIALECT.pattern!r}"


def test_the_list_of_exceptions_shrinks_with_the_words(root: Path) -> None:
    numbers = found(root)

    assert {name: number for name, number in LEFT.items() if numbers.get(name, 0) < number} == {}
