"""Sandboxes: the detection of what this machine enforces, the plan for the launcher, and pids cgroups."""

import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

from spindle.capabilities.process.backend_launch import LauncherProcess, LauncherReport, launch, list_launcher_paths
from spindle.capabilities.process.backend_view import DEVICES, OWN_PROC, VisiblePaths
from spindle.capabilities.process.policy import SEARCH_PATH, SandboxMode
from spindle.errors import SandboxUnavailableError
from spindle.json_types import JsonObject


def find_bubblewrap() -> str | None:
    """Find bubblewrap on the fixed search path, never through the host's PATH."""
    return shutil.which("bwrap", path=SEARCH_PATH)


def build_bubblewrap_command(bwrap: str, view: VisiblePaths, interpreter_paths: list[str]) -> list[str]:
    """Return the bubblewrap prefix of the launcher's command line; the launcher's own files must be visible inside."""
    words = [bwrap, "--unshare-all", "--cap-drop", "ALL"]
    if view.network:
        words.append("--share-net")
    words += ["--proc", "/proc", "--dev", "/dev"]
    read, write = [*view.read, *interpreter_paths], (*view.write, *view.write_only, *view.list_pins())
    words += [word for place in (view.root, *view.places, *view.listed) for word in ("--dir", place)]
    # Parents first: a later mount covers the earlier ones below it.
    for path in sorted({*read, *write}, key=lambda path: (path.count(os.sep), path)):
        words += ["--bind-try" if path in write else "--ro-bind-try", path, path]
    for path in view.hidden:
        if os.path.isdir(path):  # noqa: PTH112 - a text
            words += ["--tmpfs", path, "--remount-ro", path]
        else:
            words += ["--ro-bind", "/dev/null", path]  # a device, which cannot be opened there
    # The rest is an empty folder in memory, made read-only as well.
    return [*words, "--remount-ro", "/", "--"]


SandboxKind: TypeAlias = Literal["bubblewrap", "namespaces", "landlock", "none", "off"]

SANDBOX_KINDS: tuple[SandboxKind, ...] = ("bubblewrap", "namespaces", "landlock")
"""The sandbox kinds to try, strongest first."""

_PROBE_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sandbox:
    """A sandbox kind, what it enforces on this machine and what is missing."""

    kind: SandboxKind
    enforced: frozenset[str] = frozenset()
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """What is not available, and why."""

    @property
    def is_confining(self) -> bool:
        """Whether a command is confined at all."""
        return self.kind not in {"off", "none"}

    def build_prefix(self, view: VisiblePaths) -> list[str]:
        """Return the prefix of the launcher's command line; empty except for bubblewrap."""
        bwrap = find_bubblewrap() if self.kind == "bubblewrap" else None
        return build_bubblewrap_command(bwrap, view, list_launcher_paths()) if bwrap else []

    def build_plan(self, view: VisiblePaths, *, cwd: str, required: tuple[str, ...] = ()) -> JsonObject:
        """Return the launcher's plan, without a command."""
        given = ("root", "files", "pids", "proc", *(() if view.network else ("network",)))
        around, between = view.split_read() if view.hidden else (view.read, ())
        files = {
            "read": view.read,
            "split_read": around,
            "between": between,
            "write": view.write,
            "write_only": view.write_only,
            "hidden": view.hidden,
            "pins": view.list_pins(),
            "aliases": view.aliases,
            "places": (*view.places, *view.listed),
            "listed": view.listed,
            "devices": DEVICES,
            "own_proc": OWN_PROC,
        }
        return {
            "path": None,
            "argv": (),
            "env": {},
            "cwd": cwd,
            "root": view.root,
            "within": view.root,
            "umask": 0o077,
            "network": view.network,
            "namespaces": self.kind == "namespaces",
            "given": given if self.kind == "bubblewrap" else (),
            "files": files if self.is_confining else None,
            "confine": self.is_confining,
            "required": required,
            "limits": {},
            "grace_seconds": 1.0,
            "wait": False,
            "user_namespace": _user_namespace(),
        }


def get_required_enforcement(view: VisiblePaths) -> tuple[str, ...]:
    """Return the names of what a sandbox must enforce."""
    return ("files",) if view.network else ("files", "network")


def find_sandbox(mode: SandboxMode, view: VisiblePaths, kinds: Iterable[SandboxKind] = SANDBOX_KINDS) -> Sandbox:
    """Probe each kind in order; return the first that enforces what is needed, or else the best one.

    Raises:
        SandboxUnavailableError: A sandbox is required, but none is available.
    """
    if mode in {"none", "off"}:
        return Sandbox(kind="off", missing={"files": "sandbox is off", "network": "sandbox is off"})
    missing: dict[str, str] = {}
    best = Sandbox(kind="none")
    for kind in kinds:
        if kind == "bubblewrap" and find_bubblewrap() is None:
            missing[kind] = "not installed"
            continue
        story = _probe(Sandbox(kind=kind), view)
        enforced = frozenset(story.enforced) if story.failure is None else frozenset[str]()
        if set(get_required_enforcement(view)) <= enforced:
            return Sandbox(kind=kind, enforced=enforced, missing=missing | story.missing)
        missing[kind] = story.failure[2] if story.failure else _describe_missing(view, enforced)
        if len(enforced & set(get_required_enforcement(view))) > len(
            best.enforced & set(get_required_enforcement(view))
        ):
            best = Sandbox(kind=kind, enforced=enforced)
    lacking = {
        name: "; ".join(missing.values()) for name in get_required_enforcement(view) if name not in best.enforced
    }
    if mode == "required":
        raise SandboxUnavailableError(
            f"a sandbox is required, but this machine cannot enforce {', '.join(lacking)}: {missing}; "
            "install bubblewrap, or allow user namespaces or Landlock",
            missing=tuple(lacking),
        )
    return Sandbox(kind=best.kind, enforced=best.enforced, missing=missing | lacking)


def _describe_missing(view: VisiblePaths, enforced: frozenset[str]) -> str:
    return f"cannot enforce {', '.join(name for name in get_required_enforcement(view) if name not in enforced)}"


def _probe(sandbox: Sandbox, view: VisiblePaths) -> LauncherReport:
    """Start a confined launcher without a command and return its report."""
    story = LauncherReport()
    try:
        launched = launch(sandbox.build_prefix(view), sandbox.build_plan(view, cwd=view.root), feed=False)
    except OSError as error:
        story.failure = ("launcher", error.errno or 0, str(error))
        return story
    try:
        _read_report(launched, story)
        complaint = _read_stderr(launched)
    finally:
        launched.close()
        _end(launched.process)
    if not story.has_ended and story.failure is None:
        story.failure = ("launcher", 0, complaint or "it ended without a report")
    return story


def _read_report(launched: LauncherProcess, story: LauncherReport) -> None:
    until = time.monotonic() + _PROBE_SECONDS
    while (left := until - time.monotonic()) > 0:
        poll = select.poll()
        poll.register(launched.report, select.POLLIN)
        if poll.poll(left * 1000):
            data = os.read(launched.report, 65536)
            if not data:
                return
            story.feed(data)


def _read_stderr(launched: LauncherProcess) -> str:
    with suppress(BlockingIOError):
        return os.read(launched.stderr, 2000).decode("utf-8", "replace").strip()
    return ""


def _end(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _user_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/user")  # noqa: PTH115 - not a path, but a name in brackets
    except OSError:
        return ""


_PROC = Path("/proc")
_MOUNTS = Path("/sys/fs/cgroup")


class PidsCgroup:
    """A cgroup that limits its number of processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def create(cls) -> "PidsCgroup | None":
        """Create a cgroup below the current one; return None if the system does not allow it."""
        for parent in _find_own_cgroups():
            folder = parent / f"spindle-{os.getpid()}-{_get_pid_namespace()}-{uuid4().hex[:12]}"
            try:
                folder.mkdir()
            except OSError:
                continue
            if (folder / "pids.max").exists():
                _remove_stale_cgroups(parent)
                return cls(folder)
            folder.rmdir()
        return None

    def add_processes(self, leader: int, processes: int) -> None:
        """Move a process and its descendants into the cgroup, and let them start at most `processes` more.

        Raises:
            OSError: The system refuses the change.
        """
        pids = _list_process_tree(leader)
        for pid in pids:
            with suppress(ProcessLookupError):
                (self._folder / "cgroup.procs").write_text(f"{pid}\n", encoding="ascii")
        (self._folder / "pids.max").write_text(f"{processes + len(pids)}\n", encoding="ascii")

    def remove(self) -> None:
        """Remove the cgroup, waiting up to a second for its last process to end."""
        until = time.monotonic() + 1
        while time.monotonic() < until:
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.005)  # the kernel has not removed the last process yet
            else:
                return


def _find_own_cgroups() -> list[Path]:
    """Return the folders of this process's cgroups whose controller can count processes."""
    try:
        lines = (_PROC / "self" / "cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        relative = path.lstrip("/")
        if "pids" in controllers.split(","):
            found.append(_MOUNTS / "pids" / relative)
        elif not controllers:
            found += [_MOUNTS / relative, _MOUNTS / "unified" / relative]
    return [folder for folder in found if folder.is_dir()]


def _remove_stale_cgroups(parent: Path) -> None:
    """Remove cgroups left by killed programs; the kernel keeps one that still has a process in it.

    Containers may share the cgroup file system, and a process id means nothing in another process namespace, so only
    cgroups of this namespace are looked at.
    """
    for folder in parent.glob(f"spindle-*-{_get_pid_namespace()}-*"):
        pid = folder.name.split("-")[1]
        if not (_PROC / pid).exists():
            with suppress(OSError):
                folder.rmdir()


def _get_pid_namespace() -> int:
    try:
        return (_PROC / "self" / "ns" / "pid").stat().st_ino
    except OSError:
        return 0


def _list_process_tree(leader: int) -> list[int]:
    pids = [leader]
    for pid in pids:
        with suppress(OSError):
            text = (_PROC / str(pid) / "task" / str(pid) / "children").read_text(encoding="ascii")
            pids += [int(child) for child in text.split()]
    return pids
