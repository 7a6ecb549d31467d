"""The launcher: a small program that confines itself, starts the command and ends every process it started.

It is a separate program, started for each command, because Python code between fork and exec in a threaded program
may deadlock on a lock whose owner thread does not exist in the child. It reports events on one pipe, one line each, and
reads commands from another: `g` to start, `t` to terminate, `k` to kill; a closed control pipe means kill.
"""

import marshal
import os
import sys

from spindle.capabilities.process.backend_launcher import confine, private_root
from spindle.capabilities.process.backend_launcher.supervisor import Supervisor

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
    confine.ignore_signals(1, 2, 3, confine.SIGTERM)
    enforced: list[str] = list(plan["given"])
    if plan["namespaces"]:
        enforced += confine.enter_namespaces(network=plan["network"])
    if "pids" in enforced and plan["namespaces"]:
        _become_first_process(report, control)
        enforced += _enter_private_root(plan, report)
    elif confine.IS_LINUX:
        confine.adopt_orphans()
    if confine.IS_LINUX:
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


def _run(plan: "Plan", report: ReportPipe, supervisor: Supervisor, enforced: list[str]) -> "NoReturn":
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
    if here != plan["root"] and not here.startswith(plan["root"].rstrip("/") + "/"):
        report.send("failed", "outside", 0, here)
        raise _ReportedError


def _confine(plan: "Plan", report: ReportPipe, enforced: list[str]) -> None:
    files = plan["files"]
    processes = plan["limits"].get("processes")
    # Must come first: counting the user's processes needs access to /proc.
    if processes is not None and confine.limit_processes(processes, own_user_namespace=_has_own_user_namespace(plan)):
        enforced.append("processes")
    if confine.IS_LINUX:
        confine.forbid_new_privileges()
        enforced.append("no_new_privileges")
    if plan["confine"] and confine.IS_LINUX:
        confine.drop_capabilities()
        enforced.append("capabilities")
    if files is not None:
        try:
            restricted = confine.restrict_with_landlock(
                read=[*files["read"], *(("/proc",) if "proc" in enforced else files["own_proc"])],
                write=files["write"],
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


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[-3:]))
