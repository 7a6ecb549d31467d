"""Files that only their owner may use: created, written, synced and locked with plain system calls."""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path

from spindle.errors import SpoolError

_OWNER_ONLY_FILE = 0o600
_OWNER_ONLY_FOLDER = 0o700


@contextmanager
def translate_os_errors(path: Path) -> Generator[None]:
    """Translate an `OSError` to a `SpoolError`.

    Raises:
        SpoolError: The disk is full, or the path is not usable.
    """
    try:
        yield
    except OSError as error:
        is_full = error.errno in {ENOSPC, EDQUOT, EFBIG}
        advice = (
            "free some space or prune the spool" if is_full else "check that the folder exists and belongs to this user"
        )
        raise SpoolError(f"Spool at {path} cannot be used: {error.strerror or error}; {advice}") from error


def make_private_folder(path: Path) -> None:
    """Create a folder that only its owner may enter, and its parents; an existing folder is not changed."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_OWNER_ONLY_FOLDER, exist_ok=True)
    sync_folder(path.parent)


def create_private_file(path: Path) -> int:
    """Create a new file without following links; return a descriptor to write to."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_ONLY_FILE)


def write_fully(handle: int, data: bytes) -> None:
    """Write all of `data`; one system call may write less."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def start_writeback(handle: int, start: int, count: int) -> None:
    """Let the kernel start to write bytes to the disk, without waiting, where it takes such advice."""
    advise: Callable[[int, int, int, int], None] | None = getattr(os, "posix_fadvise", None)
    if advise is not None:
        # Dirty pages are written; they stay cached, because only pages that are clean already are dropped.
        with suppress(OSError):
            advise(handle, start, count, os.POSIX_FADV_DONTNEED)


def read_range(path: Path, start: int, end: int) -> bytes:
    """Read bytes `start` to `end` of a file.

    Raises:
        EOFError: The file is shorter than `end`.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        data = os.pread(handle, end - start, start)
        while len(data) < end - start:
            more = os.pread(handle, end - start - len(data), start + len(data))
            if not more:
                raise EOFError
            data += more
        return data
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """Flush a folder, so that renames in it survive power loss."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Try to acquire the lock that a live writer holds on its file; the kernel releases it when the writer dies."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_abandoned(path: Path) -> None:
    """Remove a file, unless a live writer has locked it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # already removed, or not a file of the spool
    try:
        if try_lock(handle):
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)
