"""What a confined command can reach: the granted files, no network, no other processes."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from spindle.capabilities.declare import CallScope
from spindle.capabilities.process.backend import ProcessBackend
from spindle.capabilities.process.backend_sandbox import PidsCgroup, SandboxKind, VisiblePaths, find_sandbox
from spindle.errors import SandboxUnavailableError
from tests.capabilities.confined import KINDS, backend, handle, names, run_python

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

CONFINED = KINDS[1:]
WITHOUT_NETWORK = [kind for kind in CONFINED if kind != "landlock"]

ATTEMPT = """
import os, sys
for path in sys.argv[1:]:
    for how in ("r", "a"):
        try:
            open(path, how).read(0) if how == "r" else open(path, how)
            print("could", how, path)
        except OSError:
            pass
"""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the granted one, with a secret in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("hunter2")
    return folder


@pytest.mark.parametrize("kind", CONFINED)
async def test_ungranted_files_are_neither_read_nor_written(kind: SandboxKind, tmp_path: Path, outside: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(outside / "secret")
    targets = [
        str(outside / "secret"),
        str(outside / "new"),
        f"{root}/link",
        f"/proc/self/root{outside}/secret",
        f"/proc/1/root{outside}/secret",
        f"/proc/{os.getpid()}/environ",
        f"/proc/{os.getpid()}/root{outside}/secret",
        f"/proc/{os.getpid()}/cwd/pyproject.toml",
        "/etc/shadow",
        "/etc/new",
        "/usr/new",
        "/new",
        "/proc/sys/kernel/hostname.new",
        "/sys/kernel/notes",
    ]

    done = await run_python(handle(root, kind), ATTEMPT + "print('end')", *targets)

    assert done.stdout == "end\n", done
    assert names(outside) == ["secret"]


def there(places: list[str]) -> list[str]:
    """Those of the places that exist."""
    return [place for place in places if Path(place).exists()]


@pytest.mark.parametrize("kind", CONFINED)
async def test_the_system_is_not_written_even_by_root(kind: SandboxKind, tmp_path: Path) -> None:
    places = [f"{folder}/spindle-was-here" for folder in ("/usr", "/etc", "")]
    code = "import os, sys\nfor place in sys.argv[1:]:\n  try: os.mkdir(place); print(place)\n  except OSError: pass"

    done = await run_python(handle(tmp_path, kind), code, *places)

    assert (done.exit_code, done.stdout) == (0, "")
    assert not there(places)


@pytest.mark.parametrize("kind", CONFINED)
async def test_granted_files_are_reachable(kind: SandboxKind, tmp_path: Path) -> None:
    for name in ("root", "data", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "in.txt").write_text("words")
    process = handle(
        tmp_path / "root",
        kind,
        read_paths=[sys.base_prefix, str(tmp_path / "data")],
        write_paths=[str(tmp_path / "out")],
    )
    paths = [str(tmp_path / name) for name in ("data/in.txt", "out/made", "root/made")]

    done = await run_python(process, ATTEMPT, *paths)

    assert done.stdout.splitlines() == [
        f"could r {paths[0]}",
        f"could a {paths[1]}",
        f"could a {paths[2]}",
    ]
    assert (tmp_path / "root" / "made").exists()


CONNECT = """
import socket, sys
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    try:
        with socket.socket(socket.AF_INET, kind) as connection:
            connection.settimeout(2)
            connection.connect(("127.0.0.1", int(sys.argv[1])))
            connection.send(b"x")
            print("could", kind)
    except OSError:
        pass
"""


class Listener:
    """A TCP and a UDP socket on one loopback port, and what came in."""

    def __init__(self) -> None:
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.accepted = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.tcp.accept()
            except OSError:
                return
            self.accepted += 1
            connection.close()

    def datagrams(self) -> int:
        self.udp.setblocking(False)
        count = 0
        while True:
            try:
                self.udp.recv(10)
            except BlockingIOError:
                return count
            count += 1

    def close(self) -> None:
        self.tcp.shutdown(socket.SHUT_RDWR)
        self.tcp.close()
        self.udp.close()
        self._thread.join(30)


@pytest.fixture
def listener() -> Generator[Listener]:
    made = Listener()
    yield made
    made.close()


@pytest.mark.parametrize("kind", WITHOUT_NETWORK)
async def test_no_socket_reaches_a_server_on_this_machine(
    kind: SandboxKind, tmp_path: Path, listener: Listener
) -> None:
    done = await run_python(handle(tmp_path, kind), CONNECT, str(listener.port))

    # A datagram may go out to the command's own loopback, where nothing listens.
    assert done.exit_code == 0
    assert (listener.accepted, listener.datagrams()) == (0, 0)


async def test_landlock_alone_stops_tcp_and_says_that_the_network_is_not_enforced(
    tmp_path: Path, listener: Listener
) -> None:
    made = backend(tmp_path, "landlock")
    process = handle(tmp_path, "landlock")
    if "tcp" not in made.enforcement()["enforced"]:
        pytest.skip("this kernel's Landlock knows no network")

    await run_python(process, CONNECT, str(listener.port))

    assert listener.accepted == 0
    assert "network" in made.enforcement()["missing"]


@pytest.mark.parametrize("kind", CONFINED)
async def test_a_granted_network_is_reached(kind: SandboxKind, tmp_path: Path, listener: Listener) -> None:
    done = await run_python(handle(tmp_path, kind, network=True), CONNECT, str(listener.port))

    assert len(done.stdout.splitlines()) == 2
    assert listener.accepted == 1


@pytest.mark.parametrize("kind", WITHOUT_NETWORK)
async def test_other_processes_are_neither_seen_nor_signalled(kind: SandboxKind, tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "print(len([name for name in os.listdir('/proc') if name.isdigit()]))\n"
        "try: os.kill(int(sys.argv[1]), 0); print('could')\n"
        "except OSError: pass"
    )

    done = await run_python(handle(tmp_path, kind), code, str(os.getpid()))

    seen, *could = done.stdout.splitlines()
    assert int(seen) <= 4
    assert not could


@pytest.mark.parametrize("kind", CONFINED)
async def test_a_confined_command_has_no_privilege_and_gains_none(kind: SandboxKind, tmp_path: Path) -> None:
    done = await handle(tmp_path, kind).run(
        ["grep", "-E", "^(Cap(Prm|Eff|Bnd|Inh|Amb)|NoNewPrivs)", "/proc/self/status"]
    )

    values = dict(line.split() for line in done.stdout.splitlines())
    assert values.pop("NoNewPrivs:") == "1"
    if os.getuid() == 0:
        assert set(values.values()) == {"0" * 16}
    else:
        assert values["CapEff:"] == values["CapPrm:"] == "0" * 16


async def test_nothing_runs_if_a_required_sandbox_is_missing(tmp_path: Path) -> None:
    process = ProcessBackend(["touch"], root=tmp_path, sandbox="required", sandbox_kinds=("landlock",))

    with pytest.raises(SandboxUnavailableError) as caught:
        await process.open(("touch",), CallScope(tool="t", session_id="s")).run(["touch", "made"])

    assert caught.value.missing == ("network",)
    assert names(tmp_path) == []
    assert process.enforcement()["sandbox"] == "unavailable"


async def test_a_command_runs_in_a_required_sandbox_that_is_available(tmp_path: Path) -> None:
    handle(tmp_path, "namespaces")  # skips if they are not available
    process = ProcessBackend(["touch"], root=tmp_path, sandbox="required", sandbox_kinds=("namespaces",))

    done = await process.open(("touch",), CallScope(tool="t", session_id="s")).run(["touch", "made"])

    assert done.ok
    assert (tmp_path / "made").exists()


def test_without_any_way_the_best_is_none_and_says_so(tmp_path: Path) -> None:
    view = VisiblePaths.from_grants(str(tmp_path), (), (), network=False)

    assert set(find_sandbox("auto", view, ()).missing) == {"files", "network"}
    with pytest.raises(SandboxUnavailableError) as caught:
        find_sandbox("required", view, ())
    assert caught.value.missing == ("files", "network")


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_enforced_rules_are_reported(sandbox: Any, tmp_path: Path) -> None:
    report = ProcessBackend(["true"], root=tmp_path, sandbox=sandbox).enforcement()

    assert set(report) == {"sandbox", "enforced", "processes", "missing"}
    for name in ("files", "network"):
        assert (name in report["enforced"]) != (name in report["missing"])


@pytest.fixture
def group() -> PidsCgroup:
    made = PidsCgroup.create()
    if made is None:
        pytest.skip("no pids cgroup can be made here")
    return made


def folders(pid: int) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/spindle-{pid}-*"))


def test_a_process_and_its_descendants_are_held_and_the_group_goes_after_them(group: PidsCgroup) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo up; wait"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        group.add_processes(process.pid, 5)

        [folder] = folders(os.getpid())
        held = (folder / "cgroup.procs").read_text().split()
        assert len(held) == 2
        assert str(process.pid) in held
        assert (folder / "pids.max").read_text() == "7\n"
        for pid in held:
            os.kill(int(pid), 9)

    group.remove()
    assert folders(os.getpid()) == []


def test_the_group_of_a_program_that_died_is_cleared_away(group: PidsCgroup) -> None:
    [mine] = folders(os.getpid())
    namespace = mine.name.split("-")[2]
    dead = mine.parent / f"spindle-999999999-{namespace}-abc"
    foreign = mine.parent / f"spindle-999999999-{int(namespace) + 1}-abc"
    dead.mkdir()
    foreign.mkdir()
    group.remove()

    again = PidsCgroup.create()

    assert again is not None
    assert not dead.exists()
    assert foreign.exists()  # its process id belongs to another process namespace, such as a container's
    foreign.rmdir()
    again.remove()
