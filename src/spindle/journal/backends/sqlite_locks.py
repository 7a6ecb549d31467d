"""The OS locks of a SQLite file that several processes write: one for its changes, one that proves each process alive.

The system releases both when a process dies, however it dies, and never before: a stopped or slow process keeps them.
"""

import errno
import fcntl
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from spindle.errors import JournalError, JournalLockedError

LOCK_SECONDS = 30.0
"""How long to wait for another process that is changing the file."""

_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.0001, 0.002
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_run_id = re.compile("[0-9a-f]{32}")

_handles: set[int] = set()
"""Descriptors of all lock files that this process has open."""


class FileLock:
    """The lock `<path>.lock`, held by one process at a time to open, change, checkpoint or close the file.

    SQLite before 3.51.3 may corrupt a write-ahead log that two connections write or checkpoint at the same time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.with_name(f"{path.name}.lock")
        self._handle = _open_handle(self._file, os.O_CREAT)
        self.was_used = bool(os.pread(self._handle, 1, 0))
        """Whether the lock was ever held before."""

    @contextmanager
    def hold(self) -> Generator[None]:
        """Hold the lock during the block.

        Raises:
            JournalLockedError: Another process does not release it.
            OSError: The file system does not support locks.
        """
        self.acquire()
        try:
            yield
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def acquire(self) -> None:
        """Acquire the lock until the block or the process ends, or the lock is closed."""
        deadline, pause = time.monotonic() + LOCK_SECONDS, _FIRST_PAUSE_SECONDS
        # Polled: a blocking call could not be given up, and would keep the thread from ending.
        while not self._try_acquire():
            if time.monotonic() >= deadline:
                raise self._locked_error()
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
        os.pwrite(self._handle, f"{os.getpid():<10}\n".encode(), 0)

    def close(self) -> None:
        """Release the lock and close its file, which is never removed: others may be waiting for it."""
        _close_handle(self._handle)
        self._handle = -1

    def _try_acquire(self) -> bool:
        if not _try_lock(self._handle):
            return False
        if os.fstat(self._handle).st_nlink:
            return True
        # The file was deleted: a lock on it would not exclude processes that open the new one.
        self.close()
        self._handle = _open_handle(self._file, os.O_CREAT)
        return False

    def _locked_error(self) -> JournalLockedError:
        text = os.pread(self._handle, 32, 0).strip()
        holder = int(text) if text.isdigit() else None
        who = "another process" if holder is None else f"process {holder}"
        return JournalLockedError(
            f"The file {self._path} is locked by {who}, which has not released it for {LOCK_SECONDS:g} seconds: it is "
            "stopped, or runs an older version of Spindle; nothing was written. End that process, or use another file",
            path=str(self._path),
            holder_pid=holder,
        )


class RunLease:
    """A run: the calls that one process begins in one file; the lock `<path>.run-<id>` proves that it is alive.

    Leases are created, checked and released while the file's lock is held.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.run_id = uuid4().hex
        self.is_new = True
        """Whether no call was begun in this run."""
        self._file = _lease_file(path, self.run_id)
        self._handle = _open_handle(self._file, os.O_CREAT | os.O_EXCL)
        if not _try_lock(self._handle):
            _close_handle(self._handle)
            raise JournalError(f"Cannot lock the new file {self._file}; check that its folder is on a local disk")

    @classmethod
    def acquire(cls, path: Path) -> "RunLease":
        """Return this process's lease on a file."""
        if path not in _leases:
            _leases[path] = cls(path)
        return _leases[path]

    def release(self) -> None:
        """End the run; its unfinished calls are interrupted."""
        if _leases.get(self._path) is self:
            del _leases[self._path]
            with suppress(OSError):
                self._file.unlink()
            _close_handle(self._handle)

    def has_ended(self, run_id: str) -> bool:
        """Return whether another run has ended, and remove its lock file."""
        return run_id != self.run_id and not _is_running(self._path, run_id)

    def find_others(self) -> set[str]:
        """Return the ids of the other runs that are alive, and remove what runs that have ended left behind."""
        start = f"{self._path.name}.run-"
        near = [file.name for file in self._path.parent.iterdir()]
        run_ids = {name.removeprefix(start) for name in near if name.startswith(start)} - {self.run_id}
        return {run_id for run_id in run_ids if _is_running(self._path, run_id)}


_leases: dict[Path, RunLease] = {}
"""The leases of this process: one with unfinished calls is kept while their file is closed."""


def release_leases() -> None:
    """End all runs of this process, as at its exit."""
    for lease in list(_leases.values()):
        lease.release()


def has_no_locks(error: OSError) -> bool:
    """Return whether an error means that the file system does not support locks."""
    return error.errno in _NO_LOCKS


def _is_running(path: Path, run_id: str) -> bool:
    if not _run_id.fullmatch(run_id):  # not written by this program
        return False
    file = _lease_file(path, run_id)
    try:
        handle = _open_handle(file)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # of another user; treated as alive, which is the safe answer
    try:
        if not _try_lock(handle):
            return True
        file.unlink()
    finally:
        _close_handle(handle)
    return False


def _lease_file(path: Path, run_id: str) -> Path:
    return path.with_name(f"{path.name}.run-{run_id}")


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_handle(file: Path, flags: int = 0) -> int:
    handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
    _handles.add(handle)
    return handle


def _close_handle(handle: int) -> None:
    if handle in _handles:
        _handles.discard(handle)
        os.close(handle)


def _close_in_child() -> None:
    # A forked child shares the parent's locks while it has the descriptors, so they would outlive the parent.
    _leases.clear()
    for handle in list(_handles):
        with suppress(OSError):
            _close_handle(handle)


os.register_at_fork(after_in_child=_close_in_child)
