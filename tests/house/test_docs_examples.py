"""Every example of the documentation runs, in the order of its page, and prints the output on the page."""

import ast
import inspect
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import anyio.to_thread
import pytest
from markdown_it import MarkdownIt

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SLOW_PAGES = {ROOT / "docs" / "frameworks.md"}
"""Their examples load every agent framework, which takes longer than all other pages together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A ```python block and its expected output, the ```text block right after it."""

    first_line: int
    source: str
    printed: str | None


def examples(page: Path) -> Iterator[Example]:
    """Yield the examples of a page, in order."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    for token, following in pairwise([*tokens, None]):
        if token is None or token.type != "fence" or token.info != "python":
            continue
        assert token.map is not None
        printed = None
        if following is not None and following.type == "fence" and following.info == "text":
            printed = following.content
        yield Example(first_line=token.map[0] + 1, source=token.content, printed=printed)


async def run(example: Example, page: Path, space: dict[str, object]) -> str:
    """Run one example in the page's namespace; `await` is allowed at its top level."""
    source = "\n" * example.first_line + example.source  # so that a traceback names the page's own line
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = StringIO()
    with redirect_stdout(printed):
        if code.co_flags & inspect.CO_COROUTINE:
            await eval(code, space)
        else:
            # In a thread, where an example may start its own event loop, as a program would.
            await anyio.to_thread.run_sync(exec, code, space)
    return printed.getvalue()


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page in SLOW_PAGES else []) for page in PAGES],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
async def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("page")  # a real module, so that types declared in an example can be resolved by name
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.chdir(tmp_path)

    for example in examples(page):
        printed = await run(example, page, vars(module))
        if example.printed is not None:
            assert printed.rstrip() == example.printed.rstrip(), f"{page}, line {example.first_line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_example_is_exempt(page: Path) -> None:
    infos = [token.info for token in MarkdownIt().parse(page.read_text(encoding="utf-8")) if token.type == "fence"]

    assert not [info for info in infos if info.startswith("py") and info != "python"]


def test_the_readme_has_an_example() -> None:
    assert list(examples(ROOT / "README.md"))
