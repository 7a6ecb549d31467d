"""Files that the repository must have, and texts that it must not contain."""

import re
import runpy
import sys
from pathlib import Path

import pytest

REQUIRED = [
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "pyproject.toml",
    "requirements.lock",
    "mkdocs.yml",
    ".pre-commit-config.yaml",
    ".ci/run",
    "docs/index.md",
    "docs/decisions/index.md",
    "src/spindle/py.typed",
]

VAGUE_NAMES = re.compile(r"(^|_)(utils?|helpers?|common|misc|managers?)($|_)")

MACHINE_FOLDERS = re.compile(r"(?<![\w.:/-])/(?:work|root|home|Users|opt|mnt)/[\w.-]+")
REGISTRY_HOSTS = re.compile(r"\b(?:pypi|pythonhosted|npmjs|anaconda|jfrog)\.(?:org|com|io|net)\b")


@pytest.mark.parametrize("name", REQUIRED)
def test_the_repository_has(name: str, root: Path) -> None:
    assert (root / name).is_file()


def test_the_changelog_has_a_section_for_unreleased_changes(root: Path) -> None:
    assert "## Unreleased" in (root / "CHANGELOG.md").read_text(encoding="utf-8")


def found(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    """Return the places where `pattern` occurs in text files."""
    places: list[str] = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        places += [f"{path}:{text.count(chr(10), 0, hit.start()) + 1}: {hit[0]}" for hit in pattern.finditer(text)]
    return places


def test_no_file_names_a_folder_of_one_machine(root: Path, own_files: list[Path]) -> None:
    # The system's Python has the same folder on every machine, so scripts may name it.
    places = {str(root), sys.base_prefix} - {"/usr", "/usr/local"}
    here = re.compile("|".join(re.escape(f"{place}/") for place in sorted(places)))

    assert not found(MACHINE_FOLDERS, own_files)
    assert not found(here, own_files)


def test_no_file_names_the_host_of_a_package_registry(own_files: list[Path]) -> None:
    assert not found(REGISTRY_HOSTS, own_files)


def test_no_module_has_a_vague_name(root: Path) -> None:
    modules = [path for folder in ("src", "benchmarks", "examples") for path in sorted((root / folder).rglob("*.py"))]

    assert not [path for path in modules if VAGUE_NAMES.search(path.stem)]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="signatures are printed differently by other Pythons")
def test_the_reference_of_public_names_is_up_to_date(root: Path) -> None:
    program = runpy.run_path(
        str(root / ".ci" / "names.py")
    )  # here, where the packages are loaded: an import of all takes seconds

    assert (root / "docs" / "names.md").read_text(encoding="utf-8") == program["page"](), "run `make names`"
