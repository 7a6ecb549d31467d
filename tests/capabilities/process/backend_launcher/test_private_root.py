"""The root of a command's own: what was granted is there under its usual name, and all else is absent."""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spindle.capabilities.process.backend import LocalProcess
from spindle.capabilities.process.backend_sandbox import SandboxKind
from spindle.errors import ProcessStartError
from tests.capabilities.confined import KINDS, backend, handle, names, run_python

pytestmark = pytest.mark.anyio

WITH_ROOT = [kind for kind in KINDS[1:] if kind != "landlock"]


@pytest.fixture
def anyio_backend() -> str:
    """One event loop is enough: these tests are about what happens inside the command."""
    return "asyncio"


def rooted(root: Path, kind: SandboxKind, **options: Any) -> LocalProcess:
    """A handle whose commands have a root of their own; skips with a reason if that is not available."""
    process = handle(root, kind, **options)
    report = backend(root, kind, **options).enforcement()
    if "root" not in report["enforced"]:
        pytest.skip(f"{kind}: no root of its own is available here: {report['missing']}")
    return process


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


LOOK = """
import os, sys
for path in sys.argv[1:]:
    try: os.lstat(path); print("is there:", path)
    except FileNotFoundError: pass
    except OSError as error: print(error)
"""


@pytest.mark.parametrize("kind", WITH_ROOT)
async def test_ungranted_files_are_absent(kind: SandboxKind, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    paths = [str(tmp_path / "secret"), "/etc/shadow", "/etc/gitconfig.d", "/etc/hostname", "/sys/kernel", "/boot"]
    paths += ["/proc/self/root/boot", "/var/log", "/run/user", "/dev/mem", "/dev/kmsg"]

    done = await run_python(rooted(root, kind), LOOK, *paths)

    assert (done.exit_code, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("kind", WITH_ROOT)
async def test_a_socket_that_was_not_granted_cannot_be_reached(
    kind: SandboxKind, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = rooted(root, kind)
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("door")
        server.listen()

        done = await run_python(process, code, "../door")

    assert done.stderr.splitlines()[-1].startswith("FileNotFoundError"), done.stderr


@pytest.mark.parametrize("kind", WITH_ROOT)
async def test_the_new_root_is_not_written(kind: SandboxKind, root: Path) -> None:
    code = "import os, sys\nfor place in sys.argv[1:]:\n  try: os.mkdir(place); print(place)\n  except OSError: pass"

    done = await run_python(rooted(root, kind), code, "/new", "/dev/new", "/etc/new", f"{root.parent}/new", "/usr/new")

    assert (done.exit_code, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_a_command_that_has_root_in_a_namespace_of_its_own_reaches_nothing_more(
    kind: SandboxKind, root: Path, tmp_path: Path
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    (tmp_path / "data").mkdir()
    process = handle(root, kind, read_paths=[str(tmp_path / "data")])
    line = f"mount -o remount,bind,rw {tmp_path}/data; umount -l /etc; touch {tmp_path}/data/made; ls {tmp_path}/data"

    await process.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", line])

    assert names(tmp_path / "data") == []


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_files_folders_and_grants_within_grants_are_there(kind: SandboxKind, root: Path, tmp_path: Path) -> None:
    for name in ("data", "data/out", "root/sub"):
        (tmp_path / name).mkdir()
    for name in ("data/in", "single", "root/sub/in"):
        (tmp_path / name).write_text(name)
    process = handle(
        root,
        kind,
        read_paths=[sys.base_prefix, *(str(tmp_path / name) for name in ("data", "single", "root/sub", "absent"))],
        write_paths=[str(tmp_path / "data" / "out")],
    )
    code = (
        "import sys; top = sys.argv[1]\n"
        "for name in ('data/in', 'single', 'root/sub/in'): print(open(f'{top}/{name}').read())\n"
        "for name in ('data/new', 'single', 'data/out/new', 'root/new', 'root/sub/new'):\n"
        "  try: open(f'{top}/{name}', 'a').close(); print('wrote', name)\n"
        "  except OSError: pass\n"
    )

    done = await run_python(process, code, str(tmp_path))

    read = ["data/in", "single", "root/sub/in"]
    assert done.stdout.splitlines() == [*read, "wrote data/out/new", "wrote root/new", "wrote root/sub/new"], (
        done.stderr
    )


@pytest.mark.parametrize("kind", ["namespaces", "landlock"])
async def test_names_that_lead_through_links_work_inside_too(kind: SandboxKind, tmp_path: Path) -> None:
    (tmp_path / "real" / "root").mkdir(parents=True)
    (tmp_path / "real" / "data").mkdir()
    (tmp_path / "real" / "data" / "in").write_text("words")
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to(tmp_path / "real")
    process = handle(tmp_path / "first" / "root", kind, read_paths=[str(tmp_path / "first" / "data")])

    done = await process.run(["cat", str(tmp_path / "first/data/in"), "../data/in", f"{tmp_path}/real/data/in"])

    assert (done.exit_code, done.stdout) == (0, "words" * 3), done.stderr


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_a_program_elsewhere_runs_though_links_lead_to_it(kind: SandboxKind, root: Path, tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    shutil.copy(shutil.which("cat") or "/bin/cat", tmp_path / "opt" / "tool-1")
    (tmp_path / "opt" / "tool").symlink_to("tool-1")
    (tmp_path / "bin").symlink_to("opt")
    program = str(tmp_path / "bin" / "tool")
    process = handle(root, kind, commands=[program], read_paths=[])

    done = await process.run([program], stdin="fed")

    assert (done.exit_code, done.stdout) == (0, "fed"), done.stderr


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_a_link_put_in_place_of_a_grant_shows_nothing_more(kind: SandboxKind, root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("#!/bin/cat\nhunter2\n")
    secret.chmod(0o755)
    (root / "data").mkdir()
    (root / "out").mkdir()
    program = root / "tool"
    shutil.copy(shutil.which("true") or "/bin/true", program)
    grants: dict[str, Any] = {"read_paths": [str(root / "data")], "write_paths": [str(root / "out")]}
    process = handle(root, kind, commands=["*", str(program)], **grants)
    line = f"rm -r data out tool && ln -s {secret} tool && ln -s {tmp_path} data && ln -s {tmp_path} out"
    made = await process.run(["sh", "-c", line])

    done = await process.run(["sh", "-c", "cat data/secret tool out/secret; touch out/new"])

    assert (made.exit_code, done.exit_code, done.stdout) == (0, 1, "")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ProcessStartError):
        await process.run([str(program)])


@pytest.mark.slow
async def test_a_grant_of_everything_needs_no_root_and_says_so(root: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    process = handle(root, "namespaces", read_paths=["/"])
    report = backend(root, "namespaces", read_paths=["/"]).enforcement()

    done = await process.run(["sh", "-c", f"ls -d {tmp_path}/data; touch {tmp_path}/data/made"])

    assert done.stdout == f"{tmp_path}/data\n"
    assert names(tmp_path / "data") == []
    assert "root" not in report["enforced"]
    assert {"root", "unix_sockets"} <= set(report["missing"])


REPORT = """
import json, sys, anyio
from spindle.capabilities.process.backend_launcher import confine
from spindle.capabilities.process.backend import ProcessBackend
from spindle.capabilities.declare import CallScope

def report(root, *lines, **options):
    backend = ProcessBackend(["sh"], root=root, shell=True, sandbox_kinds=("namespaces",), **options)
    process = backend.open(("sh",), CallScope(tool="t", session_id="s"))
    report = backend.enforcement()
    outputs = [anyio.run(process.run, line) for line in lines]
    report["outputs"] = [(done.exit_code, done.stdout, done.stderr) for done in outputs]
    print(json.dumps(report))
"""


def report_from(code: str, *arguments: object, front: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run a program that reports what a backend enforces in the surroundings it made for itself."""
    command = [*front, sys.executable, "-c", REPORT + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip(f"cannot be simulated here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_without_mounts_landlock_still_holds_and_the_report_says_so(root: Path, tmp_path: Path) -> None:
    handle(root, "namespaces")  # skips if they are not available
    (tmp_path / "secret").write_text("hunter2")
    # A process that is under Landlock already may not mount.
    code = (
        "confine.forbid_new_privileges()\n"
        "confine.restrict_with_landlock(read=['/'], write=['/'], devices=['/dev'], network=True)\n"
        "report(sys.argv[1], 'git init -q . && git status', 'cat ../secret', 'exec cat /proc/self/comm')"
    )

    reported = report_from(code, root)

    assert "root" not in reported["enforced"]
    assert "files" in reported["enforced"]
    assert {"root", "unix_sockets"} <= set(reported["missing"])
    status, secret, comm = reported["outputs"]
    assert status[0] == 0, status
    assert secret[:2] == [1, ""]
    assert comm[:2] == [0, "cat\n"]


def test_without_landlock_the_root_alone_keeps_files_from_being_reached(root: Path, tmp_path: Path) -> None:
    handle(root, "namespaces")  # skips if they are not available
    (tmp_path / "data").mkdir()
    (tmp_path / "secret").write_text("hunter2")
    code = """
import os
from spindle.capabilities.process.backend_launcher import private_root
from spindle.capabilities.process.backend_sandbox import DEVICES, VisiblePaths
root, data, secret = sys.argv[1:]
view = VisiblePaths.from_grants(root, [data], [], network=True)
files = {"read": view.read, "write": view.write, "aliases": view.aliases, "places": (), "devices": DEVICES}
files |= {"write_only": (), "hidden": (), "pins": ()}
confine.enter_namespaces(network=True)
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
report = {"enforced": private_root.enter_private_root(root, files), "could": []}
confine.drop_capabilities()
report["mounts"] = [line.split()[1:4] for line in open("/proc/self/mounts")]
places = [secret, f"{data}/new", f"{root}/new", "/new", "/dev/new", "/etc/new", "/usr/new"]
places.append("/proc/sys/kernel/core_pattern")
for place in places:
    try: open(place, "a").close(); report["could"].append(place)
    except OSError: pass
print(json.dumps(report))
"""

    reported = report_from(code, root, tmp_path / "data", tmp_path / "secret")

    assert reported["enforced"] == ["root", "files", "proc"]
    assert reported["could"] == [f"{root}/new"]
    writable = {place for place, _, options in reported["mounts"] if not options.startswith("ro")}
    assert {place for place in writable if not place.startswith("/dev/")} == {str(root)}
    assert [place for place, *_ in reported["mounts"] if place in {"/", "/sys", "/tmp", "/dev", "/proc"}] == [
        "/",
        "/proc",
    ]


UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")
"""A namespace where a test may mount without touching the machine."""


@pytest.mark.slow
def test_the_root_has_the_masked_proc_if_proc_is_masked(root: Path) -> None:
    handle(root, "namespaces")  # skips if they are not available
    code = (
        "try: confine.mount('tmpfs', '/proc/tty', 'tmpfs', 0)\n"
        "except OSError as error: sys.exit(print(error, file=sys.stderr) or 77)\n"
        "report(sys.argv[1], 'git init -q . && git status', 'exec cat /proc/self/comm', 'cat /proc/1/cmdline')"
    )

    reported = report_from(code, root, front=UNSHARE)

    assert "root" in reported["enforced"]
    assert "files" in reported["enforced"]
    assert "proc" not in reported["enforced"]
    status, comm, other = reported["outputs"]
    assert status[0] == 0, status
    assert comm[:2] == [0, "cat\n"]
    assert other[:2] == [1, ""]


@pytest.mark.slow
def test_mounts_below_a_grant_are_there_with_their_flags_and_only_read(root: Path, tmp_path: Path) -> None:
    handle(root, "namespaces")  # skips if they are not available
    (tmp_path / "data" / "nested").mkdir(parents=True)
    code = (
        "flags = confine.MS_NOSUID | confine.MS_NODEV | confine.MS_NOEXEC | 1 << 10\n"  # the last: noatime
        "nested = sys.argv[2] + '/nested'\n"
        "try: confine.mount('tmpfs', nested, 'tmpfs', flags)\n"
        "except OSError as error: sys.exit(print(error, file=sys.stderr) or 77)\n"
        "open(nested + '/in', 'w').write('words')\n"
        "lines = f'cat {nested}/in', f'touch {nested}/new', f'grep {nested} /proc/self/mounts'\n"
        "report(sys.argv[1], *lines, read_paths=[sys.argv[2]])"
    )

    reported = report_from(code, root, tmp_path / "data", front=UNSHARE)

    assert "root" in reported["enforced"]
    content, written, mounts = reported["outputs"]
    assert content[:2] == [0, "words"]
    assert written[0] == 1
    assert mounts[1].split()[3].startswith("ro,nosuid,nodev,noexec,noatime"), mounts


@pytest.mark.parametrize("kind", KINDS[1:])
def test_unix_sockets_are_missing_where_there_is_not_an_own_root(kind: SandboxKind, root: Path) -> None:
    handle(root, kind)  # skips if it is not available
    report = backend(root, kind).enforcement()

    assert ("root" in report["enforced"]) != ("unix_sockets" in report["missing"])


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_the_launchers_interpreter_need_not_be_granted(kind: SandboxKind, root: Path) -> None:
    done = await handle(root, kind, commands=["sh"], read_paths=[]).run(["sh", "-c", "echo ran"])

    assert (done.exit_code, done.stdout) == (0, "ran\n"), done.stderr
