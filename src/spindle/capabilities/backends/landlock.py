"""Landlock: a process gives up every file but those it names; no privilege needed. Used by the launcher."""

import ctypes
import os
import stat

from spindle.capabilities.backends.kernel import syscall

TYPE_CHECKING = False  # pyright takes it for true; typing would cost more than the rest of the imports together
if TYPE_CHECKING:
    from collections.abc import Iterable

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


def version() -> int:
    """Tell which Landlock the kernel has; 0 is none."""
    try:
        return syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    except OSError:
        return 0


def restrict(*, read: "Iterable[str]", write: "Iterable[str]", devices: "Iterable[str]", network: bool) -> list[str]:
    """Give up, for good, all files but these; tell what is enforced.

    Raises:
        OSError: The kernel has no Landlock, or refuses.
    """
    known = version()
    if known < 1:
        raise OSError(0, "the kernel has no Landlock")
    handled = _rights(known)
    enforced = ["files"]
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
        _allow(ruleset, write, handled & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV))
        _allow(ruleset, devices, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV) & handled)
        syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return enforced


def _rights(known: int) -> int:
    """Every right on files that this version knows."""
    bits = 13 if known < 2 else 14 if known < 3 else 15 if known < 5 else 16
    return (1 << bits) - 1


def _allow(ruleset: int, paths: "Iterable[str]", rights: int) -> None:
    for path in paths:
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # what is not there, or not ours to open, needs no rule
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
