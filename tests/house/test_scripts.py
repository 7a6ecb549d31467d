"""The scripts and templates of the page are typed, small, and never turn text into markup or code."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = "src/spindle/inspector"
MAX_SCRIPT_LINES = 400
FIRST_LINE = "// @ts-check"

MARKUP_FROM_TEXT = re.compile(
    r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|setHTMLUnsafe|setHTML|createContextualFragment|DOMParser|srcdoc)\b"
    r"|\bdocument\s*\.\s*write(?:ln)?\b"
)
CODE_FROM_TEXT = re.compile(
    r"\beval\s*\(|\bnew\s+Function\b|\bset(?:Timeout|Interval)\s*\(\s*[\"'`]|javascript:", re.IGNORECASE
)
INLINE_STYLE = re.compile(r"setAttribute\(\s*[\"'`]style[\"'`]|\bcssText\b|\bstyle\s*:\s*[\"'`]")
INLINE_HANDLER = re.compile(r"setAttribute\(\s*[\"'`]on\w+[\"'`]", re.IGNORECASE)
FOREIGN_ADDRESS = re.compile(r"(?:https?:)?//(?!www\.w3\.org/(?:2000/svg|1999/xhtml|1999/xlink)\b)[\w-]+\.[\w.-]+")
IN_MARKUP = re.compile(
    r"\sstyle\s*=|\son\w+\s*=|<style\b|<script\b(?![^>]*\ssrc=)|\|\s*safe\b|autoescape\s+false|javascript:"
    r"|<base\b|<iframe\b|<object\b|<embed\b",
    re.IGNORECASE,
)
IN_STYLES = re.compile(r"@import\b|url\(\s*[\"']?(?!#)|expression\(", re.IGNORECASE)
COMMENTS = re.compile(r"/\*.*?\*/|^\s*//.*?$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def scripts(root: Path) -> list[Path]:
    """Return the scripts of the page."""
    found = sorted((root / PAGE / "static").rglob("*.js"))
    assert found
    return found


@pytest.fixture(scope="module")
def templates(root: Path) -> list[Path]:
    """Return the templates of the page."""
    found = sorted(path for path in (root / PAGE / "templates").rglob("*") if path.is_file())
    assert found
    return found


def places(pattern: re.Pattern[str], files: list[Path], *, comments: bool = False) -> list[str]:
    """Return where a pattern occurs, by default outside of comments."""
    return list(_places(pattern, files, comments=comments))


def _places(pattern: re.Pattern[str], files: list[Path], *, comments: bool) -> Iterator[str]:
    for path in files:
        text = path.read_text(encoding="utf-8")
        if not comments:
            text = COMMENTS.sub(lambda comment: "\n" * comment[0].count("\n"), text)
        for hit in pattern.finditer(text):
            yield f"{path.name}:{text.count(chr(10), 0, hit.start()) + 1}: {hit[0]}"


def test_every_script_is_checked_by_its_types(scripts: list[Path]) -> None:
    unchecked = [path.name for path in scripts if path.read_text(encoding="utf-8").split("\n", 1)[0] != FIRST_LINE]

    assert not unchecked, f"these must start with {FIRST_LINE!r}"
    assert not places(re.compile(r"@ts-(?:nocheck|ignore)\b"), scripts, comments=True)


def test_no_script_is_too_long(scripts: list[Path]) -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in scripts}

    assert not {name: count for name, count in lines.items() if count > MAX_SCRIPT_LINES}


@pytest.mark.parametrize("pattern", [MARKUP_FROM_TEXT, CODE_FROM_TEXT, INLINE_STYLE, INLINE_HANDLER, FOREIGN_ADDRESS])
def test_no_script_turns_text_into_markup_or_code(pattern: re.Pattern[str], scripts: list[Path]) -> None:
    assert not places(pattern, scripts)


def test_no_template_has_inline_code_or_styles(templates: list[Path]) -> None:
    assert not places(IN_MARKUP, templates)
    assert not places(FOREIGN_ADDRESS, templates)


def test_no_style_sheet_loads_anything(root: Path) -> None:
    sheets = sorted((root / PAGE / "static").rglob("*.css"))

    assert sheets
    assert not places(IN_STYLES, sheets)


def test_the_page_loads_every_style_sheet(root: Path) -> None:
    template = (root / PAGE / "templates" / "page.html").read_text(encoding="utf-8")
    sheets = {path.name for path in (root / PAGE / "static").glob("*.css")}

    assert {name for name in sheets if f"/static/{name}" not in template} == set()


def test_the_page_has_no_other_kinds_of_files(root: Path) -> None:
    found = {path.suffix for path in (root / PAGE / "static").rglob("*") if path.is_file()}

    assert found <= {".js", ".css", ".svg"}


@pytest.mark.parametrize("name", ["page", "servers"])
def test_npm_packages_are_pinned_by_a_lock_without_a_registry(name: str, root: Path) -> None:
    folder = root / ".ci" / "npm" / name
    wanted = json.loads((folder / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    packages = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]

    assert all(re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", version) for version in wanted.values())
    assert packages[""]["devDependencies"] == wanted
    installed = {key: value for key, value in packages.items() if key}
    assert not [key for key, value in installed.items() if "resolved" in value or "integrity" not in value]
    assert not [key for key, value in installed.items() if value.get("hasInstallScript")]


EVASIONS = [
    (MARKUP_FROM_TEXT, "node.innerHTML = text"),
    (MARKUP_FROM_TEXT, "document . write(text)"),
    (CODE_FROM_TEXT, "setTimeout('run()', 1)"),
    (CODE_FROM_TEXT, "link.href = `JavaScript:${text}`"),
    (INLINE_STYLE, 'h("p", { style: "color: red" })'),
    (INLINE_HANDLER, "node.setAttribute('onclick', text)"),
    (FOREIGN_ADDRESS, 'import "https://example.com/x.js"'),
    (FOREIGN_ADDRESS, 'fetch("//example.com")'),
    (IN_MARKUP, "<script>run()</script>"),
    (IN_MARKUP, "<p onclick=x>"),
    (IN_MARKUP, "{{ text | safe }}"),
    (IN_STYLES, "body { background: url(https://example.com/x.png) }"),
]


@pytest.mark.parametrize(("pattern", "text"), EVASIONS)
def test_a_forbidden_text_is_found(pattern: re.Pattern[str], text: str, tmp_path: Path) -> None:
    file = tmp_path / "sample.js"
    file.write_text(f"// innerHTML in a comment\n{text}\n", encoding="utf-8")

    assert [place.split(":")[1] for place in places(pattern, [file])] == ["2"]
