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

LEFT: dict[str, int] = {
    "CHANGELOG.md": 18,
    "docs/anthropic.md": 2,
    "docs/artifacts.md": 4,
    "docs/bedrock.md": 2,
    "docs/bridges.md": 5,
    "docs/command.md": 1,
    "docs/configuration.md": 3,
    "docs/decisions/2026-11-15-booleans-are-no-numbers.md": 3,
    "docs/decisions/2026-11-15-requirements-lock.md": 1,
    "docs/decisions/2026-11-16-mcp-outside-bridges.md": 1,
    "docs/decisions/2026-11-16-outcomes-do-not-wait-for-the-disk.md": 2,
    "docs/decisions/2026-11-16-telemetry-ring.md": 4,
    "docs/decisions/index.md": 1,
    "docs/demo.md": 6,
    "docs/execution.md": 5,
    "docs/files.md": 2,
    "docs/frameworks.md": 8,
    "docs/gates.md": 3,
    "docs/gateway.md": 4,
    "docs/gemini.md": 2,
    "docs/identity.md": 1,
    "docs/index.md": 1,
    "docs/journal.md": 4,
    "docs/kit.md": 3,
    "docs/mcp-client.md": 7,
    "docs/mcp-dialect.md": 3,
    "docs/media.md": 4,
    "docs/network.md": 1,
    "docs/openai.md": 5,
    "docs/process.md": 1,
    "docs/reducers.md": 2,
    "docs/registry.md": 2,
    "docs/secrets.md": 4,
    "docs/security.md": 6,
    "docs/stash.md": 2,
    "docs/storage.md": 3,
    "docs/telemetry.md": 4,
    "docs/testing.md": 6,
    "docs/tools.md": 1,
    "docs/trust.md": 5,
}
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
