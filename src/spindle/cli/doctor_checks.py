"""What `doctor` finds out about the machine and the configuration."""

import glob
import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from spindle.cli.config import Config
from spindle.cli.house_reach import backends_of, secrets_of
from spindle.cli.house_tools import local_registry
from spindle.cli.journal_reader import Journals, Wanted
from spindle.errors import SpindleError

Status = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    area: str
    name: str
    status: Status
    detail: str
    fix: str | None = None
    """What to do about it."""


def machine_checks() -> Iterator[Check]:
    """Python, SQLite, the event loops, and what confines commands."""
    area = "machine"
    yield Check(area, "python", "ok", f"{platform.python_version()} ({sys.executable}), Spindle {version('spindle')}")
    yield Check(area, "system", "ok", f"{platform.system()} {platform.release()} {platform.machine()}")
    yield Check(area, "sqlite", "ok", sqlite3.sqlite_version)
    loops = [name for name in ("trio", "uvloop") if find_spec(name) is not None]
    yield Check(area, "event loops", "ok", ", ".join(["asyncio", *loops]))
    yield from _sandbox(area)


def _sandbox(area: str) -> Iterator[Check]:
    try:
        found = _enforcement()
    except (SpindleError, OSError) as error:
        yield Check(area, "sandbox", "warning", f"commands cannot be run here: {error}")
        return
    kind, enforced, missing = found["sandbox"], found["enforced"], found["missing"]
    is_confined = {"files", "network"} <= set(enforced)
    told = f"{kind} confines {', '.join(enforced)}" if enforced else "commands run unconfined"
    fix = None if is_confined else "install bubblewrap (bwrap), or allow Landlock or user namespaces"
    yield Check(area, "sandbox", "ok" if is_confined else "warning", told, fix)
    yield Check(area, "process limit", "ok" if found.get("processes") else "warning", str(found.get("processes")))
    for name, why in missing.items():
        yield Check(area, f"sandbox, {name}", "warning", str(why), _FIXES.get(name))


_FIXES = {
    "bubblewrap": "install it with your system's packages, such as apt-get install bubblewrap",
    "unix_sockets": "install bubblewrap (bwrap)",
}


def _enforcement() -> dict[str, Any]:
    from spindle.capabilities.backends.processes import ProcessBackend  # noqa: PLC0415 - not on every system

    with tempfile.TemporaryDirectory(prefix="spindle-doctor-") as root:
        return ProcessBackend(["true"], root=root).enforcement()


def config_checks(config: Config) -> Iterator[Check]:
    """The file that was found, the state folder, and the tools that run here."""
    area = "configuration"
    if config.file is None:
        fix = "write a spindle.toml here, or in your configuration folder"
        yield Check(area, "config", "ok", "no spindle.toml; the embedded defaults", fix)
    else:
        yield Check(area, "config", "ok", str(config.file))
    yield from (Check(area, "note", "warning", note) for note in (*config.left_out, *config.notes))
    yield _state(area, config.state)
    if config.journal is not None:
        yield _journal(area, config.journal)
    yield Check(area, "workspace", "ok", str(config.root))
    try:
        registry = local_registry(config, backends_of(config))
    except (SpindleError, OSError) as error:
        yield Check(area, "tools", "failed", str(error))
    else:
        yield Check(area, "tools", "ok", f"{len(registry)} run here")
    yield from _secrets(area, config)
    yield from _profiles(area, config)


def _state(area: str, state: Path) -> Check:
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=state) as probe:
            probe.write(b"x")
    except OSError as error:
        fix = "name another folder with --state, SPINDLE_STATE or spindle.state"
        return Check(area, "state", "failed", f"{state} cannot be written: {error.strerror}", fix)
    mode = state.stat().st_mode & 0o077
    if os.name == "posix" and mode & 0o022:
        return Check(area, "state", "warning", f"{state} may be written by others", f"chmod 700 {state}")
    return Check(area, "state", "ok", str(state))


def _journal(area: str, path: Path) -> Check:
    damaged = sorted(path.parent.glob(f"{glob.escape(path.name)}.damaged-*"))
    if damaged and not path.exists():
        fix = f"to begin with a fresh one, move {damaged[-1]} to another folder"
        return Check(area, "journal", "failed", f"{path} was found damaged, and no call is made without it", fix)
    try:
        Journals(path).read(Wanted(limit=1))
    except SpindleError as error:
        return Check(area, "journal", "failed", str(error), f"move {path} to another folder, or name another")
    return Check(area, "journal", "ok", str(path))


def _secrets(area: str, config: Config) -> Iterator[Check]:
    named = dict.fromkeys(config.reach.secrets)
    for entry in config.servers.values():
        named |= dict.fromkeys([*entry.env_secrets.values(), *entry.header_secrets.values()])
    if not named:
        return
    try:
        look_up = secrets_of(config)
        unset = [name for name in named if not look_up(name)]
    except SpindleError as error:
        yield Check(area, "secrets", "failed", str(error))
        return
    for name in unset:
        yield Check(
            area, "secrets", "warning", f"{name} is not set", f"export {name}=…, or put it in reach.secrets_file"
        )
    if not unset:
        yield Check(area, "secrets", "ok", f"{len(named)} named, all set")


def _profiles(area: str, config: Config) -> Iterator[Check]:
    for name, profile in config.profiles.items():
        if profile.token_env and not os.environ.get(profile.token_env):
            fix = f"export {profile.token_env}=…; until then `spindle serve` does not start over HTTP"
            yield Check(area, "profiles", "warning", f"{name}: {profile.token_env} is not set", fix)
