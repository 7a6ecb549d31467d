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


class _RefusedError(Exception):
    """A step before the start failed; it has already been reported."""


class Report:
    """The report pipe to the parent process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, *words: object) -> None:
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
    report = Report(report_fd)
    try:
        plan = _read_plan(plan_fd)
        _live(plan, report, control_fd)
    except _RefusedError:
        pass
    except BaseException as error:  # noqa: BLE001 - every failure must be reported
        report.say("failed", "launcher", getattr(error, "errno", None) or 0, f"{type(error).__name__}: {error}")
    os._exit(NOT_STARTED)


def _read_plan(descriptor: int) -> "Plan":
    with open(descriptor, "rb") as file:
        return marshal.loads(file.read())  # noqa: S302 - written by the parent process


def _live(plan: "Plan", report: Report, control: int) -> None:
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
        report.say("ready")
        if not supervisor.may_go():
            return
    _run(plan, report, supervisor, enforced)


def _become_first_process(report: Report, control: int) -> None:
    """Fork: the child continues as the first process of its pid namespace, the parent only waits for it."""
    first = os.fork()
    if first == 0:
        confine.die_with_parent()
        return
    report.close()
    os.close(control)
    _let_go_of_streams()
    os.waitpid(first, 0)
    os._exit(0)


def _enter_private_root(plan: "Plan", report: Report) -> list[str]:
    try:
        return private_root.enter_private_root(plan["root"], plan["files"])
    except OSError as error:
        report.say("missing", "root", error.strerror)
    return ["proc"] if confine.own_proc() else []


def _run(plan: "Plan", report: Report, supervisor: Supervisor, enforced: list[str]) -> "NoReturn":
    child = os.fork()
    if child == 0:
        try:
            _become_the_command(plan, report, enforced)
        finally:
            os._exit(NOT_STARTED)
    _let_go_of_streams()
    report.say("started", child)
    code, signal = supervisor.wait_for(child)
    report.say("ended", "" if code is None else code, "" if signal is None else signal)
    if not supervisor.sweep():
        report.say("survivors")
    os._exit(0)


def _become_the_command(plan: "Plan", report: Report, enforced: list[str]) -> None:
    stage = "confine"
    try:
        os.setsid()
        _enter_folder(plan, report)
        _confine(plan, report, enforced)
        if plan["path"] is None:
            os._exit(0)
        confine.default_signals()
        confine.apply_limits(plan["limits"])
        stage = "start"
        os.execve(plan["path"], plan["argv"], plan["env"])  # noqa: S606 - the purpose of the launcher
    except _RefusedError:
        pass
    except Exception as error:  # noqa: BLE001 - every failure must be reported
        report.say("failed", stage, getattr(error, "errno", None) or 0, error)


def _enter_folder(plan: "Plan", report: Report) -> None:
    try:
        os.chdir(plan["cwd"])
    except OSError as error:
        report.say("failed", "cwd", error.errno or 0, error.strerror)
        raise _RefusedError from error
    # Checked after chdir, so that a link planted between a check and the chdir has no effect.
    here = os.getcwd()  # noqa: PTH109 - importing pathlib would slow down the launcher
    if here != plan["root"] and not here.startswith(plan["root"].rstrip("/") + "/"):
        report.say("failed", "outside", 0, here)
        raise _RefusedError


def _confine(plan: "Plan", report: Report, enforced: list[str]) -> None:
    files = plan["files"]
    processes = plan["limits"].get("processes")
    # Must come first: counting the user's processes needs access to /proc.
    if processes is not None and confine.limit_processes(processes, own_user_namespace=_has_own_user_namespace(plan)):
        enforced.append("processes")
    if confine.IS_LINUX:
        confine.no_new_privileges()
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
            report.say("missing", "landlock", error.strerror)
    report.say("enforced", *enforced)
    lacking = [name for name in plan["required"] if name not in enforced]
    if lacking:
        report.say("failed", "sandbox", 0, " ".join(lacking))
        raise _RefusedError


def _has_own_user_namespace(plan: "Plan") -> bool:
    try:
        return os.readlink("/proc/self/ns/user") != plan["user_namespace"]  # noqa: PTH115 - as above
    except OSError:
        return False


def _let_go_of_streams() -> None:
    """Release the command's pipes, so that they close as soon as its own processes have ended."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[-3:]))
