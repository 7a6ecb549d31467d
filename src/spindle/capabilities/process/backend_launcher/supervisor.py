"""Waiting for a command under orders, and ending all that it started. Used by the launcher."""

import os
import select
import time

from spindle.capabilities.process.backend_launcher.confine import IS_LINUX, SIGKILL, SIGTERM

_LOOK_AGAIN_MS = 10
_PATIENCE_SECONDS = 5.0
"""How long to wait for processes that were killed; only one that hangs in the kernel takes longer."""


class Supervisor:
    """The parent of one command, and of everything that its descendants leave behind."""

    def __init__(self, control: int, *, grace_seconds: float) -> None:
        self._control = control
        self._grace = grace_seconds
        self._kill_at: float | None = None
        self._orders = select.poll()
        self._orders.register(control, select.POLLIN)
        self._child = 0
        """The command's number as long as it is its own, which is until it is reaped."""

    def may_go(self) -> bool:
        """Wait for the order to begin."""
        return os.read(self._control, 1) == b"g"

    def wait_for(self, child: int) -> tuple[int | None, int | None]:
        """Wait for the command's end, obeying orders meanwhile; give its exit code, or the signal that ended it."""
        self._child = child
        ended = _ChildEnd(child)
        if ended.descriptor is not None:
            self._orders.register(ended.descriptor, select.POLLIN)
        while (status := ended.status()) is None:
            self._orders.poll(self._pause(ended))
            self._obey()
            self._kill_when_due()
        if ended.descriptor is not None:
            self._orders.unregister(ended.descriptor)
            os.close(ended.descriptor)
        return status

    def sweep(self) -> bool:
        """End whatever the command left behind, gently first; tell whether all is gone."""
        self._signal_all(SIGKILL if self._kill_at is not None or not IS_LINUX else SIGTERM)
        self._child = 0
        started = time.monotonic()
        while not _reap_all():
            self._obey()
            now = time.monotonic()
            if now - started > self._grace or self._kill_at is not None:
                self._signal_all(SIGKILL)
            if now - started > self._grace + _PATIENCE_SECONDS:
                return False
            self._orders.poll(_LOOK_AGAIN_MS)
        return True

    def _pause(self, ended: "_ChildEnd") -> float | None:
        """Milliseconds until something must be done by itself."""
        if ended.descriptor is None:
            return _LOOK_AGAIN_MS
        if self._kill_at is None:
            return None
        return max(0.0, self._kill_at - time.monotonic()) * 1000 + 1

    def _obey(self) -> None:
        if not any(descriptor == self._control for descriptor, _ in self._orders.poll(0)):
            return
        order = os.read(self._control, 1)
        if order == b"t":
            self._signal_all(SIGTERM)
            self._kill_at = time.monotonic() + self._grace
            return
        if not order:
            self._orders.unregister(self._control)
        self._kill_at = time.monotonic()

    def _kill_when_due(self) -> None:
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._signal_all(SIGKILL)
            # Again, should one of them have been forking just then.
            self._kill_at = time.monotonic() + _LOOK_AGAIN_MS / 1000

    def _signal_all(self, number: int) -> None:
        """Signal the command's group, and beyond it all that a namespace or an adoption makes ours."""
        if self._child and not _signal_group(self._child, number):
            _signal(self._child, number)
        if os.getpid() == 1:
            _signal(-1, number)
            return
        for pid in _children():
            if pid != self._child:
                _signal(pid, number)


class _ChildEnd:
    """The end of a child, noticed without reaping it: its number stays taken while its group is signalled."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self.descriptor: int | None = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.descriptor = None

    def status(self) -> tuple[int | None, int | None] | None:
        """Give its exit code, or the signal that ended it, if it has ended."""
        info = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if info is None:
            return None
        return (info.si_status, None) if info.si_code == os.CLD_EXITED else (None, info.si_status)


def _reap_all() -> bool:
    """Bury the dead; tell whether none is left alive."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:  # noqa: PTH123 - nor pathlib
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
    try:  # noqa: SIM105 - the launcher does not pay for importing contextlib
        os.kill(pid, number)
    except OSError:
        pass
