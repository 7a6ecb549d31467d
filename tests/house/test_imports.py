"""`import spindle` loads little, only the outer modules do I/O, and imports stand at the top.

import-linter holds the direction of imports. These rules are tests because its contracts cannot leave out modules by a
pattern such as `backend*`, and do not see an import that is made from a string.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import INDENTED_IMPORT, parse_matching, walk_statements

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
    "asyncpg",
    "concurrent.futures",
    "ctypes",
    "duckdb",
    "fcntl",
    "glob",
    "http",
    "httpcore2",
    "httpx2",
    "mmap",
    "multiprocessing",
    "obstore",
    "redis",
    "select",
    "selectors",
    "shutil",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "trio",
    "urllib.request",
    "uvicorn",
]

FILE_METHODS = {"read_bytes", "write_bytes", "read_text", "write_text", "mkdir", "unlink", "rmdir", "iterdir", "touch"}
"""Methods of `Path`; the files handle of a call has some of them too, and is awaited."""

OUTER = {"mcp", "bridges", "engines", "cli", "inspector", "testing"}

IMPORTS_BY_NAME = {
    "doors.py": "loads the module of a name on first use",
    "cli/runtime_tools.py": "loads the tools of a user's configuration",
}
"""Modules that import other modules by a string. This list only shrinks."""

IMPORTS_INSIDE_FUNCTIONS = {
    "artifacts/json_artifact.py": "an extra",
    "artifacts/markdown/artifact.py": "an extra",
    "capabilities/network/backend.py": "an extra",
    "cli/commands/serve.py": "extras, and start-up time",
    "cli/main.py": "start-up time",
    "mcp/client/connection.py": "takes long, so it is loaded in a thread",
    "telemetry/instrumentation.py": "an extra",
}
"""Modules that import ours inside functions, and why. This list only shrinks; test_figures.py limits their number."""


def is_outer(path: Path) -> bool:
    """Return whether a module may do I/O: in an outer package, in `backends/`, or named `backend*`."""
    return bool(OUTER & set(path.parts)) or any(part.startswith("backend") for part in path.parts)


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a new interpreter has loaded after `statement`."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import spindle", "from spindle import *"])
def test_importing_the_door_loads_nothing_heavy(statement: str) -> None:
    loaded = loaded_by(statement)

    assert "spindle" in loaded
    assert not [name for name in HEAVY if name in loaded]


MARKS = (
    rf"\b(import|from)\b.*\b({'|'.join(TOUCH_THE_WORLD)})\b|\bopen\s*\(|\.\s*({'|'.join(sorted(FILE_METHODS))})\s*\("
)
"""Occurs in every module that `find_io` finds something in."""


def find_io(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield the places where a module uses disk, network, processes or one kind of event loop."""
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                imported = [module]
            case ast.Call(func=ast.Name(id="open")):
                yield f"{path}:{node.lineno}: open()"
                continue
            case ast.Call(func=ast.Attribute(attr=name)) if name in FILE_METHODS and id(node) not in awaited:
                yield f"{path}:{node.lineno}: {name}()"
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
    assert not [place for path, tree in parse_matching(inner, MARKS) for place in find_io(path, tree)]


def trees(root: Path, pattern: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules of the package that the pattern occurs in, by their paths."""
    package = root / "src" / "spindle"
    for path, tree in parse_matching(package.rglob("*.py"), pattern):
        yield path.relative_to(package).as_posix(), tree


def is_import_by_name(node: ast.AST) -> bool:
    match node:
        case (
            ast.Call(func=ast.Name(id="import_module" | "__import__"))
            | ast.Call(func=ast.Attribute(attr="import_module"))
        ):
            return True
        case _:
            return False


def test_no_other_module_imports_by_name(root: Path) -> None:
    named = trees(root, "import_module|__import__")
    found = {place for place, tree in named if any(map(is_import_by_name, ast.walk(tree)))}

    assert "doors.py" in found
    assert not found - set(IMPORTS_BY_NAME)


def own_imports_inside_functions(tree: ast.Module) -> list[int]:
    """Return the lines that import our own modules inside functions."""
    functions = [node for node in walk_statements(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [
        node.lineno
        for function in functions
        for node in walk_statements(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "spindle"
    ]


def test_own_modules_are_imported_at_the_top_or_for_a_listed_reason(root: Path) -> None:
    indented = trees(root, INDENTED_IMPORT)
    found = {place: lines for place, tree in indented if (lines := own_imports_inside_functions(tree))}

    assert not {place: lines for place, lines in found.items() if place not in IMPORTS_INSIDE_FUNCTIONS}
