"""Long-running programs: the start of one through the launcher, and its end with every process it started."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

from spindle.capabilities.process.backend_launch import LauncherProcess, LauncherReport, launch
from spindle.capabilities.process.backend_sandbox import (
    PidsCgroup,
    Sandbox,
    SandboxKind,
    find_sandbox,
    get_required_enforcement,
)
from spindle.capabilities.process.backend_view import VisiblePaths, skip_configuration
from spindle.capabilities.process.policy import ProcessLimits
from spindle.errors import SandboxUnavailableError
from spindle.json_types import JsonObject

_REAP_SECONDS = 8.0
_REPORT_BYTES = 65_536


_detected: dict[tuple[object, ...], Sandbox] = {}
_detection_lock = Lock()


def detect_sandbox(kinds: Sequence[SandboxKind], view: VisiblePaths, *, is_required: bool) -> Sandbox:
    """Return the best sandbox of this machine for a program; the first call probes it, and blocks.

    Raises:
        SandboxUnavailableError: It is required, and the machine cannot enforce what the view needs.
    """
    key = (*kinds, view.network, os.getuid())
    with _detection_lock:
        sandbox = _detected.get(key)
        if sandbox is None:
            empty = VisiblePaths.from_grants(view.root, (), (), network=view.network)
            sandbox = find_sandbox("auto", empty, kinds)
            if sandbox.is_confining:  # a failure may pass
                _detected[key] = sandbox
    lacking = [name for name in list_requirements(view) if name not in sandbox.enforced]
    if is_required and lacking:
        why = "; ".join(f"{name}: {reason}" for name, reason in sandbox.missing.items()) or f"{sandbox.kind} cannot"
        hint = (
            "" if "files" in lacking or "network" in lacking else "; do not declare write for folders with such files"
        )
        raise SandboxUnavailableError(
            f"a sandbox is required, but this machine cannot enforce {', '.join(lacking)} ({why}); install "
            f"bubblewrap, or allow user namespaces{hint}",
            missing=lacking,
        )
    return sandbox


def list_requirements(view: VisiblePaths) -> tuple[str, ...]:
    """Return the names of what a sandbox must enforce, so that a program reaches no more than the view."""
    return tuple(dict.fromkeys((*get_required_enforcement(view), *view.list_requirements())))


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramStart:
    """What to start, and how it is confined."""

    path: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    view: VisiblePaths
    sandbox: Sandbox
    is_required: bool
    limits: ProcessLimits
    grace_seconds: float

    def build_plan(self, *, wait: bool) -> JsonObject:
        """Return the launcher's plan."""
        required = list_requirements(self.view) if self.is_required else ()
        skipping = skip_configuration(self.view, self.env, self.view.root) if self.sandbox.is_confining else {}
        return self.sandbox.build_plan(self.view, cwd=self.cwd, required=required) | {
            "path": self.path,
            "argv": self.argv,
            "env": {**skipping, **self.env},
            "within": "/",
            "umask": _get_umask(),
            "limits": asdict(self.limits),
            "grace_seconds": self.grace_seconds,
            "wait": wait,
        }


class RunningProgram:
    """A program started through the launcher; its pipes are those of `launched`."""

    def __init__(self, launched: LauncherProcess, group: PidsCgroup | None, limits: ProcessLimits) -> None:
        self.launched = launched
        self.report = LauncherReport()
        self.is_report_closed = False
        self._group = group
        self._limits = limits

    @classmethod
    def start(cls, start: ProgramStart) -> "RunningProgram":
        """Start the launcher, which blocks; the program runs after `read_report` has seen that it is ready.

        Raises:
            OSError: The launcher cannot be started.
        """
        # rlimits do not bind root.
        needs_group = os.getuid() == 0 and start.limits.processes is not None
        group = PidsCgroup.create() if needs_group else None
        try:
            prefix = start.sandbox.build_prefix(start.view)
            launched = launch(prefix, start.build_plan(wait=group is not None), feed=True)
        except BaseException:
            if group is not None:
                group.remove()
            raise
        return cls(launched, group, start.limits)

    @property
    def enforced(self) -> frozenset[str]:
        """What is enforced for it, as far as the report tells."""
        return frozenset((*self.report.enforced, *(("processes",) if self._group is not None else ())))

    @property
    def has_started(self) -> bool:
        """Whether it was started, as far as the report tells, or will never be."""
        return bool(self.report.enforced) or self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether the program itself has ended, or was not started."""
        return self.report.has_ended or self.is_report_closed

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""
        if not self.has_ended:
            return None
        if self.report.exit_code is not None:
            return self.report.exit_code
        return -(self.report.signal or signal.SIGKILL)

    def read_report(self) -> None:
        """Read what the launcher has reported, without waiting; release it when it is ready."""
        while not self.is_report_closed:
            try:
                data = os.read(self.launched.report, _REPORT_BYTES)
            except BlockingIOError:
                return
            self.is_report_closed = not data
            was_ready = self.report.is_ready
            self.report.feed(data)
            if self.report.is_ready and not was_ready:
                self._release()

    def _release(self) -> None:
        try:
            if self._group is not None and self._limits.processes is not None:
                self._group.add_processes(self.launched.process.pid, self._limits.processes)
        except OSError as error:
            self.report.failure = self.report.failure or ("limits", error.errno or 0, str(error))
            self.launched.send_command(b"k")
        else:
            self.launched.send_command(b"g")

    def terminate(self) -> None:
        """Ask all of its processes to end; those that do not are killed after the grace period."""
        self.launched.send_command(b"t")

    def kill(self) -> None:
        """Kill all of its processes."""
        self.launched.send_command(b"k")

    def reap(self) -> None:
        """Wait for the launcher after its pipes were closed, kill it if it does not end, and remove its cgroup."""
        process = self.launched.process
        try:
            process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            _kill_group(process.pid)
            process.wait()
        if not self.report.has_ended and self.report.started_pid and "pids" not in self.report.enforced:
            _kill_group(self.report.started_pid)
        if self._group is not None:
            self._group.remove()


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _get_umask() -> int:
    """Return the umask of this process; the system call that reads it would change it for other threads."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("Umask:"):
                return int(line.partition(":")[2], 8)
    return 0o077
