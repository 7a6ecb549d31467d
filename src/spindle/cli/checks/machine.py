"""Checks of the machine: Python, SQLite, the event loops and the sandbox."""

import platform
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec

from spindle import capabilities
from spindle.capabilities.process.policy import SandboxMode
from spindle.cli.checks.check import Check
from spindle.cli.config.loader import Config
from spindle.errors import SpindleError
from spindle.json_types import JsonObject

_AREA = "machine"
_FIXES = {
    "unix_sockets": "install bubblewrap (bwrap), or allow user namespaces",
    "daemons": "install bubblewrap (bwrap), or allow user namespaces",
}


def check_machine(config: Config | None) -> Iterator[Check]:
    """Check Python, SQLite, the event loops and, if the configuration starts programs, the sandbox."""
    running = f"{platform.python_version()} ({sys.executable}), Spindle {version('spindle')}"
    yield Check(_AREA, "python", "ok", running)
    yield Check(_AREA, "system", "ok", f"{platform.system()} {platform.release()} {platform.machine()}")
    yield Check(_AREA, "sqlite", "ok", sqlite3.sqlite_version)
    loops = [name for name in ("trio", "uvloop") if find_spec(name) is not None]
    yield Check(_AREA, "event loops", "ok", ", ".join(["asyncio", *loops]))
    yield from _check_sandbox(is_needed=config is not None and _starts_programs(config))


def _starts_programs(config: Config) -> bool:
    has_commands = bool(config.reach.commands) and config.reach.sandbox != "none"
    return has_commands or any(
        entry.enabled and entry.command is not None and entry.sandbox != "none" for entry in config.servers.values()
    )


def _check_sandbox(*, is_needed: bool) -> Iterator[Check]:
    problem = "warning" if is_needed else "ok"
    try:
        found = get_enforcement()
    except (SpindleError, OSError) as error:
        yield Check(_AREA, "sandbox", problem, f"programs cannot run on this machine: {error}")
        return
    kind, enforced, missing = found["sandbox"], found["enforced"], found["missing"]
    is_confined = {"files", "network"} <= set(enforced)
    confinement = f"{kind} confines {', '.join(enforced)}" if enforced else "programs run unconfined"
    if is_confined:
        yield Check(_AREA, "sandbox", "ok", confinement)
    else:
        why = "".join(f"; {name}: {reason}" for name, reason in missing.items() if name not in _FIXES)
        fix = "install bubblewrap (bwrap), or allow Landlock or user namespaces" if is_needed else None
        yield Check(_AREA, "sandbox", problem, confinement + why, fix)
    if found.get("processes"):
        yield Check(_AREA, "process limit", "ok", str(found["processes"]))
    elif "processes" in missing:
        yield Check(_AREA, "process limit", problem, str(missing["processes"]))
    for name, fix in _FIXES.items():
        if is_needed and name in missing:
            yield Check(_AREA, f"sandbox, {name}", "warning", str(missing[name]), fix)


def get_enforcement(sandbox: SandboxMode = "auto") -> JsonObject:
    """Return how commands of tools are confined on this machine; it starts programs, and blocks.

    Raises:
        SpindleError: No command can run here.
        OSError: A program cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="spindle-doctor-") as root:
        return capabilities.ProcessBackend(["true"], root=root, sandbox=sandbox).enforcement()
