"""The examples of the README and of the documentation have no type errors, as a user's checkers report them."""

import ast
import inspect
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.house.test_docs_examples import PAGES, ROOT, examples
from tests.house.type_checkers import run_mypy, run_pyright

README = ROOT / "README.md"


def write_modules(pages: Iterable[Path], folder: Path, *, root: Path = ROOT) -> None:
    """Write the examples of each page as one module, on the lines that they have on the page."""
    for page in pages:
        found = list(examples(page))
        if not found:
            continue
        code = compile(
            "\n".join(each.source for each in found), str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        awaits = bool(code.co_flags & inspect.CO_COROUTINE)
        lines = [""] * len(page.read_text(encoding="utf-8").splitlines())
        for example in found:
            source = example.source.splitlines()
            lines[example.first_line : example.first_line + len(source)] = [
                f"    {line}" if awaits else line for line in source
            ]
        if awaits:  # checkers accept `await` only in a function; the first line of a page is its title
            lines[0] = "async def page() -> None:"
        name = page.relative_to(root).with_suffix("").as_posix()
        module = folder / f"{name.replace('/', '_').replace('-', '_')}.py"
        module.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.slow  # half a minute of processor time
def test_pyright_finds_no_error_in_the_examples(tmp_path: Path) -> None:
    write_modules(PAGES, tmp_path)

    assert run_pyright(tmp_path, mode="standard") == []


@pytest.mark.slow  # mypy reads pydantic and anyio first: several seconds
def test_strict_mypy_finds_no_error_in_the_examples_of_the_readme(tmp_path: Path) -> None:
    write_modules([README], tmp_path)

    assert run_mypy(tmp_path, options=["--strict"]) == []


@pytest.mark.slow  # mypy reads every SDK and agent framework that an example imports: about a minute
@pytest.mark.timeout(900)
def test_mypy_finds_no_error_in_the_examples(tmp_path: Path) -> None:
    write_modules(PAGES, tmp_path)

    assert run_mypy(tmp_path, options=["--check-untyped-defs"]) == []


@pytest.mark.slow  # starts both checkers, as the tests before it
def test_errors_are_reported_with_the_lines_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\ndone: int = await undefined()\ndone = 'text'\n```\n", encoding="utf-8")

    write_modules([page], tmp_path, root=tmp_path)

    for errors in (run_pyright(tmp_path, mode="standard"), run_mypy(tmp_path, options=[])):
        assert [error.split(": ")[0] for error in errors] == ["page.py:4", "page.py:5"]
