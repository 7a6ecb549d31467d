"""Which sandbox can be had here, found by trying it."""

import os
import select
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from spindle.capabilities.backends.bubblewrap import command_line, program
from spindle.capabilities.backends.launching import Launched, Story, interpreter_paths, launch
from spindle.capabilities.backends.view import DEVICES, OWN_PROC, View
from spindle.capabilities.process import SandboxMode
from spindle.errors import SandboxUnavailableError

SandboxKind: TypeAlias = Literal["bubblewrap", "namespaces", "landlock", "none", "off"]

SANDBOX_KINDS: tuple[SandboxKind, ...] = ("bubblewrap", "namespaces", "landlock")
"""What is tried, the strongest first."""

_PROBE_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sandbox:
    """A way to confine a command that was tried and works."""

    kind: SandboxKind
    enforced: frozenset[str] = frozenset()
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """What could not be had, and why."""

    @property
    def is_confining(self) -> bool:
        """Whether a command is confined at all."""
        return self.kind not in {"off", "none"}

    def front(self, view: View) -> list[str]:
        """Give the command line that stands before the launcher's."""
        bwrap = program() if self.kind == "bubblewrap" else None
        return command_line(bwrap, view, interpreter_paths()) if bwrap else []

    def plan(self, view: View, *, cwd: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
        """Give the launcher's plan, still without a command."""
        given = ("root", "files", "pids", "proc", *(() if view.network else ("network",)))
        files = {
            "read": view.read,
            "write": view.write,
            "aliases": view.aliases,
            "devices": DEVICES,
            "own_proc": OWN_PROC,
        }
        return {
            "path": None,
            "argv": (),
            "env": {},
            "cwd": cwd,
            "root": view.root,
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


def needed(view: View) -> tuple[str, ...]:
    """Name what a sandbox must enforce to be one."""
    return ("files",) if view.network else ("files", "network")


def find_sandbox(mode: SandboxMode, view: View, kinds: Iterable[SandboxKind] = SANDBOX_KINDS) -> Sandbox:
    """Try each way, in order; give the first that enforces what is needed, or else the best there is.

    Raises:
        SandboxUnavailableError: One was required, and there is none.
    """
    if mode == "off":
        return Sandbox(kind="off", missing={"files": "sandbox is off", "network": "sandbox is off"})
    missing: dict[str, str] = {}
    best = Sandbox(kind="none")
    for kind in kinds:
        if kind == "bubblewrap" and program() is None:
            missing[kind] = "not installed"
            continue
        story = _probe(Sandbox(kind=kind), view)
        enforced = frozenset(story.enforced) if story.failed is None else frozenset[str]()
        if set(needed(view)) <= enforced:
            return Sandbox(kind=kind, enforced=enforced, missing=missing | story.missing)
        missing[kind] = story.failed[2] if story.failed else _unmet(view, enforced)
        if len(enforced & set(needed(view))) > len(best.enforced & set(needed(view))):
            best = Sandbox(kind=kind, enforced=enforced)
    lacking = {name: "; ".join(missing.values()) for name in needed(view) if name not in best.enforced}
    if mode == "required":
        raise SandboxUnavailableError(
            f"a sandbox is required, and this machine cannot enforce {', '.join(lacking)}: {missing}; "
            "install bubblewrap, or allow user namespaces or Landlock",
            missing=tuple(lacking),
        )
    return Sandbox(kind=best.kind, enforced=best.enforced, missing=missing | lacking)


def _unmet(view: View, enforced: frozenset[str]) -> str:
    return f"cannot enforce {', '.join(name for name in needed(view) if name not in enforced)}"


def _probe(sandbox: Sandbox, view: View) -> Story:
    """Confine a launcher that has no command to start, and hear what became of it."""
    story = Story()
    try:
        launched = launch(sandbox.front(view), sandbox.plan(view, cwd=view.root), feed=False)
    except OSError as error:
        story.failed = ("launcher", error.errno or 0, str(error))
        return story
    try:
        _listen(launched, story)
        complaint = _what_it_wrote(launched)
    finally:
        launched.close()
        _end(launched.process)
    if not story.has_ended and story.failed is None:
        story.failed = ("launcher", 0, complaint or "it ended without a word")
    return story


def _listen(launched: Launched, story: Story) -> None:
    until = time.monotonic() + _PROBE_SECONDS
    while (left := until - time.monotonic()) > 0:
        poll = select.poll()
        poll.register(launched.report, select.POLLIN)
        if poll.poll(left * 1000):
            data = os.read(launched.report, 65536)
            if not data:
                return
            story.take(data)


def _what_it_wrote(launched: Launched) -> str:
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
