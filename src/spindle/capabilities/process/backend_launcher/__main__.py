"""The launcher: a small program that confines itself, starts the command and ends every process it started.

It is a separate program, started for each command, because Python code between fork and exec in a threaded program
may deadlock on a lock whose owner thread does not exist in the child. It reports events on one pipe, one line each, and
reads commands from another: `g` to start, `t` to terminate, `k` to kill; a closed control pipe means kill.
"""

import marshal
import os
import select
import sys
import time

from spindle.capabilities.process.backend_launcher import confine, private_root
from spindle.capabilities.process.backend_launcher.confine import IS_LINUX, SIGKILL, SIGTERM

TYPE_CHECKING = False  # pyright reads it as true; importing typing would cost more than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Plan = dict[str, Any]

NOT_STARTED = 126


class _ReportedError(Exception):
    """A step before the start failed; it has already been reported."""


class ReportPipe:
    """The report pipe to the parent process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, *words: object) -> None:
        """Send one line."""
        line = "\t".join(str(word).replace("\n", " ").replace("\t", " ") for word in words) + "\n"
        try:  # noqa: SIM105 - importing contextlib would slow down the launcher
            os.write(self._descriptor, line.encode("utf-8", "replace"))
        except OSError:
            pass  # the parent is gone, but the processes of the command must still be ended

    def close(self) -> None:
        """Close the report pipe."""
        os.close(self._descriptor)


def main(plan_fd: int, report_fd: int, control_fd: int) -> "NoReturn":
    """Run the plan and exit; never return."""
    for descriptor in (report_fd, control_fd):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - its signature
    report = ReportPipe(report_fd)
    try:
        plan = _read_plan(plan_fd)
        _execute_plan(plan, report, control_fd)
    except _ReportedError:
        pass
    except BaseException as error:  # noqa: BLE001 - every failure must be reported
        report.send("failed", "launcher", getattr(error, "errno", None) or 0, f"{type(error).__name__}: {error}")
    os._exit(NOT_STARTED)


def _read_plan(descriptor: int) -> "Plan":
    with open(descriptor, "rb") as file:
        return marshal.loads(file.read())  # noqa: S302 - written by the parent process


def _execute_plan(plan: "Plan", report: ReportPipe, control: int) -> None:
    os.umask(plan["umask"])
    confine.ignore_signals(1, 2, 3, SIGTERM)
    enforced: list[str] = list(plan["given"])
    if plan["namespaces"]:
        enforced += confine.enter_namespaces(network=plan["network"])
    if "pids" in enforced and plan["namespaces"]:
        _become_first_process(report, control)
        enforced += _enter_private_root(plan, report)
    elif IS_LINUX:
        confine.adopt_orphans()
    if IS_LINUX:
        confine.hide_memory()
    supervisor = Supervisor(control, grace_seconds=plan["grace_seconds"])
    if plan["wait"]:
        report.send("ready")
        if not supervisor.wait_for_go():
            return
    _run(plan, report, supervisor, enforced)


def _become_first_process(report: ReportPipe, control: int) -> None:
    """Fork: the child continues as the first process of its pid namespace, the parent only waits for it."""
    first = os.fork()
    if first == 0:
        confine.die_with_parent()
        return
    report.close()
    os.close(control)
    _release_streams()
    os.waitpid(first, 0)
    os._exit(0)


def _enter_private_root(plan: "Plan", report: ReportPipe) -> list[str]:
    try:
        return private_root.enter_private_root(plan["root"], plan["files"])
    except OSError as error:
        report.send("missing", "root", error.strerror)
    return ["proc"] if confine.mount_own_proc() else []


def _run(plan: "Plan", report: ReportPipe, supervisor: "Supervisor", enforced: list[str]) -> "NoReturn":
    child = os.fork()
    if child == 0:
        try:
            _exec_command(plan, report, enforced)
        finally:
            os._exit(NOT_STARTED)
    _release_streams()
    report.send("started", child)
    code, signal = supervisor.wait_for(child)
    report.send("ended", "" if code is None else code, "" if signal is None else signal)
    if not supervisor.end_descendants():
        report.send("survivors")
    os._exit(0)


def _exec_command(plan: "Plan", report: ReportPipe, enforced: list[str]) -> None:
    stage = "confine"
    try:
        os.setsid()
        _enter_folder(plan, report)
        _confine(plan, report, enforced)
        if plan["path"] is None:
            os._exit(0)
        confine.reset_signals()
        confine.apply_limits(plan["limits"])
        stage = "start"
        os.execve(plan["path"], plan["argv"], plan["env"])  # noqa: S606 - the purpose of the launcher
    except _ReportedError:
        pass
    except Exception as error:  # noqa: BLE001 - every failure must be reported
        report.send("failed", stage, getattr(error, "errno", None) or 0, error)


def _enter_folder(plan: "Plan", report: ReportPipe) -> None:
    try:
        os.chdir(plan["cwd"])
    except OSError as error:
        report.send("failed", "cwd", error.errno or 0, error.strerror)
        raise _ReportedError from error
    # Checked after chdir, so that a link planted between a check and the chdir has no effect.
    here = os.getcwd()  # noqa: PTH109 - importing pathlib would slow down the launcher
    within = plan["within"]
    if here != within and not here.startswith(within.rstrip("/") + "/"):
        report.send("failed", "outside", 0, here)
        raise _ReportedError


def _confine(plan: "Plan", report: ReportPipe, enforced: list[str]) -> None:
    files = plan["files"]
    processes = plan["limits"].get("processes")
    # Must come first: counting the user's processes needs access to /proc.
    if processes is not None and confine.limit_processes(processes, own_user_namespace=_has_own_user_namespace(plan)):
        enforced.append("processes")
    if IS_LINUX:
        confine.forbid_new_privileges()
        enforced.append("no_new_privileges")
    if plan["confine"] and IS_LINUX:
        confine.drop_capabilities()
        enforced.append("capabilities")
    if files is not None:
        try:
            # Without a root of its own, the command must not be granted folders with hidden files in them.
            is_hiding = "root" in enforced
            readable = files["read"] if is_hiding else files["split_read"]
            restricted = confine.restrict_with_landlock(
                read=[*readable, *(("/proc",) if "proc" in enforced else files["own_proc"])],
                write=files["write"],
                write_only=files["write_only"],
                listed=files["listed"] if is_hiding else files["between"],
                devices=files["devices"],
                network=plan["network"],
            )
            enforced += [name for name in restricted if name not in enforced]
        except OSError as error:
            report.send("missing", "landlock", error.strerror)
    report.send("enforced", *enforced)
    lacking = [name for name in plan["required"] if name not in enforced]
    if lacking:
        report.send("failed", "sandbox", 0, " ".join(lacking))
        raise _ReportedError


def _has_own_user_namespace(plan: "Plan") -> bool:
    try:
        return os.readlink("/proc/self/ns/user") != plan["user_namespace"]  # noqa: PTH115 - as above
    except OSError:
        return False


def _release_streams() -> None:
    """Release the command's pipes, so that they close as soon as its own processes have ended."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


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


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[-3:]))
