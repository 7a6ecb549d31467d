"""Small Python programs run as commands, and signs of life of what they leave behind."""

import fcntl
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from spindle.capabilities.declare import CallScope
from spindle.capabilities.process.backend import LocalProcess, ProcessBackend
from spindle.capabilities.process.backend_sandbox import SandboxKind, find_bubblewrap
from spindle.capabilities.process.policy import Finished

PYTHON = os.path.realpath(sys.executable)

KINDS = [
    "off",
    "namespaces",
    "landlock",
    pytest.param(
        "bubblewrap",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(
                find_bubblewrap() is None, reason="bubblewrap is not installed: apt-get install bubblewrap"
            ),
        ],
    ),
]
"""The ways to confine a command."""


def backend(root: Path, kind: SandboxKind = "off", **options: Any) -> ProcessBackend:
    """A backend that runs this very Python, and whatever is on the search path."""
    settings: dict[str, Any] = {
        "commands": ["*", PYTHON],
        "sandbox": "off" if kind == "off" else "auto",
        "sandbox_kinds": (kind,),
        "read_paths": [sys.base_prefix],
        **options,
    }
    return ProcessBackend(root=root, **settings)


def handle(root: Path, kind: SandboxKind = "off", *, spool: Any = None, **options: Any) -> LocalProcess:
    """A handle of a tool that declared every command; skips with a reason if that sandbox is not available."""
    made = backend(root, kind, **options)
    if made.sandbox().kind != kind:
        pytest.skip(f"{kind} is not available here: {made.sandbox().missing}")
    return made.open(("*",), CallScope(tool="runner", session_id="s1", turn_id="t1", spool=spool))


async def run_python(process: LocalProcess, code: str, *arguments: str, **options: Any) -> Finished:
    """Run a program given as text."""
    return await process.run([PYTHON, "-I", "-S", "-c", code, *arguments], **options)


HOLD = """
import fcntl, os, sys, time
def hold(path):
    # The lock lives as long as any process that inherits this descriptor.
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.set_inheritable(fd, True)
    fcntl.flock(fd, fcntl.LOCK_EX)
"""
"""For a command that shows, by a lock, whether anything of it lives."""


def names(folder: Path) -> list[str]:
    """Everything below a folder, in order."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def open_descriptors() -> int:
    """How many files and pipes this program has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def is_held(path: Path) -> bool:
    """Return whether a process still holds the lock."""
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
