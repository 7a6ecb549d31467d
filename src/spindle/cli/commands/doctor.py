"""`spindle doctor`: check the machine, the configuration, the MCP servers and the extras."""

import dataclasses
import glob
import os
import platform
import re
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import anyio

from spindle import capabilities, cli, mcp
from spindle.addresses import hide_credentials
from spindle.cli.commands.journal import CallFilter, read_calls
from spindle.cli.config.loader import Config
from spindle.cli.config.sources import RemoteStore
from spindle.cli.main import FAILED, OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json
from spindle.cli.output import Output, show_progress
from spindle.cli.runtime_logins import build_logins, describe_logins
from spindle.cli.runtime_servers import (
    build_backends,
    build_secret_lookup,
    build_server_secret_lookup,
    build_specs,
    get_store_secrets,
    name_server_secrets,
)
from spindle.cli.runtime_stores import (
    build_journal,
    build_spool,
    build_storage,
    check_journal,
    check_spool,
    check_storage,
)
from spindle.cli.runtime_tools import build_local_registry
from spindle.errors import InvalidConfigError, RunError, SpindleError
from spindle.events import Events
from spindle.extras import install_command
from spindle.json_types import JsonObject
from spindle.mcp.client.lifecycle import ServerStatus
from spindle.mcp.spec import ServerSpec

Status = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    area: str
    name: str
    status: Status
    detail: str
    fix: str | None = None
    """How to fix or improve it."""


def check_machine() -> Iterator[Check]:
    """Check Python, SQLite, the event loops and the process sandbox."""
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
        yield Check(area, "sandbox", "warning", f"commands cannot run on this machine: {error}")
        return
    kind, enforced, missing = found["sandbox"], found["enforced"], found["missing"]
    is_confined = {"files", "network"} <= set(enforced)
    confinement = f"{kind} confines {', '.join(enforced)}" if enforced else "commands run unconfined"
    fix = None if is_confined else "install bubblewrap (bwrap), or allow Landlock or user namespaces"
    yield Check(area, "sandbox", "ok" if is_confined else "warning", confinement, fix)
    yield Check(area, "process limit", "ok" if found.get("processes") else "warning", str(found.get("processes")))
    for name, why in missing.items():
        yield Check(area, f"sandbox, {name}", "warning", str(why), _FIXES.get(name))


_FIXES = {
    "bubblewrap": "install it with your system's packages, such as apt-get install bubblewrap",
    "unix_sockets": "install bubblewrap (bwrap)",
}


def _enforcement() -> JsonObject:
    with tempfile.TemporaryDirectory(prefix="spindle-doctor-") as root:
        return capabilities.ProcessBackend(["true"], root=root).enforcement()


def check_config(config: Config) -> Iterator[Check]:
    """Check the configuration file, the state folder, the journal, the local tools, secrets and profiles."""
    area = "configuration"
    if config.file is None:
        fix = "create a spindle.toml here, or in your configuration folder"
        yield Check(area, "config", "ok", "no spindle.toml found; using the embedded defaults", fix)
    else:
        yield Check(area, "config", "ok", str(config.file))
    yield from (Check(area, "note", "warning", note) for note in (*config.skipped, *config.notes))
    yield _state(area, config.state)
    if isinstance(config.journal, Path):
        yield _journal(area, config.journal)
    yield Check(area, "workspace", "ok", str(config.root))
    try:
        registry = build_local_registry(config, build_backends(config))
    except (SpindleError, OSError) as error:
        yield Check(area, "tools", "failed", str(error))
    else:
        yield Check(area, "tools", "ok", f"{len(registry)} local tools")
    yield from anyio.run(check_stores, config)
    yield from _secrets(area, config)
    yield from _profiles(area, config)


def _state(area: str, state: Path) -> Check:
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=state) as probe:
            probe.write(b"x")
    except OSError as error:
        fix = "choose another folder with --state, SPINDLE_STATE or spindle.state"
        return Check(area, "state", "failed", f"cannot write to {state}: {error.strerror}", fix)
    mode = state.stat().st_mode & 0o077
    if os.name == "posix" and mode & 0o022:
        return Check(area, "state", "warning", f"{state} is writable by other users", f"chmod 700 {state}")
    return Check(area, "state", "ok", str(state))


def _journal(area: str, path: Path) -> Check:
    damaged = sorted(path.parent.glob(f"{glob.escape(path.name)}.damaged-*"))
    if damaged and not path.exists():
        fix = f"to start a new journal, move {damaged[-1]} to another folder"
        return Check(area, "journal", "failed", f"{path} is damaged; no calls can be made without a journal", fix)
    try:
        anyio.run(read_calls, path, CallFilter(limit=1))
    except SpindleError as error:
        return Check(area, "journal", "failed", str(error), f"move {path} to another folder, or set journal.path")
    return Check(area, "journal", "ok", str(path))


async def check_stores(config: Config) -> list[Check]:
    """Check the spool, the storage and a journal by URL by writing and reading, and that the engine answers."""
    found: list[Check] = []
    if isinstance(config.journal, RemoteStore):
        found.append(await _check_store("journal", config.journal, lambda: check_journal(build_journal(config))))
    if config.storage is not None:
        found.append(await _check_store("storage", config.storage, lambda: check_storage(build_storage(config))))
    if config.spool is not None:
        found.append(await _check_store("spool", config.spool, lambda: check_spool(build_spool(config))))
    if config.engine.url is not None:
        place = hide_credentials(config.engine.url)
        found.append(await _check_store("engine", place, lambda: cli.check_engine(config), done="reached"))
    return found


async def _check_store(
    name: str, place: object, check: Callable[[], Awaitable[str | None]], *, done: str = "written and read"
) -> Check:
    try:
        problem = await check()
    except SpindleError as error:
        problem = str(error)
    if problem is None:
        return Check("configuration", name, "ok", f"{place}, {done}")
    return Check("configuration", name, "failed", problem, f"check [{name}] of the configuration, {place}")


def _secrets(area: str, config: Config) -> Iterator[Check]:
    named = dict.fromkeys([*config.reach.secrets, *get_store_secrets(config)])
    for entry in config.servers.values():
        named |= dict.fromkeys(name_server_secrets(entry))
    if not named:
        return
    try:
        look_up = build_secret_lookup(config)
        unset = [name for name in named if not look_up(name)]
    except SpindleError as error:
        yield Check(area, "secrets", "failed", str(error))
        return
    for name in unset:
        yield Check(
            area, "secrets", "warning", f"{name} is not set", f"export {name}=…, or add it to reach.secrets_file"
        )
    if not unset:
        yield Check(area, "secrets", "ok", f"{len(named)} configured, all set")


def _profiles(area: str, config: Config) -> Iterator[Check]:
    for name, profile in config.profiles.items():
        if profile.token_env and not os.environ.get(profile.token_env):
            fix = f"export {profile.token_env}=…; until then `spindle serve` does not start over HTTP"
            yield Check(area, "profiles", "warning", f"{name}: {profile.token_env} is not set", fix)


_REQUIREMENT = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?P<extras>\[[^\]]*\])?.*;.*\bextra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]"
)


def check_extras() -> Iterator[Check]:
    """Check each extra: its installed packages, or the command that installs it."""
    for extra, packages in sorted(extras().items()):
        missing = [name for name in packages if _version(name) is None]
        if missing:
            fix = install_command(extra)
            yield Check("extras", extra, "warning", f"not installed: {', '.join(missing)}", fix)
        else:
            yield Check("extras", extra, "ok", ", ".join(f"{name} {_version(name)}" for name in packages))


def extras() -> dict[str, list[str]]:
    """Return the packages of each extra, including those of extras it depends on; `all` is skipped."""
    direct: dict[str, list[str]] = {}
    included: dict[str, list[str]] = {}
    for line in requires("spindle") or ():
        found = _REQUIREMENT.match(line)
        if found is None:
            continue
        if found["name"].lower() == "spindle":
            names = (found["extras"] or "[]")[1:-1].split(",")
            included.setdefault(found["extra"], []).extend(name.strip() for name in names if name.strip())
        else:
            direct.setdefault(found["extra"], []).append(found["name"])
    every = sorted({*direct, *included} - {"all"})
    return {extra: _collect_packages(extra, direct, included) for extra in every}


def _collect_packages(extra: str, direct: dict[str, list[str]], included: dict[str, list[str]]) -> list[str]:
    found, waiting, seen = list[str](), [extra], set[str]()
    while waiting:
        name = waiting.pop(0)
        if name not in seen:
            seen.add(name)
            found += direct.get(name, ())
            waiting += included.get(name, ())
    return list(dict.fromkeys(found))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


AREA = "servers"
_FETCHERS = {"npx", "uvx", "bunx", "pipx"}
"""Launchers that cache downloaded packages in the home folder."""


async def check_servers(config: Config) -> list[Check]:
    """Start each enabled server and report its status."""
    checks = [
        Check(AREA, name, "ok", "disabled (enabled = false)")
        for name, entry in config.servers.items()
        if not entry.enabled
    ]
    try:
        specs = build_specs(config)
        if not specs:
            return checks
        slowest = max(spec.start_timeout_seconds for spec in specs)
        secrets, events = build_server_secret_lookup(config), _discard_warnings()
        async with mcp.McpServers(specs, secrets=secrets, logins=build_logins(config, specs), events=events) as servers:
            with anyio.move_on_after(slowest + 5), suppress(RunError):  # the status has the reason
                await servers.ready()
            checks += [_check(status, spec) for status, spec in zip(servers.status(), specs, strict=True)]
    except SpindleError as error:
        checks.append(Check(AREA, "servers", "failed", str(error)))
    return checks


def check_logins(config: Config) -> Iterator[Check]:
    """Report who has logged in to each server with OAuth."""
    try:
        for server, detail, fix in describe_logins(config):
            yield Check(AREA, f"{server}, login", "ok" if fix is None else "warning", detail, fix)
    except SpindleError as error:
        yield Check(AREA, "login", "failed", str(error))


def _discard_warnings() -> Events:
    """Return events that discard warnings, since the checks report the same."""
    events = Events()
    events.on("warning", lambda _warned: None)
    return events


def _check(status: ServerStatus, spec: ServerSpec) -> Check:
    if spec.oauth is not None and status.state == "idle":
        return Check(AREA, status.name, "ok", "connected for each user after a login")
    if status.state == "ready":
        protocol = f", protocol {status.protocol_version}" if status.protocol_version else ""
        return Check(AREA, status.name, "ok", f"ready, {status.tools} tools{protocol}", suggest_home(spec))
    detail = f"not ready: {status.error or 'timed out'}"
    fix = "run its command by hand; check the path, the arguments and the secrets"
    return Check(AREA, status.name, "failed" if status.required else "warning", detail, fix)


def suggest_home(spec: ServerSpec) -> str | None:
    """Return a hint for servers downloaded at each start, because they get a private home folder."""
    fetcher = None if spec.command is None else Path(spec.command).stem
    if fetcher not in _FETCHERS or "HOME" in {*spec.env_passthrough, *spec.env}:
        return None
    return f'{fetcher} downloads it at each start; env_passthrough = ["HOME"] lets it use its cache'


_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


def doctor(*, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """Check this machine, the configuration and its servers; exit code 1 if a check fails."""
    with show_progress("checking …") as progress:
        checks = list(check_machine())
        try:
            config = where.load()
        except InvalidConfigError as error:
            checks += [
                Check("configuration", "config", "failed", problem, "fix the file") for problem in error.problems
            ]
        else:
            checks += check_config(config)
            if config.servers:
                progress.update(f"starting {', '.join(config.servers)} …")
                checks += anyio.run(check_servers, config)
                checks += check_logins(config)
        checks += check_extras()
    is_fine = not any(check.status == "failed" for check in checks)
    out = Output()
    if json:
        out.json({"ok": is_fine, "checks": [dataclasses.asdict(check) for check in checks]})
    else:
        _print(out, checks)
    return OK if is_fine else FAILED


def _print(out: Output, checks: list[Check]) -> None:
    area = ""
    for check in checks:
        if check.area != area:
            if area:
                out.line()
            area = check.area
            out.line((area, "bold"))
        out.line("  ", _MARKS[check.status], f" {check.name}: {check.detail}")
        if check.fix:
            out.line(("    " + check.fix, "cyan"))
