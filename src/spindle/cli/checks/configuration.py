"""Checks of the configuration: its file, state, stores, local tools, secrets and profiles."""

import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio

from spindle import cli
from spindle.addresses import hide_credentials
from spindle.cli.checks.check import Check
from spindle.cli.config.loader import Config
from spindle.cli.config.sources import RemoteStore
from spindle.cli.runtime_servers import build_backends, build_secret_lookup, get_store_secrets, name_server_secrets
from spindle.cli.runtime_stores import (
    build_journal,
    build_spool,
    build_storage,
    check_journal,
    check_spool,
    check_storage,
)
from spindle.cli.runtime_tools import build_local_registry
from spindle.errors import SpindleError


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
    yield Check(area, "workspace", "ok", str(config.root))
    try:
        registry = build_local_registry(config, build_backends(config))
        if config.flow is not None:
            cli.check_names(config, registry)
            cli.build_profile_flow(config, registry, cli.build_flow_policy(config), None)
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
