"""What a program and a cold command load before they do anything: time that a person waits for."""

import subprocess
import sys
from pathlib import Path

import pytest

NEVER = {
    "mcp",
    "httpx",
    "httpcore",
    "starlette",
    "uvicorn",
    "duckdb",
    "opentelemetry",
    "trio",
    "bs4",
    "asyncpg",
    "obstore",
}
"""Libraries that no cold command needs without a configuration that names them."""

COMMAND = """
import sys
from spindle.cli.main import run
code = run(sys.argv[1:])
sys.stderr.write("\\n" + " ".join(sys.modules))
sys.exit(code)
"""


def load(code: str, *arguments: str, folder: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, timeout=50, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


def count_own(modules: set[str]) -> int:
    return sum(name == "spindle" or name.startswith("spindle.") for name in modules)


@pytest.mark.parametrize(
    ("arguments", "most_own", "never"),
    [
        # The command that lists tools runs none, and needs an event loop for MCP servers only.
        (
            ("list",),
            119,  # the roles of the kit's tools, and the keys of [flow]
            {
                "asyncio",
                "cyclopts.completion",
                "jsonschema_rs",
                "spindle.execution.executor",
                "spindle.journal",
                "spindle.kit.reducers.registry",
                "spindle.trust.envelope",
            },
        ),
        (("call", "calculate", "expression=1+2"), 175, {"http.client", "xml"}),
    ],
    ids=["list", "call"],
)
def test_a_cold_command_loads_only_what_it_uses(
    arguments: tuple[str, ...], most_own: int, never: set[str], tmp_path: Path
) -> None:
    modules = load(COMMAND, "--state", str(tmp_path / "state"), *arguments, folder=tmp_path)

    assert not modules & (NEVER | never)
    assert count_own(modules) <= most_own


def test_importing_the_names_of_a_program_does_not_load_pydantic(tmp_path: Path) -> None:
    code = "import sys; from spindle import Executor, TurnRunner, tool; sys.stderr.write(' '.join(sys.modules))"

    modules = load(code, folder=tmp_path)

    assert "spindle.turns.runner" in modules
    assert not modules & (NEVER | {"pydantic", "pydantic_core", "importlib.metadata", "asyncio", "ssl", "uuid"})
    assert not modules & {"annotated_types", "spindle.artifacts.artifact"}
