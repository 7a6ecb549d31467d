"""The wheel and the source archive contain the files of the page, and nothing that make installs."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.house.conftest import ROOT

pytestmark = pytest.mark.slow

PAGE = "src/spindle/inspector"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both archives, and return their folder."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=110)
    return folder


def list_page_files() -> set[str]:
    """Return the static files and templates, relative to the repository."""
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("static", "templates")
        for path in (ROOT / PAGE / folder).rglob("*")
        if path.is_file()
    }
    assert {Path(name).suffix for name in found} >= {".js", ".css", ".html"}
    return found


def test_the_wheel_has_the_files_of_the_page(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    assert {name.removeprefix("src/") for name in list_page_files()} <= names
    assert not [name for name in names if "node_modules" in name or name.endswith("tsconfig.json")]


def test_the_source_archive_has_the_files_of_the_page_and_what_checks_them(built: Path) -> None:
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}

    checks = {".ci/npm/page/package.json", ".ci/npm/page/package-lock.json", "tsconfig.json"}
    assert list_page_files() | checks <= names
    assert not [name for name in names if "node_modules" in name or name.startswith((".npm", ".venv"))]
