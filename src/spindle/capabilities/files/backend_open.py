"""Opening paths below a root name by name, never through symbolic links, and translating OS errors.

Each name is opened relative to the descriptor of its parent folder, so that replacing a checked name has no effect.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from spindle.addresses import refuse_url
from spindle.capabilities.files.paths import Names, Place
from spindle.errors import CapabilityError, FileAccessError, FileMissingError

# The first field of `struct statfs`, by the names of linux/magic.h.
_KERNEL_FILE_SYSTEMS = frozenset(
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


def is_kernel_file_system(fd: int) -> bool:
    """Return True if an open file or folder belongs to /proc, /sys or another kernel file system."""
    if _call is None:
        return False
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if _call(fd, found) != 0:
        return True  # an unknown file system is not trusted
    return (
        int.from_bytes(found.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder) & 0xFFFF_FFFF in _KERNEL_FILE_SYSTEMS
    )


_REASONS: dict[int, tuple[str, str]] = {
    errno.ENOTDIR: ("not_a_folder", "a part of the path is not a folder"),
    errno.EISDIR: ("not_a_file", "it is a folder, not a file"),
    errno.ENOTEMPTY: ("not_empty", "the folder is not empty; remove what is in it first"),
    errno.EACCES: ("denied", "the operating system does not permit it"),
    errno.EPERM: ("denied", "the operating system does not permit it"),
    errno.EROFS: ("denied", "it is on a read-only file system"),
    errno.ETXTBSY: ("denied", "it is a program that is running"),
    errno.ENOSPC: ("full", "the disk is full"),
    errno.EDQUOT: ("full", "the disk quota is exceeded"),
    errno.EFBIG: ("full", "it is larger than the file system allows"),
    errno.ENAMETOOLONG: ("bad_name", "a name in it is longer than the file system allows"),
    errno.EILSEQ: ("bad_name", "the file system does not allow such a name"),
    errno.EINVAL: ("bad_name", "the file system does not allow such a name"),
}
_SYMLINK_ERRORS = {errno.ELOOP, errno.EMLINK}  # the errors of O_NOFOLLOW for a symbolic link on different systems


@contextmanager
def translate_os_errors(place: Place) -> Generator[None]:
    """Translate exceptions of the operating system.

    Raises:
        PathNotReachableError: The path became a link, a device or a socket while it was being opened.
        FileMissingError: The path does not exist.
        FileAccessError: Any other failure.
    """
    try:
        yield
    except FileMissingError:
        raise
    except FileNotFoundError as error:
        raise FileMissingError(f"{place.shown} does not exist", path=place.given) from error
    except UnicodeEncodeError as error:
        raise build_access_error(place, "bad_name", "the file system does not allow such a name") from error
    except OSError as error:
        if error.errno in _SYMLINK_ERRORS:
            raise place.refused("it is a symbolic link; links are never followed") from error
        if error.errno == errno.ENXIO:
            raise place.refused("it is not a regular file or folder") from error
        reason, why = _REASONS.get(error.errno or 0, ("io", f"the disk failed ({error.strerror})"))
        raise build_access_error(place, reason, why) from error


def build_access_error(place: Place, reason: str, why: str) -> FileAccessError:
    """Build the error for an allowed path on which the operation is not possible."""
    return FileAccessError(f"{place.shown}: {why}", path=place.given, reason=reason)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# With O_PATH, an intermediate folder need not be readable.
_INTERMEDIATE_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: opening a FIFO would otherwise block until it has a writer.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20

MayMake: TypeAlias = Callable[[Names], bool]
"""Returns True if a missing folder may be created."""


def open_root(path: str | os.PathLike[str]) -> int:
    """Open the root folder and return its descriptor; the caller chose the path, so links in it are followed.

    Raises:
        CapabilityError: The path is not a folder, or belongs to a kernel file system.
        UsageError: The path is a URL.
    """
    refuse_url(path, field="root")
    try:
        fd = os.open(Path(path).absolute(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise CapabilityError(
            f"files: the root must be an existing folder, got {os.fspath(path)!r} ({error.strerror})", field="files"
        ) from error
    if is_kernel_file_system(fd):
        os.close(fd)
        raise CapabilityError(
            f"files: {os.fspath(path)!r} is on a kernel file system and cannot be a root; choose another folder",
            field="files",
        )
    return fd


@contextmanager
def open_folder(root: int, place: Place, names: Names, *, may_make: MayMake | None = None) -> Generator[int]:
    """Open the folder `names` for the duration of the block; missing folders are created if `may_make` allows it.

    Raises:
        PathNotReachableError: The path leads through a link, a device or a kernel file system.
    """
    fd = os.open(".", _FOLDER if not names else _INTERMEDIATE_FOLDER, dir_fd=root)
    try:
        for depth in range(1, len(names) + 1):
            flags = _FOLDER if depth == len(names) else _INTERMEDIATE_FOLDER
            below = _open_next_folder(fd, names[:depth], flags, place, may_make)
            os.close(fd)
            fd = below
        _check_not_kernel_file_system(fd, place)
        yield fd
    finally:
        os.close(fd)


def _open_next_folder(fd: int, names: Names, flags: int, place: Place, may_make: MayMake | None) -> int:
    name = names[-1]
    try:
        return os.open(name, flags, dir_fd=fd)
    except FileNotFoundError:
        if may_make is None:
            raise
        if not may_make(names):
            raise place.refused(f"its folder {name!r} does not exist, and creating it is not granted") from None
        _make_folder(fd, name)
        return os.open(name, flags, dir_fd=fd)
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP, errno.EMLINK}:
            raise _build_folder_error(fd, name, place) from error
        raise


def _make_folder(fd: int, name: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=fd)
    parent = os.open(".", _FOLDER, dir_fd=fd)  # `fd` may be an O_PATH descriptor, which cannot be synced
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _build_folder_error(fd: int, name: str, place: Place) -> Exception:
    mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    if stat.S_ISREG(mode):
        return build_access_error(place, "not_a_folder", f"{name!r} is a file, not a folder")
    if stat.S_ISLNK(mode):
        return place.refused(f"{name!r} is a symbolic link; links are never followed")
    return place.refused(f"{name!r} changed while it was opened" if stat.S_ISDIR(mode) else f"{name!r} is not a folder")


def _check_not_kernel_file_system(fd: int, place: Place) -> None:
    if is_kernel_file_system(fd):
        raise place.refused("it is on a kernel file system")


def check_kind(info: os.stat_result, place: Place, *, hard_links: bool) -> None:
    """Check that a path is a folder or a regular file without further hard links.

    Raises:
        PathNotReachableError: The path is something else.
    """
    if stat.S_ISLNK(info.st_mode):
        raise place.refused("it is a symbolic link; links are never followed")
    if stat.S_ISDIR(info.st_mode):
        return
    if not stat.S_ISREG(info.st_mode):
        raise place.refused("it is not a regular file (a device, a FIFO or a socket)")
    if info.st_nlink > 1 and not hard_links:
        raise place.refused(
            "it has other hard links, which may be outside the allowed paths; hard_links=True allows them"
        )


def stat_entry(folder: int, place: Place, *, hard_links: bool) -> os.stat_result | None:
    """Return the stat result of a path's last name without opening it, or None if it does not exist.

    Raises:
        PathNotReachableError: It is neither a folder nor a regular file without further hard links.
    """
    try:
        info = os.stat(place.names[-1], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    check_kind(info, place, hard_links=hard_links)
    return info


def open_file(folder: int, place: Place, access: int, *, hard_links: bool) -> int | None:
    """Open the last name of a path if it is a regular file; return None if it does not exist.

    Raises:
        PathNotReachableError: The path is of a kind that must not be opened.
        FileAccessError: The path is a folder.
    """
    # Checked before opening, because opening some devices has side effects; and after, in case it was replaced.
    info = stat_entry(folder, place, hard_links=hard_links)
    if info is None:
        return None
    if stat.S_ISDIR(info.st_mode):
        raise build_access_error(place, "not_a_file", "it is a folder, not a file")
    fd = os.open(place.names[-1], access | _FILE, dir_fd=folder)
    try:
        check_kind(os.fstat(fd), place, hard_links=hard_links)
        _check_not_kernel_file_system(fd, place)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_up_to(fd: int, max_bytes: int) -> bytes:
    """Read at most `max_bytes` from an open file."""
    pieces: list[bytes] = []
    left = max_bytes
    while left and (piece := os.read(fd, min(_CHUNK_BYTES, left))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
