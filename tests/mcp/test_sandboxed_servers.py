"""Published servers in every sandbox of this machine: started by name and by path, with declared folders."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle.calls import Ok
from spindle.mcp import ServerSpec
from tests.mcp.serving import npm_program
from tests.mcp.upstreams import call, connected

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.one_loop, pytest.mark.timeout(240)]

BIN = Path(sys.executable).parent
KINDS: list[Any] = [
    "namespaces",
    "landlock",
    pytest.param(
        "bubblewrap",
        marks=pytest.mark.skipif(
            shutil.which("bwrap") is None, reason="bubblewrap is not installed: apt-get install bubblewrap"
        ),
    ),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def run(spec: ServerSpec, tool: str, args: dict[str, Any]) -> str:
    """Start a server, make one call and return its text."""
    async with connected(spec) as servers:
        for _ in range(3):
            if "handshake" in (servers.status()[0].error or ""):
                await servers.ready()  # on a busy machine it did not answer the first request within the SDK's 10 s
        [status] = servers.status()
        if status.state != "ready" and "cannot enforce" in (status.error or ""):
            pytest.skip(f"the sandbox is not available here: {status.error}")
        assert status.state == "ready", status.error
        assert status.reach is not None
        assert status.reach.is_confined
        result = (await call(servers, f"mcp__{spec.name}__{tool}", args)).result
        return str(result.value) if isinstance(result, Ok) else f"Err: {result.error}"


def make(name: str, command: list[str], kind: str, **more: Any) -> ServerSpec:
    return ServerSpec(
        name=name,
        command=command[0],
        args=tuple(command[1:]),
        sandbox="required",
        sandbox_kinds=(kind,),  # pyright: ignore[reportArgumentType]
        **more,
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_a_node_server_runs_by_npx_with_a_home_that_is_kept(kind: str, tmp_path: Path) -> None:
    program = Path(npm_program("mcp-server-everything")[1])
    folder = str(program).partition("/node_modules/")[0]
    spec = make("npx", ["npx", "--offline", "mcp-server-everything"], kind, cwd=folder, home=str(tmp_path / "home"))

    for _ in range(2):
        assert await run(spec, "echo", {"message": "hello"}) == "Echo: hello"
    assert (tmp_path / "home" / ".npm").is_dir()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_filesystem_server_reaches_the_declared_folder_only(kind: str, tmp_path: Path) -> None:
    for name in ("open/a.txt", "closed/b.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    allowed = [str(tmp_path / "open"), str(tmp_path / "closed")]
    # The server itself would allow both folders: its arguments can be read, and only what is declared written.
    command = [*npm_program("mcp-server-filesystem"), *allowed]
    spec = make("files", command, kind, write=(allowed[0],), network=kind == "landlock")

    read = await run(spec, "read_text_file", {"path": f"{allowed[0]}/a.txt"})
    await run(spec, "write_file", {"path": f"{allowed[0]}/new.txt", "content": "new"})
    refused = await run(spec, "write_file", {"path": f"{allowed[1]}/new.txt", "content": "new"})

    assert read.startswith("open/a.txt")
    assert (tmp_path / "open" / "new.txt").read_text() == "new"
    assert refused.startswith("Err: ")
    assert not (tmp_path / "closed" / "new.txt").exists()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_memory_server_keeps_its_notes_in_its_home(kind: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    spec = make(
        "memory",
        npm_program("mcp-server-memory"),
        kind,
        home=str(home),
        env={"MEMORY_FILE_PATH": str(home / "graph.jsonl")},
    )

    await run(spec, "create_entities", {"entities": [{"name": "S", "entityType": "t", "observations": ["it turns"]}]})

    assert "it turns" in await run(spec, "search_nodes", {"query": "turns"})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_of_a_virtual_environment_runs_by_path(kind: str, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    await anyio.run_process(["git", "init", "-q", "-b", "main", str(repository)])
    (repository / "new.txt").write_text("new")
    git = make("git", [str(BIN / "mcp-server-git"), "--repository", str(repository)], kind)

    assert "new.txt" in await run(git, "git_status", {"repo_path": str(repository)})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_of_a_virtual_environment_runs_by_name(kind: str) -> None:
    time = make("time", ["mcp-server-time"], kind, env={"PATH": f"{BIN}:/usr/bin:/bin"})

    now = await run(time, "get_current_time", {"timezone": "Asia/Tokyo"})

    assert json.loads(now)["datetime"].endswith("+09:00")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_of_a_virtual_environment_runs_as_a_module(kind: str) -> None:
    fetch = make("fetch", [sys.executable, "-m", "mcp_server_fetch"], kind)

    # Nothing listens there: the server runs, and reports that.
    assert "Err: " in await run(fetch, "fetch", {"url": "http://127.0.0.1:9/"})
