"""Docstrings, messages, comments, test names and documentation are written in plain engineering English."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import parse_text

WORDS = (
    *("told", "untold", "whoever", "whomever", "somebody", "nobody", "stranger", "strangers", "be had", "so many"),
    *("so much as", "witness", "witnesses", "who leaves", "who asks", "who comes", "who gives", "who says"),
    "what is none",
)
NEGATIONS = ("is no", "are no", "was no", "were no")
MARKS = (*WORDS, *(f"{words} " for words in NEGATIONS))
DIALECT = re.compile(rf"\b({'|'.join(WORDS)})\b|\b({'|'.join(NEGATIONS)}) [a-z]+\b", re.IGNORECASE)
"""Words of a private dialect. Use the words of docs/glossary.md, or the field's own."""

PLAIN = re.compile(
    r"\b(there|it) (is|are|was|were) no\b|\b(is|are|was|were) no (longer|more|other|limit)\b", re.IGNORECASE
)

CODE = ("src", "benchmarks", "examples", ".ci")
SETTINGS = (
    "Makefile",
    "mkdocs.yml",
    "pyproject.toml",
    ".pre-commit-config.yaml",
    ".ci/run",
    ".ci/servers",
    ".ci/pythons",
)


def comments(text: str) -> Iterator[str]:
    """Yield the comments of a module, if one of them may have a dialect word: finding them takes long."""
    if any(has_mark(line.partition("#")[2].lower()) for line in text.splitlines()):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.string


def has_mark(text: str) -> bool:
    """Return whether a dialect word may be part of a text in lower case."""
    return any(word in text for word in MARKS)


def prose_of_code(text: str) -> Iterator[str]:
    """Yield the docstrings, messages and comments of a module."""
    for node in ast.walk(parse_text(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
    yield from comments(text)


def prose_of_test(text: str) -> Iterator[str]:
    """Yield the docstrings, comments and names of a test module; its other strings are data."""
    for node in ast.walk(parse_text(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                yield docstring
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name.replace("_", " ")
            case _:
                continue
    yield from comments(text)


def prose_of_page(text: str) -> str:
    """Return a page without its examples and their output."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def find_dialect(text: str) -> list[str]:
    """Return the dialect words of a text."""
    return [match[0] for match in DIALECT.finditer(PLAIN.sub("", text))]


def may_have_dialect(text: str) -> bool:
    """Return whether the prose of a module can hold a dialect word: most cannot, and parsing them all takes seconds."""
    lowered = text.lower().replace("_", " ")
    joined = re.sub(r"\"[\s\\]*[a-z]{0,2}\"|'[\s\\]*[a-z]{0,2}'", "", lowered)  # literals that Python joins
    return has_mark(lowered) or has_mark(joined)


def prose(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the prose of every file that has to be plain."""
    for folder in CODE:
        for path in sorted((root / folder).rglob("*.py")):
            if may_have_dialect(text := path.read_text(encoding="utf-8")):
                yield path, "\n".join(prose_of_code(text))
    for path in sorted((root / "tests").rglob("*.py")):
        if may_have_dialect(text := path.read_text(encoding="utf-8")):
            yield path, "\n".join(prose_of_test(text))
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.md")]):
        yield path, prose_of_page(path.read_text(encoding="utf-8"))
    for name in SETTINGS:
        yield root / name, (root / name).read_text(encoding="utf-8")


def test_prose_uses_plain_words(root: Path) -> None:
    found = {path.relative_to(root).as_posix(): words for path, text in prose(root) if (words := find_dialect(text))}

    assert found == {}


def test_a_dialect_word_is_found_in_prose_and_ignored_in_examples() -> None:
    module = '"""Be told of it."""\nx = 1  # nobody knows\n'
    test = 'def test_it_is_told() -> None:\n    """Be had."""\n    x = "told of data"  # whoever\n'
    page = "A set is no list. There is no list. `told`\n```python\ntold = 1\n```\n"

    joined = 'x = "a set is "\\\n    f"no list"\n'

    assert all(map(may_have_dialect, (module, test, joined, "def who_asks() -> None: ...")))
    assert not may_have_dialect("def test_a_set() -> None: ...")
    assert find_dialect("\n".join(prose_of_code(module))) == ["told", "nobody"]
    assert sorted(find_dialect("\n".join(prose_of_test(test)))) == ["Be had", "told", "whoever"]
    assert find_dialect(prose_of_page(page)) == ["is no list"]
