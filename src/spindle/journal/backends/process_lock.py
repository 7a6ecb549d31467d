"""One process at a time: a lock on a side file, which the system lets go of when its process dies."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from spindle.errors import JournalLockedError

_held: set[int] = set()
"""Handles of the locks of this process."""


class ProcessLock:
    """The right of this process to write one journal."""

    def __init__(self, handle: int, *, is_first: bool) -> None:
        self._handle = handle
        self.is_first = is_first
        """Nobody has ever locked it before."""

    @classmethod
    def take(cls, journal: Path) -> "ProcessLock":
        """Lock the file `<journal>.lock`, which stays there for good: removing it could let two processes in.

        Raises:
            JournalLockedError: A living process has it.
            OSError: The file cannot be used.
        """
        handle = os.open(f"{journal}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        _held.add(handle)
        try:
            lock = cls(handle, is_first=not os.pread(handle, 1, 0))
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = _holder(handle)
            _close(handle)
            raise _refusal(journal, holder) from None
        except BaseException:
            _close(handle)
            raise
        return lock

    def release(self) -> None:
        """Let another process in."""
        if self._handle in _held:
            _close(self._handle)


def _close(handle: int) -> None:
    _held.discard(handle)
    os.close(handle)


def _holder(handle: int) -> int | None:
    text = os.pread(handle, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _refusal(journal: Path, holder: int | None) -> JournalLockedError:
    who = "another process" if holder is None else f"process {holder}"
    if holder == os.getpid():
        who = f"this very process ({holder}), under another name of the file,"
    return JournalLockedError(
        f"the journal {journal} is being written by {who}, and one process writes a SQLite journal: "
        "end that process, or give this one a journal of its own",
        path=str(journal),
        holder_pid=holder,
    )


def _let_go_in_child() -> None:
    # A lock is shared with a forked child as long as it has the handle: it would outlive the parent.
    for handle in list(_held):
        with suppress(OSError):
            _close(handle)


os.register_at_fork(after_in_child=_let_go_in_child)
