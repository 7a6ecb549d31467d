"""The launcher's supervisor: waits for the command, handles control messages and ends leftover processes."""

import os
import select
import time

from spindle.capabilities.process.backend_launcher.confine import IS_LINUX, SIGKILL, SIGTERM

_POLL_INTERVAL_MS = 10
_KILL_TIMEOUT_SECONDS = 5.0
"""How long to wait for killed processes; only one that is stuck in the kernel takes longer."""


class Supervisor:
    """The parent process of one command and of its orphaned descendants."""

    def __init__(self, control: int, *, grace_seconds: float) -> None:
        self._control = control
        self._grace = grace_seconds
        self._kill_at: float | None = None
        self._poller = select.poll()
        self._poller.register(control, select.POLLIN)
        self._child = 0
        """The command's pid, or 0 once it may have been reaped and the pid reused."""

    def wait_for_go(self) -> bool:
        """Wait for a control message; return True if it says to start."""
        return os.read(self._control, 1) == b"g"

    def wait_for(self, child: int) -> tuple[int | None, int | None]:
        """Wait for the command while handling control messages; return its exit code and the signal that ended it."""
        self._child = child
        ended = _ChildExit(child)
        if ended.descriptor is not None:
            self._poller.register(ended.descriptor, select.POLLIN)
        while (status := ended.status()) is None:
            self._poller.poll(self._get_poll_timeout(ended))
            self._handle_command()
            self._kill_when_due()
        if ended.descriptor is not None:
            self._poller.unregister(ended.descriptor)
            os.close(ended.descriptor)
        return status

    def end_descendants(self) -> bool:
        """Terminate, then kill, all remaining processes of the command; return True if none is left."""
        self._signal_all(SIGKILL if self._kill_at is not None or not IS_LINUX else SIGTERM)
        self._child = 0
        started = time.monotonic()
        while not _reap_all():
            self._handle_command()
            now = time.monotonic()
            if now - started > self._grace or self._kill_at is not None:
                self._signal_all(SIGKILL)
            if now - started > self._grace + _KILL_TIMEOUT_SECONDS:
                return False
            self._poller.poll(_POLL_INTERVAL_MS)
        return True

    def _get_poll_timeout(self, ended: "_ChildExit") -> float | None:
        """Return the milliseconds until the next action is due, or None to wait for an event."""
        if ended.descriptor is None:
            return _POLL_INTERVAL_MS
        if self._kill_at is None:
            return None
        return max(0.0, self._kill_at - time.monotonic()) * 1000 + 1

    def _handle_command(self) -> None:
        if not any(descriptor == self._control for descriptor, _ in self._poller.poll(0)):
            return
        order = os.read(self._control, 1)
        if order == b"t":
            self._signal_all(SIGTERM)
            self._kill_at = time.monotonic() + self._grace
            return
        if not order:
            self._poller.unregister(self._control)
        self._kill_at = time.monotonic()

    def _kill_when_due(self) -> None:
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._signal_all(SIGKILL)
            # Repeated, because a process may have forked at that moment.
            self._kill_at = time.monotonic() + _POLL_INTERVAL_MS / 1000

    def _signal_all(self, number: int) -> None:
        """Signal the command's process group, and all other processes of the namespace or adopted children."""
        if self._child and not _signal_group(self._child, number):
            _signal(self._child, number)
        if os.getpid() == 1:
            _signal(-1, number)
            return
        for pid in _children():
            if pid != self._child:
                _signal(pid, number)


class _ChildExit:
    """Detects the end of a child without reaping it, so that its pid is not reused while its group is signalled."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self.descriptor: int | None = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.descriptor = None

    def status(self) -> tuple[int | None, int | None] | None:
        """Return the child's exit code and the signal that ended it, or None while it runs."""
        info = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if info is None:
            return None
        return (info.si_status, None) if info.si_code == os.CLD_EXITED else (None, info.si_status)


def _reap_all() -> bool:
    """Reap exited children; return True if none are still running."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:  # noqa: PTH123 - importing pathlib would slow down the launcher
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


def _signal(pid: int, number: int) -> None:
    try:  # noqa: SIM105 - importing contextlib would slow down the launcher
        os.kill(pid, number)
    except OSError:
        pass
