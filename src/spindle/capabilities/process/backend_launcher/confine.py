"""Confinement of the launcher's process: system calls, Landlock, namespaces and resource limits."""

import ctypes
import os
import resource
import stat
import sys
from errno import ENOSYS

TYPE_CHECKING = False  # pyright reads it as true; importing typing would cost more than all other imports together
if TYPE_CHECKING:
    from typing import Any
if TYPE_CHECKING:
    from collections.abc import Iterable
if TYPE_CHECKING:
    from collections.abc import Mapping


IS_LINUX = sys.platform == "linux"

SIGKILL, SIGTERM = 9, 15

_SIG_DFL, _SIG_IGN = 0, 1
_SIG_SETMASK = 2 if IS_LINUX else 3
_SIGNALS = 65
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_CAPABILITIES = 64
_CAPABILITY_VERSION_3 = 0x20080522

MS_READ_ONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
_MS_RECURSIVE, _MS_PRIVATE = 1 << 14, 1 << 18
READ_ONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
"""Attributes for `mount_setattr`; a different set of numbers than the flags of `mount`, although these four agree."""
AT_FDCWD = -100
"""AT_FDCWD: stands for the working directory where a directory descriptor is expected."""
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _RECURSIVE, _EMPTY_PATH, _MOVE_EMPTY_PATH = 1, 0x8000, 0x1000, 4
_MNT_DETACH = 2

_libc: "Any" = ctypes.CDLL(None, use_errno=True)


def check_result(result: int) -> int:
    """Return the result of a C library call.

    Raises:
        OSError: The call failed.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *arguments: "Any") -> int:
    """Make a system call by number."""
    return check_result(_libc.syscall(ctypes.c_long(number), *arguments))


def unshare(flags: int) -> None:
    """Move to new namespaces of the kinds in `flags`."""
    check_result(_libc.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    """Mount a file system, or change an existing mount."""
    kind_name = None if kind is None else kind.encode()
    check_result(_libc.mount(source.encode(), os.fsencode(target), kind_name, ctypes.c_ulong(flags), None))


def make_mounts_private() -> None:
    """Stop propagating mounts to and from other namespaces."""
    mount("none", "/", None, _MS_RECURSIVE | _MS_PRIVATE)


def unmount(target: str) -> None:
    """Detach a mount and those below it; the kernel removes it when it is no longer in use."""
    check_result(_libc.umount2(os.fsencode(target), ctypes.c_int(_MNT_DETACH)))


def pivot_root(new_root: str, put_old: str) -> None:
    """Exchange the root of this mount namespace."""
    if not hasattr(_libc, "pivot_root"):
        raise OSError(ENOSYS, os.strerror(ENOSYS))
    check_result(_libc.pivot_root(os.fsencode(new_root), os.fsencode(put_old)))


def clone_tree(path: str) -> int:
    """Clone a file or folder with the mounts below it; return a descriptor of the unattached copy."""
    flags = _OPEN_TREE_CLONE | _RECURSIVE | os.O_CLOEXEC
    return syscall(_OPEN_TREE, ctypes.c_int(AT_FDCWD), os.fsencode(path), ctypes.c_uint(flags))


def move_tree(tree: int, target: str) -> None:
    """Mount a tree returned by `clone_tree`."""
    flags = ctypes.c_uint(_MOVE_EMPTY_PATH)
    syscall(_MOVE_MOUNT, ctypes.c_int(tree), b"", ctypes.c_int(AT_FDCWD), os.fsencode(target), flags)


def set_mount_attributes(folder: int, path: str, attributes: int) -> None:
    """Add attributes to one mount, or to a whole tree if `path` is empty."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    flags = ctypes.c_uint(0 if path else _EMPTY_PATH | _RECURSIVE)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    syscall(_MOUNT_SETATTR, ctypes.c_int(folder), path.encode(), flags, ctypes.byref(wanted), size)


def forbid_new_privileges() -> None:
    """Disable, irrevocably, the privileges that set-user-ID programs and file capabilities grant."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, whatever session it moved to."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies."""
    _prctl(_PR_SET_PDEATHSIG, SIGKILL)


def hide_memory() -> None:
    """Prevent other processes of the same user from reading this one's memory."""
    _prctl(_PR_SET_DUMPABLE, 0)


def drop_capabilities() -> None:
    """Drop every privilege of root, also for programs started later."""
    for number in range(_CAPABILITIES):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) < 0:
            break  # past the last capability, or not permitted: then none can be gained either
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    check_result(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def ignore_signals(*numbers: int) -> None:
    """Ignore these signals."""
    _libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    _libc.signal.restype = ctypes.c_void_p
    for number in numbers:
        _libc.signal(number, _SIG_IGN)


def reset_signals() -> None:
    """Reset all signal handlers and the signal mask; the command would inherit ignored signals otherwise."""
    _libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    _libc.signal.restype = ctypes.c_void_p
    for number in range(1, _SIGNALS):
        _libc.signal(number, _SIG_DFL)
    _libc.sigprocmask(_SIG_SETMASK, ctypes.byref((ctypes.c_ubyte * 128)()), None)


def _prctl(option: int, value: int) -> None:
    check_result(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READING = _EXECUTE | _READ_FILE | _READ_DIR

_TCP = 1 << 0 | 1 << 1
_SIGNALS_AND_ABSTRACT_SOCKETS = 1 << 0 | 1 << 1


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def landlock_version() -> int:
    """Return the Landlock version of the kernel, or 0 if it has none."""
    try:
        return syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    except OSError:
        return 0


def restrict_with_landlock(
    *,
    read: "Iterable[str]",
    write: "Iterable[str]",
    devices: "Iterable[str]",
    network: bool,
    write_only: "Iterable[str]" = (),
    listed: "Iterable[str]" = (),
) -> list[str]:
    """Restrict this process, irrevocably, to these files; return the names of what is enforced.

    Raises:
        OSError: The kernel has no Landlock, or refuses.
    """
    known = landlock_version()
    if known < 1:
        raise OSError(0, "the kernel has no Landlock")
    handled = _rights(known)
    enforced = ["files", "write_only"]
    attributes = _Ruleset(files=handled)
    if known >= 4 and not network:
        attributes.network = _TCP
        enforced.append("tcp")
    if known >= 6:
        attributes.scopes = _SIGNALS_AND_ABSTRACT_SOCKETS
        enforced.append("signals")
    size = 8 if known < 4 else 16 if known < 6 else 24
    ruleset = syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        _allow(ruleset, read, _READING & handled)
        writing = handled & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
        _allow(ruleset, write, writing)
        _allow(ruleset, write_only, writing & ~_READING)
        _allow(ruleset, listed, _READ_DIR)
        _allow(ruleset, devices, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV) & handled)
        syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return enforced


def _rights(known: int) -> int:
    """Return all file access rights that a Landlock version knows."""
    bits = 13 if known < 2 else 14 if known < 3 else 15 if known < 5 else 16
    return (1 << bits) - 1


def _allow(ruleset: int, paths: "Iterable[str]", rights: int) -> None:
    for path in paths:
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # a path that is missing or cannot be opened needs no rule
        try:
            is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
            rule = _PathBeneath(rights=rights if is_folder else rights & _ON_FILES, folder=opened)
            syscall(
                _ADD_RULE,
                ctypes.c_int(ruleset),
                ctypes.c_int(_RULE_PATH_BENEATH),
                ctypes.byref(rule),
                ctypes.c_uint32(0),
            )
        finally:
            os.close(opened)


_MOUNTS, _HOSTNAME, _IPC = 0x00020000, 0x04000000, 0x08000000
_USER, _PIDS, _NETWORK = 0x10000000, 0x20000000, 0x40000000


def enter_namespaces(*, network: bool) -> list[str]:
    """Move to new namespaces, as far as the kernel permits; return their names.

    The pid namespace applies to children only: the next fork creates its first process.
    """
    mine = _PIDS | _MOUNTS | _IPC | _HOSTNAME | (0 if network else _NETWORK)
    names = ["pids", "mounts"] + ([] if network else ["network"])
    # A user namespace permits the others without privileges, and removes root's privileges over the machine.
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


def mount_own_proc() -> bool:
    """Mount a /proc that shows only the namespace's processes; must be called by its first process."""
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


_CPU_GRACE_SECONDS = 1
"""Time between SIGXCPU and SIGKILL when the CPU limit is reached."""


def apply_limits(limits: "Mapping[str, int | None]") -> None:
    """Apply every resource limit except the number of processes, and disable core files."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, limits.get("cpu_seconds"), extra=_CPU_GRACE_SECONDS)
    _limit(resource.RLIMIT_AS, limits.get("memory_bytes"))
    _limit(resource.RLIMIT_FSIZE, limits.get("file_bytes"))
    _limit(resource.RLIMIT_NOFILE, limits.get("open_files"))


def limit_processes(processes: int, *, own_user_namespace: bool) -> bool:
    """Limit the number of processes and threads; return False for root, which the limit does not bind.

    The kernel counts all processes of the user: in a user namespace those inside it, otherwise those of the machine.
    """
    if os.getuid() == 0:
        return False
    _limit(
        resource.RLIMIT_NPROC, processes + (_LAUNCHER_PROCESSES if own_user_namespace else _count_tasks(os.getuid()))
    )
    return True


_LAUNCHER_PROCESSES = 3
"""The launcher and the first processes of the namespace are counted too."""


def _limit(kind: int, value: int | None, *, extra: int = 0) -> None:
    if value is None:
        return
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    top = value + extra if hard == resource.RLIM_INFINITY else min(value + extra, hard)
    resource.setrlimit(kind, (value, top))


def _count_tasks(user: int) -> int:
    count = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - importing pathlib would slow down the launcher
        if not name.isdigit():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116 - as above
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208 - as above
        except OSError:
            continue  # the process has ended meanwhile
    return count
