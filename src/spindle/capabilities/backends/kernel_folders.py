"""Which mounted folders are the kernel's own: what looks like a file in them is a door to processes and devices."""

import ctypes
import sys
from collections.abc import Callable

# The first field of `struct statfs`, by the names of linux/magic.h.
_KERNEL_OWN = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0x62656570,  # configfs
        0xCAFE4A11,  # bpf
        0x6165676C,  # pstore
        0xDE5E81E4,  # efivarfs
        0xF97CFF8C,  # selinux
        0x42494E4D,  # binfmt_misc
        0x1CD1,  # devpts
        0x6E736673,  # nsfs
        0x19800202,  # mqueue
        0x65735543,  # fusectl
    }
)
_STATFS_BYTES = 256  # more than any architecture's structure


def _fstatfs() -> Callable[[int, ctypes.Array[ctypes.c_char]], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None, use_errno=True).fstatfs
    except (OSError, AttributeError):
        return None


_call = _fstatfs()


def is_kernel_own(fd: int) -> bool:
    """Whether an open file or folder belongs to /proc, /sys or another of the kernel's own file systems."""
    if _call is None:
        return False
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if _call(fd, found) != 0:
        return True  # not to be known is not to be trusted
    return int.from_bytes(found.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder) & 0xFFFF_FFFF in _KERNEL_OWN
