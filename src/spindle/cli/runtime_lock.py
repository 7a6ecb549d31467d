"""The lock of a configuration: read at the start, and again when the file changes."""

from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from spindle import mcp
from spindle.cli.config.loader import Config
from spindle.errors import InvalidConfigError, InvalidLockError
from spindle.mcp import lock

WATCH_SECONDS = 2.0
"""Interval between looks at the lock file while the gateway runs."""


def read_lock_policy(config: Config) -> "lock.LockPolicy":
    """Read the lock of a configuration.

    Raises:
        InvalidConfigError: `mcp.lock` names a file that does not exist.
        InvalidLockError: The file is not a valid lock.
    """
    file = None if config.lock is None else lock.LockFile.read(config.lock)
    if file is None and config.lock_is_named:
        raise config.error(("mcp", "lock"), f"{config.lock} does not exist; write it with `spindle lock`")
    return lock.LockPolicy(file=file, unlocked=config.unlocked_servers)


async def watch_lock(config: Config, servers: "mcp.McpServers", report: Callable[[str], None]) -> None:
    """Apply the lock file whenever it changes; one that is damaged or deleted leaves the current lock in force."""
    path = config.lock
    if path is None:
        return
    seen: tuple[int, ...] | None = () if servers.lock.file is not None else None  # it may have changed since the start
    while True:
        await anyio.sleep(WATCH_SECONDS)
        now = _stamp(path)
        if now == seen:
            continue
        seen = now
        if now is None:
            report(f"{path} was deleted; the lock that was read from it stays in force until a restart")
            continue
        try:
            # In a thread: it hashes every definition, and the path may lead to something that blocks.
            policy = await anyio.to_thread.run_sync(read_lock_policy, config, abandon_on_cancel=True)
        except (InvalidLockError, InvalidConfigError) as error:  # it was deleted just now, or is damaged
            report(f"{error}; the earlier lock stays in force")
            continue
        if policy.file is not None and policy != servers.lock:
            await servers.apply_lock(policy)
            report(f"{path} changed and is in force")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
