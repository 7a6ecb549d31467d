"""What a stdio server can reach: a hostile one tries, in every sandbox of this machine."""

import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from spindle.calls import Err, Ok
from spindle.cli import load_config
from spindle.errors import SandboxUnavailableError
from spindle.mcp import McpServers, ServerSpec
from spindle.mcp.client.confinement import DEFAULT_PROCESSES, ServerConfinement
from spindle.mcp.client.home import ServerHome
from tests.bounds import wait_until
from tests.mcp.upstreams import SERVERS, EventLog, call, connected

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

BAIT = "canary-4d1e"
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
HIDING = [kind for kind in KINDS if kind != "landlock"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grounds:
    """A configuration with a hostile server, declared folders, and bait around them."""

    folder: Path
    spec: ServerSpec

    def path(self, name: str) -> str:
        return str(self.folder / name)


BAITS = (
    *("outside/bait.txt", "user/.ssh/id_rsa", "state/journal.sqlite", "state/servers/other/token", "state/state.key"),
    *("project/.env", "project/deep/.env.local", "project/secrets.txt", "project/.npmrc", "program/.env"),
)
"""Files that the server must not read."""


@pytest.fixture
def grounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grounds:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for name in BAITS:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(BAIT)
        path.chmod(0o600)
    for name in ("project/notes.txt", "work/old.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("plain")
    shutil.copy(SERVERS / "escaping.py", tmp_path / "program")
    script = tmp_path / "program" / "escaping.py"
    config = tmp_path / "project" / "spindle.toml"
    config.write_text(
        f'[reach]\nsecrets_file = "secrets.txt"\n[mcp.servers.evil]\ncommand = {json.dumps(sys.executable)}\n'
        f'args = ["-I", "-S", {json.dumps(str(script))}, {json.dumps(str(tmp_path) + "#mark")}]\nsandbox = "required"\n'
        'read = ["."]\nwrite = ["../work"]\n'
    )
    entry = load_config(config, state=tmp_path / "state").servers["evil"]
    given = entry.model_dump(include={"command", "args", "read", "write", "sandbox"})
    return Grounds(folder=tmp_path, spec=ServerSpec(name="evil", home=str(tmp_path / "state/servers/evil"), **given))


@asynccontextmanager
async def started(spec: ServerSpec, kind: str | None = None) -> AsyncGenerator[McpServers]:
    """Start the server in one kind of sandbox; skip if this machine has none."""
    wanted = spec if kind is None else replace(spec, sandbox_kinds=(kind,))  # pyright: ignore[reportArgumentType]
    async with connected(wanted) as servers:
        [status] = servers.status()
        if status.state != "ready" and "cannot enforce" in (status.error or ""):
            pytest.skip(f"{kind} is not available here: {status.error}")
        assert status.state == "ready", status.error
        assert status.reach is not None
        assert spec.sandbox == "none" or status.reach.sandbox == kind
        yield servers


async def attempt(servers: McpServers, what: str, *given: Any) -> Ok | Err:
    """Return what a misdeed of the server came to."""
    [name] = [tool.name for tool in servers.registry]
    return (await call(servers, name, {"what": what, "with": list(given)})).result


def text(result: Ok | Err) -> str:
    assert isinstance(result, Ok), result
    return str(result.value)


@pytest.fixture
def listener() -> Generator[tuple[int, str]]:
    """A listener on loopback and one on an abstract socket that both say the bait."""
    name = f"spindle-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0{name}")
        unix.listen()

        def serve(listening: socket.socket) -> None:
            while True:
                try:
                    accepted = listening.accept()[0]
                except OSError:
                    return
                with accepted:
                    accepted.sendall(BAIT.encode())

        threads = [threading.Thread(target=serve, args=(each,), daemon=True) for each in (tcp, unix)]
        for thread in threads:
            thread.start()
        yield tcp.getsockname()[1], f"@{name}"
        for each in (tcp, unix):
            each.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def list_misdeeds(grounds: Grounds) -> list[tuple[Any, ...]]:
    """Return what must fail in a sandbox and succeeds without one."""
    pid, bait = os.getpid(), grounds.path("outside/bait.txt")
    return [
        *(("read", grounds.path(name)) for name in BAITS),
        ("read", grounds.path("project/spindle.toml")),
        ("read", f"/proc/{pid}/environ"),
        ("read", f"/proc/{pid}/root{bait}"),
        ("listing", grounds.path("state")),
        ("listing", grounds.path("state/servers/other")),
        ("listing", grounds.path("user")),
        ("write", grounds.path("outside/new.txt")),
        ("write", grounds.path("project/notes.txt")),
        ("write", grounds.path("program/escaping.py.new")),
        ("write", grounds.path("state/servers/other/new")),
        ("hard_link", bait, grounds.path("work/hard")),
        ("send_signal", pid),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_hostile_server_reaches_nothing_but_its_folders(kind: str, grounds: Grounds) -> None:
    async with started(grounds.spec, kind) as servers:
        for misdeed in list_misdeeds(grounds):
            result = await attempt(servers, *misdeed)
            assert isinstance(result, Err), (misdeed, result)
            assert BAIT not in result.error
        assert text(await attempt(servers, "environments")) == "[]"
        for name in ("linked", "home-linked"):
            place = grounds.path("work/linked") if name == "linked" else str(Path(grounds.spec.home or "") / name)
            assert text(await attempt(servers, "link", grounds.path("outside/bait.txt"), place)) == "linked"
            assert isinstance(await attempt(servers, "read", place), Err)
        # What was declared works.
        assert text(await attempt(servers, "read", grounds.path("project/notes.txt"))) == "plain"
        assert text(await attempt(servers, "write", grounds.path("work/new.txt"))) == "written"
        assert text(await attempt(servers, "write", str(Path(grounds.spec.home or "") / "kept"))) == "written"
        # The home is not replaced, and a link in it changes nothing, after a restart either.
        await servers.restart("evil")
        assert isinstance(await attempt(servers, "read", grounds.path("work/linked")), Err)
        assert text(await attempt(servers, "read", str(Path(grounds.spec.home or "") / "kept"))) == "escaped"

    assert (grounds.folder / "work" / "new.txt").read_text() == "escaped"
    assert not (grounds.folder / "outside" / "new.txt").exists()
    assert (grounds.folder / "project" / "notes.txt").read_text() == "plain"


@pytest.mark.slow
async def test_without_a_sandbox_each_of_these_attempts_succeeds(grounds: Grounds, listener: tuple[int, str]) -> None:
    """The control: a test whose attempts fail anyway would show nothing."""
    async with started(replace(grounds.spec, sandbox="none")) as servers:
        for misdeed in list_misdeeds(grounds):
            assert isinstance(await attempt(servers, *misdeed), Ok), misdeed
        assert text(await attempt(servers, "connect", listener[0])) == BAIT
        assert text(await attempt(servers, "connect_unix", listener[1])) == BAIT


@pytest.mark.slow
@pytest.mark.parametrize("kind", HIDING)
async def test_a_hidden_file_in_a_writable_folder_is_not_uncovered(kind: str, grounds: Grounds) -> None:
    spec = replace(grounds.spec, read=(), write=(grounds.path("project"),))
    async with started(spec, kind) as servers:
        renamed = await attempt(servers, "rename", grounds.path("project/deep"), grounds.path("project/other"))
        for name in ("project/.env", "project/deep/.env.local", "project/other/.env.local", "project/spindle.toml"):
            assert isinstance(await attempt(servers, "read", grounds.path(name)), Err), name
            assert isinstance(await attempt(servers, "write", grounds.path(name)), Err), name
        assert isinstance(renamed, Err)
        assert text(await attempt(servers, "write", grounds.path("project/notes.txt"))) == "written"


@pytest.mark.slow
@pytest.mark.parametrize("kind", HIDING)
async def test_a_folder_around_the_state_folder_shows_all_but_the_state(kind: str, grounds: Grounds) -> None:
    async with started(replace(grounds.spec, read=(str(grounds.folder),)), kind) as servers:
        names = json.loads(text(await attempt(servers, "listing", str(grounds.folder))))
        assert {"outside", "project", "state"} <= set(names)
        assert text(await attempt(servers, "read", grounds.path("outside/bait.txt"))) == BAIT
        assert json.loads(text(await attempt(servers, "listing", grounds.path("state/servers")))) == ["evil"]
        for name in ("state/journal.sqlite", "state/servers/other/token", "project/.env", "user/.ssh/id_rsa"):
            assert isinstance(await attempt(servers, "read", grounds.path(name)), Err), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", HIDING)
async def test_a_server_without_network_reaches_no_listener(
    kind: str, grounds: Grounds, listener: tuple[int, str]
) -> None:
    async with started(replace(grounds.spec, network=False), kind) as servers:
        assert isinstance(await attempt(servers, "connect", listener[0]), Err)
        assert isinstance(await attempt(servers, "connect_unix", listener[1]), Err)


@pytest.mark.slow
async def test_landlock_alone_cannot_close_the_network_so_a_required_sandbox_refuses(grounds: Grounds) -> None:
    async with connected(replace(grounds.spec, network=False, sandbox_kinds=("landlock",))) as servers:
        [status] = servers.status()

        assert status.state != "ready"
        assert "a sandbox is required" in (status.error or "")
        assert len(servers.registry) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_fork_bomb_is_bounded_and_goes_with_the_server(kind: str, grounds: Grounds) -> None:
    async with started(replace(grounds.spec, max_processes=24), kind) as servers:
        [status] = servers.status()
        if "processes" not in (status.reach.enforced if status.reach else ()):
            pytest.skip("root is not bound by rlimits, and no pids cgroup can be created here")
        assert text(await attempt(servers, "detach")) == "detached"
        made = int(text(await attempt(servers, "multiply", 200)))

        assert 1 <= made <= 24
        assert list_marked(grounds)

    wait_until(lambda: not list_marked(grounds))


def list_marked(grounds: Grounds) -> list[str]:
    """Return the processes that run with the mark of this test on their command line."""
    mark = f"{grounds.folder}#mark".encode()
    return [str(place.parent) for place in Path("/proc").glob("[0-9]*/cmdline") if mark in _read_bytes(place)]


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_gets_its_pipes_its_home_and_its_environment_only(
    kind: str, grounds: Grounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAIT_TOKEN", BAIT)
    async with started(replace(grounds.spec, env_passthrough=("HOME",)), kind) as servers:
        held = json.loads(text(await attempt(servers, "descriptors")))
        env = json.loads(text(await attempt(servers, "environment")))

    assert len([each for each in held if each.startswith("pipe:")]) == 3
    assert [each for each in held if not each.startswith("pipe:")] in ([], ["/proc/self/fd"])
    assert BAIT not in json.dumps(env)
    # The home of the user is not declared, so that passing its name on would only break the server.
    assert env["HOME"] == grounds.spec.home
    assert env["npm_config_cache"] == f"{grounds.spec.home}/.npm"


def prepare(spec: ServerSpec, **changes: Any) -> ServerConfinement:
    """Prepare a start without starting anything."""
    home = ServerHome(spec.home)
    confinement = ServerConfinement(replace(spec, **changes), home.create())
    try:
        confinement.prepare(sys.executable, {"PATH": os.defpath})
    finally:
        home.remove()
    return confinement


def test_a_machine_without_a_sandbox_refuses_or_runs_the_server_and_says_so(
    grounds: Grounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.capabilities.process.backend_sandbox.launch", _fail)
    monkeypatch.setattr("spindle.capabilities.process.backend_program._detected", {})

    with pytest.raises(SandboxUnavailableError) as caught:
        prepare(grounds.spec)
    confinement = prepare(grounds.spec, sandbox="auto")
    confinement.record(frozenset(), {})

    assert set(caught.value.missing) == {"files"}
    assert confinement.reach is not None
    assert (confinement.reach.sandbox, confinement.reach.is_confined) == ("none", False)
    assert any("not declared" in note for note in confinement.reach.notes)


def _fail(*_given: object, **_options: object) -> None:
    raise PermissionError(1, "not permitted")


def test_reach_names_the_folders_the_limits_and_what_is_hidden(grounds: Grounds) -> None:
    reach = prepare(grounds.spec).reach

    assert reach is not None
    assert reach.read == (grounds.path("project"), grounds.path("program"))
    assert reach.write == (grounds.path("work"),)
    assert reach.limits == {"max_processes": DEFAULT_PROCESSES}
    assert set(reach.hidden) == {
        grounds.path(name)
        for name in (
            *("project/.env", "project/deep/.env.local", "project/secrets.txt", "project/.npmrc", "program/.env"),
            "project/spindle.toml",
        )
    }


def test_a_server_without_a_sandbox_and_limits_is_started_directly(grounds: Grounds) -> None:
    home = ServerHome().create()
    bare = ServerConfinement(replace(grounds.spec, sandbox="none", read=(), write=()), home)
    limited = ServerConfinement(replace(grounds.spec, sandbox="none", max_processes=8), home)

    assert bare.prepare(sys.executable, {}) is None
    assert bare.reach is not None
    assert bare.reach.sandbox == "off"
    start = limited.prepare(sys.executable, {})
    assert start is not None
    assert (start.sandbox.kind, start.limits.processes) == ("off", 8)


@pytest.mark.slow
async def test_the_loss_of_a_sandbox_is_a_warning(grounds: Grounds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.capabilities.process.backend_sandbox.launch", _fail)
    monkeypatch.setattr("spindle.capabilities.process.backend_program._detected", {})
    log = EventLog()
    async with connected(replace(grounds.spec, sandbox="auto"), events=log.events) as servers:
        assert text(await attempt(servers, "read", grounds.path("outside/bait.txt"))) == BAIT

    assert log.warned_of("evil", "runs without a sandbox", "not permitted")
