"""System calls that Python has no name for.

The launcher imports this file in a fresh interpreter for every command, so it and what it imports stay small: `signal`
alone, with the enums it brings, would double the time to start.
"""

import ctypes
import os
import sys
from errno import ENOSYS

TYPE_CHECKING = False  # pyright takes it for true; typing would cost more than the rest of the imports together
if TYPE_CHECKING:
    from typing import Any

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
"""Attributes of a mount; the flags of `mount` are other numbers, although these four agree."""
HERE = -100
"""In place of a directory's descriptor: relative to the working directory."""
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _RECURSIVE, _EMPTY_PATH, _MOVE_EMPTY_PATH = 1, 0x8000, 0x1000, 4
_MNT_DETACH = 2

_libc: "Any" = ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> int:
    """Raise what a call of the C library complained about."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *arguments: "Any") -> int:
    """Call the kernel by number."""
    return checked(_libc.syscall(ctypes.c_long(number), *arguments))


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` name, for new ones."""
    checked(_libc.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    """Mount something, or change how it is mounted."""
    kind_name = None if kind is None else kind.encode()
    checked(_libc.mount(source.encode(), os.fsencode(target), kind_name, ctypes.c_ulong(flags), None))


def make_mounts_private() -> None:
    """Neither send mounts to other namespaces nor receive theirs."""
    mount("none", "/", None, _MS_RECURSIVE | _MS_PRIVATE)


def unmount(target: str) -> None:
    """Take a mount, and those below it, out of sight; it goes away when nobody uses it."""
    checked(_libc.umount2(os.fsencode(target), ctypes.c_int(_MNT_DETACH)))


def pivot_root(new_root: str, put_old: str) -> None:
    """Exchange the root of this mount namespace."""
    if not hasattr(_libc, "pivot_root"):
        raise OSError(ENOSYS, os.strerror(ENOSYS))
    checked(_libc.pivot_root(os.fsencode(new_root), os.fsencode(put_old)))


def clone_tree(path: str) -> int:
    """Clone a file or folder with the mounts below it; return a descriptor of the copy, which is mounted nowhere."""
    flags = _OPEN_TREE_CLONE | _RECURSIVE | os.O_CLOEXEC
    return syscall(_OPEN_TREE, ctypes.c_int(HERE), os.fsencode(path), ctypes.c_uint(flags))


def move_tree(tree: int, target: str) -> None:
    """Mount what `clone_tree` returned."""
    flags = ctypes.c_uint(_MOVE_EMPTY_PATH)
    syscall(_MOVE_MOUNT, ctypes.c_int(tree), b"", ctypes.c_int(HERE), os.fsencode(target), flags)


def set_mount_attributes(folder: int, path: str, attributes: int) -> None:
    """Add attributes to one mount, or to a whole tree if `path` is empty."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    flags = ctypes.c_uint(0 if path else _EMPTY_PATH | _RECURSIVE)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    syscall(_MOUNT_SETATTR, ctypes.c_int(folder), path.encode(), flags, ctypes.byref(wanted), size)


def no_new_privileges() -> None:
    """Take away, for good, what set-user-ID programs and file capabilities would give."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, whatever session it moved to."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the parent dies."""
    _prctl(_PR_SET_PDEATHSIG, SIGKILL)


def hide_memory() -> None:
    """Let no process of the same user look into this one."""
    _prctl(_PR_SET_DUMPABLE, 0)


def drop_capabilities() -> None:
    """Give up every privilege of root, also for programs started later."""
    for number in range(_CAPABILITIES):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) < 0:
            break  # past the last one, or not ours to drop: then there is none to gain either
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    checked(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def ignore_signals(*numbers: int) -> None:
    """Ignore these signals."""
    _libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    _libc.signal.restype = ctypes.c_void_p
    for number in numbers:
        _libc.signal(number, _SIG_IGN)


def default_signals() -> None:
    """Undo what this interpreter, and whoever started it, made of the signals; an ignored one would be inherited."""
    _libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    _libc.signal.restype = ctypes.c_void_p
    for number in range(1, _SIGNALS):
        _libc.signal(number, _SIG_DFL)
    _libc.sigprocmask(_SIG_SETMASK, ctypes.byref((ctypes.c_ubyte * 128)()), None)


def _prctl(option: int, value: int) -> None:
    checked(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))
