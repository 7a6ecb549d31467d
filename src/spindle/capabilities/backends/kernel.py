"""System calls that Python has no name for.

The launcher imports this file in a fresh interpreter for every command, so it and what it imports stay small: `signal`
alone, with the enums it brings, would double the time to start.
"""

import ctypes
import os
import sys

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
    checked(_libc.mount(source.encode(), target.encode(), kind_name, ctypes.c_ulong(flags), None))


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
