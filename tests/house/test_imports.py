"""`import spindle` is light, and only the outer files touch the world."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HEAVY = [
    "docstring_parser",
    "duckdb",
    "filetype",
    "httpx2",
    "json5",
    "jsonpath",
    "jsonschema_rs",
    "markdown_it",
    "mcp",
    "obstore",
    "opentelemetry",
    "rich",
    "yaml",
    "spindle.bridges",
    "spindle.cli",
    "spindle.engines",
    "spindle.inspector",
    "spindle.mcp",
    "spindle.telemetry",
    "spindle.testing",
]

TOUCH_THE_WORLD = [
    "aiofiles",
    "asyncio",
    "concurrent.futures",
    "http",
    "multiprocessing",
    "shutil",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "trio",
    "urllib.request",
]

OUTER = {"backends", "mcp", "bridges", "engines", "cli", "inspector", "kit", "testing"}


def is_outer(path: Path) -> bool:
    """Whether a module may touch the world: in an outer package, in `backends/`, or named `backend*`."""
    return bool(OUTER & set(path.parts)) or any(part.startswith("backend") for part in path.parts)


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `statement`."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import spindle", "from spindle import *"])
def test_importing_the_door_loads_nothing_heavy(statement: str) -> None:
    loaded = loaded_by(statement)

    assert "spindle" in loaded
    assert not [name for name in HEAVY if name in loaded]


def worldly(path: Path) -> Iterator[str]:
    """Where a module reaches for disk, network, processes or one event loop."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                imported = [module]
            case ast.Call(func=ast.Name(id="open")):
                yield f"{path}:{node.lineno}: open()"
                continue
            case _:
                continue
        for name in imported:
            if any(name == taboo or name.startswith(f"{taboo}.") for taboo in TOUCH_THE_WORLD):
                yield f"{path}:{node.lineno}: {name}"


def test_only_the_outer_files_touch_disk_network_and_processes(root: Path) -> None:
    package = root / "src" / "spindle"
    inner = [path for path in sorted(package.rglob("*.py")) if not is_outer(path.relative_to(package))]

    assert inner
    assert not [place for path in inner for place in worldly(path)]
