"""Noticing the end of a child process without asking again and again, and killing it with all it started."""

import os
import signal
from contextlib import suppress
from threading import Thread


class ChildExit:
    """The end of a child: a descriptor that becomes readable when it comes, and the status it leaves."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None
        self._thread: Thread | None = None
        try:
            self.descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            # Not Linux, or a sandbox that forbids it: a thread waits instead, and closes a pipe.
            self.descriptor = self._watch()

    def _watch(self) -> int:
        reading, writing = os.pipe()
        self._thread = Thread(target=self._wait_and_close, args=(writing,), name="spindle-child", daemon=True)
        self._thread.start()
        return reading

    def _wait_and_close(self, writing: int) -> None:
        self._status = reap(self._pid)
        os.close(writing)

    def reap(self) -> int | None:
        """Wait for the end; give the exit code, or the negative number of the signal, if it can be known."""
        if self._thread is None:
            self._status = reap(self._pid)
        else:
            self._thread.join()
        os.close(self.descriptor)
        return self._status


def reap(pid: int) -> int | None:
    """Wait for a child's end; give the exit code, or the negative number of the signal, if it can be known."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        # Where somebody ignores SIGCHLD the system reaps by itself, and nobody learns the status.
        return None


def kill_group(pid: int) -> None:
    """Kill a child that leads its own group, and everything in that group."""
    # A child that is not a leader yet has started nothing yet. Without permission, it is a zombie (macOS says so).
    with suppress(ProcessLookupError, PermissionError):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)
