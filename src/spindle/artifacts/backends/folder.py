"""The small acts on disk that a torn write cannot be allowed to spoil."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path

from spindle.errors import SpoolError

_OWNER_ONLY_FILE = 0o600
_OWNER_ONLY_FOLDER = 0o700


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Tell a failing disk apart from a failing caller.

    Raises:
        SpoolError: The disk is full, or the path cannot be used.
    """
    try:
        yield
    except OSError as error:
        is_full = error.errno in {ENOSPC, EDQUOT, EFBIG}
        advice = "free some space or prune the spool" if is_full else "check that the folder is there and is yours"
        raise SpoolError(f"the spool at {path} cannot be used: {error.strerror or error}; {advice}") from error


def make_private_folder(path: Path) -> None:
    """Make a folder, with its parents, that only its owner may enter; one that is there is left as it is."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_OWNER_ONLY_FOLDER, exist_ok=True)
    sync_folder(path.parent)


def create_private_file(path: Path) -> int:
    """Create a file that was not there, never through a link; gives a handle to write to."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_ONLY_FILE)


def write_fully(handle: int, data: bytes) -> None:
    """Write all of it; the system may take less at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def read_range(path: Path, start: int, end: int) -> bytes:
    """Read `start` to `end`.

    Raises:
        EOFError: The file is shorter.
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
    """Make renames inside a folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Take the lock that a living writer holds on its file; the system lets go of it when the writer dies."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_abandoned(path: Path) -> None:
    """Remove a file, unless a living writer holds it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # gone, or nothing of ours
    try:
        if try_lock(handle):
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)
