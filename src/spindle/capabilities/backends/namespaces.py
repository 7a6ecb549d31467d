"""Namespaces of a command's own: no network, and no process that outlives it. Used by the launcher."""

import os

from spindle.capabilities.backends.kernel import MS_NODEV, MS_NOEXEC, MS_NOSUID, make_mounts_private, mount, unshare

_MOUNTS, _HOSTNAME, _IPC = 0x00020000, 0x04000000, 0x08000000
_USER, _PIDS, _NETWORK = 0x10000000, 0x20000000, 0x40000000


def enter(*, network: bool) -> list[str]:
    """Move to new namespaces, as many as the kernel lets us have; tell which.

    Processes count as moved for children only: the next fork is the first process of its own world.
    """
    mine = _PIDS | _MOUNTS | _IPC | _HOSTNAME | (0 if network else _NETWORK)
    names = ["pids", "mounts"] + ([] if network else ["network"])
    # A user namespace lets anybody have the others, and takes root's privileges over the machine away.
    for flags, entered in ((_USER | mine, ["user", *names]), (mine, names)):
        if _try_to_enter(flags):
            return entered
    return []


def _try_to_enter(flags: int) -> bool:
    user, group = os.getuid(), os.getgid()
    try:
        unshare(flags)
    except OSError:
        return False
    if flags & _USER:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/gid_map", f"{group} {group} 1")
        _write("/proc/self/uid_map", f"{user} {user} 1")
    return True


def own_proc() -> bool:
    """Show only the namespace's own processes under /proc; to be called by its first process."""
    try:
        make_mounts_private()
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except OSError:
        return False  # inside a container whose own /proc is masked
    return True


def _write(path: str, text: str) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(opened, text.encode("ascii"))
    finally:
        os.close(opened)
