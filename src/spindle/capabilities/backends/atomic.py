"""Putting new content in the place of a file at once: whoever reads finds the old one or the new one, never a part."""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Lock

from spindle.capabilities.files import DRAFT_PREFIX, DRAFT_SUFFIX

_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ACCESS_LIST = "system.posix_acl_access"
# A few locks for all files: two writers of one file meet at the same one, whichever backend they came through.
_LOCKS = tuple(Lock() for _ in range(64))


@contextmanager
def one_writer(folder: int, name: str) -> Generator[None]:
    """Keep other writers of this process away from one name of a folder."""
    info = os.fstat(folder)
    with _LOCKS[hash((info.st_dev, info.st_ino, name)) % len(_LOCKS)]:
        yield


@contextmanager
def drafted(folder: int, data: bytes, *, old: int | None) -> Generator[str]:
    """Write `data` under a name of its own, safe on the disk, with the permissions of the open file `old`.

    The draft is to be renamed into place; one that was not is removed.
    """
    name = f"{DRAFT_PREFIX}{secrets.token_hex(12)}{DRAFT_SUFFIX}"
    # Until it has the old file's permissions nobody else may look into it.
    fd = os.open(name, _DRAFT, 0o666 if old is None else 0o600, dir_fd=folder)
    try:
        try:
            _write_fully(fd, data)
            if old is not None:
                _keep_permissions(fd, old)
            os.fsync(fd)
        finally:
            os.close(fd)
        yield name
    finally:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)


def put_in_place(folder: int, draft: str, name: str) -> None:
    """Give a draft its name, replacing what had it, and make that last."""
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _write_fully(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def _keep_permissions(fd: int, old: int) -> None:
    was, now = os.fstat(old), os.fstat(fd)
    mode = stat.S_IMODE(was.st_mode) & 0o777  # writing to a program takes its set-user-id away, and so do we
    if was.st_uid != now.st_uid:
        with suppress(PermissionError):
            os.fchown(fd, was.st_uid, -1)
    if was.st_gid != now.st_gid:
        try:
            os.fchown(fd, -1, was.st_gid)
        except PermissionError:
            # What its group was allowed, ours is not: it gets what everybody gets.
            mode = mode & 0o707 | (mode & 0o007) << 3
    os.fchmod(fd, mode)
    if hasattr(os, "getxattr"):
        with suppress(OSError):  # most files have no access list, and some disks know none
            os.setxattr(fd, _ACCESS_LIST, os.getxattr(old, _ACCESS_LIST))
