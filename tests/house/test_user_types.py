"""A user's typed project is checked with strict pyright and strict mypy, against the sources and the built package."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.house.conftest import ROOT
from tests.house.type_checkers import run_mypy, run_pyright

ACCEPTED = '''
from collections.abc import Sequence
from typing import Literal, assert_type

from pydantic import BaseModel

from spindle import (
    Artifact, Backends, Call, CallOutcome, Capabilities, Err, Executor, JsonArtifact, Media, Ok, Tool, ToolContext,
    ToolRegistry, TurnReport, TurnRunner, blocking, tool,
)
from spindle.calls import ArtifactLike
from spindle.capabilities import Attachments, FileReach, Files, Network, Process, Secrets, Storage
from spindle.execution import ApprovalRequest
from spindle.testing import ScriptedModel


@tool
def add(a: int, b: int = 1) -> int:
    """Add two whole numbers."""
    return a + b


@tool(name="fetch_page", timeout_seconds=5, read_only=True, capabilities=Capabilities(network=["example.org"]))
async def fetch(url: str, *, ctx: ToolContext) -> str:
    """Fetch a page."""
    assert_type(ctx.network, Network)
    assert_type(ctx.files, Files)
    assert_type(ctx.process, Process)
    assert_type(ctx.secrets, Secrets)
    assert_type(ctx.storage, Storage)
    assert_type(ctx.attachments, Attachments)
    return await (await ctx.network.get(url)).text()


async def use_tools_as_functions(ctx: ToolContext) -> None:
    assert_type(add(1, b=2), int)
    assert_type(await fetch("https://example.org", ctx=ctx), str)


def by_literal(outcome: CallOutcome) -> str:
    return outcome.result.value if outcome.result.ok is True else outcome.result.error


def by_class(outcome: CallOutcome) -> str:
    return outcome.result.value if isinstance(outcome.result, Ok) else outcome.result.error


def by_match(outcome: CallOutcome) -> str:
    match outcome.result:
        case Ok(value):
            return value
        case Err(code, error):
            return f"{code}: {error}"


def parts_of(result: Ok) -> None:
    assert_type(result.media, tuple[Media, ...])
    assert_type(result.artifact, ArtifactLike | None)
    assert_type(result.ok, Literal[True])


async def approve(request: ApprovalRequest) -> bool | str:
    return request.tool.read_only or "Ask again on Monday."


async def run(tools: Sequence[Tool]) -> list[CallOutcome]:
    backends = Backends.local(".", hosts=["example.org"])
    executor = Executor(ToolRegistry(tools), backends=backends, approve=approve)
    return await executor.execute_parallel([Call("c1", "add", {"a": 1})], ToolContext(session_id="s1"))


async def turn() -> TurnReport:
    runner = TurnRunner(executor_callback=ScriptedModel("Hello."), tools=[add, fetch], approve=approve, concurrency=4)
    return await runner.run(messages=["Hi"])


def run_without_a_loop(tools: Sequence[Tool]) -> list[CallOutcome]:
    executor = blocking.Executor(ToolRegistry(tools), timeout_seconds=5)
    blocking.TurnRunner(executor_callback=ScriptedModel("Hello."), tools=tools, max_iterations=3).run(messages=["Hi"])
    return executor.execute_parallel([Call("c1", "add", {"a": 1})], ToolContext(session_id="s1"))


class Agent(BaseModel):
    tools: list[Tool]


async def list_rows(args: dict[str, object], ctx: ToolContext, meta: object) -> str:
    return "[]"


rows: Tool[JsonArtifact] = Tool(
    name="rows",
    description="List the rows.",
    input_schema={"type": "object"},
    handler=list_rows,
    artifact_constructor=JsonArtifact,
)
reach = FileReach(read=["data"])
everything: list[Tool] = [add, fetch, rows]
log: Artifact = Artifact.from_text("one")
'''

REJECTED = """
from spindle import (
    Backends, CallOutcome, JsonArtifact, Ok, TableArtifact, Tool, ToolContext, ToolRegistry, TurnRunner, blocking, tool,
)
from spindle.testing import ScriptedModel


@tool(nonsense=1)  # rejected
def first() -> str:
    return ""


@tool(timeout_seconds="soon")  # rejected
def second() -> str:
    return ""


@tool
def add(a: int) -> int:
    return a


add("one")  # rejected
text: str = add(1)  # rejected
Backends(network="everywhere")  # rejected
TurnRunner(executor_callback=ScriptedModel("a"), nonsense=1)  # rejected
TurnRunner(executor_callback=ScriptedModel("a"), concurrency="many")  # rejected
blocking.Executor(ToolRegistry(), concurrency="many")  # rejected
blocking.TurnRunner(executor_callback=ScriptedModel("a"), nonsense=1)  # rejected


async def handles(ctx: ToolContext, outcome: CallOutcome) -> None:
    print(outcome.result.value)  # rejected
    ctx.files.no_such_method()  # rejected
    await ctx.network.get(17)  # rejected


def parts_of(result: Ok) -> None:
    result.artifact.head()  # rejected
    result.media[0].no_such_field  # rejected


def list_rows(args: object, ctx: ToolContext, meta: object) -> str:
    return ""


rows = Tool(name="rows", description="…", input_schema={}, handler=list_rows, artifact_constructor=TableArtifact)
wrong: Tool[JsonArtifact] = rows  # rejected
"""


@pytest.fixture(params=[pytest.param(each, marks=pytest.mark.slow) for each in ("sources", "built")])
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that imports Spindle: from the repository, or from the wheel that users install."""
    return Path(sys.executable) if request.param == "sources" else install_wheel(tmp_path_factory.mktemp("user"))


def install_wheel(folder: Path) -> Path:
    """Build the wheel and install it into a new environment, which has the dependencies of this one."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=100)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=100)
    [site] = (folder / "venv" / "lib").glob("python*/site-packages")
    [wheel] = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    made = folder / "venv" / "bin" / "python"
    found = subprocess.run([made, "-c", "import spindle; print(spindle.__file__)"], check=True, capture_output=True)
    assert Path(found.stdout.decode().strip()).is_relative_to(site)
    return made


def check(source: str, folder: Path, python: Path) -> tuple[list[str], list[str]]:
    (folder / "user.py").write_text(source, encoding="utf-8")
    return run_pyright(folder, mode="strict", python=python), run_mypy(folder, options=["--strict"], python=python)


def test_a_typed_project_has_no_errors(python: Path, tmp_path: Path) -> None:
    assert check(ACCEPTED, tmp_path, python) == ([], [])


def test_mistakes_are_reported_where_they_are(python: Path, tmp_path: Path) -> None:
    wrong = {number for number, line in enumerate(REJECTED.splitlines(), 1) if line.endswith("# rejected")}

    for errors in check(REJECTED, tmp_path, python):
        assert {int(error.split(":")[1]) for error in errors} == wrong, errors
