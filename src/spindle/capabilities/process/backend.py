"""The process backend of this machine: finds programs and runs each command through a launcher process."""

import errno
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from uuid import uuid4

import anyio
import anyio.to_thread

from spindle.capabilities.declare import CallScope, FileReach
from spindle.capabilities.files.paths import Places
from spindle.capabilities.process.backend_run import LOOSEN_HINT, CommandRun, CommandStart, OutputCapture
from spindle.capabilities.process.backend_sandbox import (
    SANDBOX_KINDS,
    PidsCgroup,
    Sandbox,
    SandboxKind,
    find_sandbox,
)
from spindle.capabilities.process.backend_view import CommandReach, VisiblePaths, WithheldFinder
from spindle.capabilities.process.policy import (
    SEARCH_PATH,
    SHELL,
    CommandRules,
    Finished,
    ProcessLimits,
    SandboxMode,
    check_argv,
    check_commands,
    check_cwd,
    check_env,
    check_env_names,
    check_stdin,
    check_timeout,
)
from spindle.errors import (
    ArgumentsTooLongError,
    CapabilityError,
    ProcessStartError,
    ProgramNotExecutableError,
    ProgramNotFoundError,
    SandboxUnavailableError,
)
from spindle.json_types import JsonObject


class ProgramFinder:
    """A cached lookup of programs on a search path that is independent of the host's `PATH`."""

    def __init__(self, search_path: str) -> None:
        # A relative folder would make the result depend on the current working directory.
        self._folders = [folder for folder in search_path.split(os.pathsep) if folder.startswith("/")]
        self._found: dict[str, str] = {}

    def find(self, command: str) -> str:
        """Return the absolute path of a command's program.

        Raises:
            ProgramNotFoundError: No such program exists.
            ProgramNotExecutableError: The file exists, but is not an executable program.
        """
        if command not in self._found:
            self._found[command] = self._search(command)
        return self._found[command]

    def _search(self, command: str) -> str:
        places = [Path(command)] if "/" in command else [Path(folder, command) for folder in self._folders]
        unusable: Path | None = None
        for place in places:
            if place.is_file() and os.access(place, os.X_OK):
                return str(place)
            if place.exists():
                unusable = unusable or place
        if unusable is not None:
            raise ProgramNotExecutableError(f"{command}: {unusable} is not an executable file", command=command)
        looked = "there" if "/" in command else ":".join(self._folders)
        raise ProgramNotFoundError(f"{command}: no such program ({looked}); is it installed?", command=command)


class ProcessBackend:
    """A backend that runs the granted commands, each confined to `root` and the paths granted here.

    `commands` are bare names, looked up on a fixed search path (or on `env["PATH"]`), absolute paths, or `*` for every
    bare name. Shell command lines need `shell=True`. A command sees what `read` and `write` grant below the root, of a
    tool that declares files only what it declared too; credential files, except for `credential_files`, and Spindle's
    own files are hidden. `sandbox` is "auto" (the best available; refuses a command that may reach less than the root
    if none can enforce that), "required" (files and network are enforced, or nothing runs) or "none" (nothing of this
    is enforced); `sandbox_kinds` are tried in order. A command that is asked to terminate is killed after
    `grace_seconds`. Tools may not set variables that decide which code runs, such as `PYTHONPATH`, except for those in
    `allowed_env`.
    """

    def __init__(
        self,
        commands: Iterable[str] = (),
        *,
        root: str | os.PathLike[str],
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        allowed_env: Iterable[str] = (),
        limits: ProcessLimits | None = None,
        sandbox: SandboxMode = "auto",
        read: Iterable[str] | None = None,
        write: Iterable[str] | None = None,
        credential_files: Iterable[str] = (),
        read_paths: Iterable[str] = (),
        write_paths: Iterable[str] = (),
        network: bool = False,
        grace_seconds: float = 1.0,
        sandbox_kinds: Iterable[SandboxKind] = SANDBOX_KINDS,
    ) -> None:
        """Validate the grants; the sandbox is detected when the first command runs.

        Raises:
            CapabilityError: A grant is invalid, or the platform is not a POSIX system.
        """
        if sys.platform == "win32":
            raise CapabilityError("the process capability needs Linux, or another POSIX system", field="process")
        if sandbox not in {"auto", "required", "none", "off"}:
            raise CapabilityError(f"sandbox: expected auto, required or none, got {sandbox!r}", field="process")
        granted = check_commands(commands)
        self.commands = granted | {SHELL} if shell else granted
        self.shell = shell
        self.limits = limits or ProcessLimits()
        self.mode: SandboxMode = sandbox
        self.grace_seconds = grace_seconds
        self.env = {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", **check_env(env, pinned=False)}
        self.allowed_env = check_env_names(allowed_env)
        self.programs = ProgramFinder(self.env["PATH"])
        Path(root).mkdir(parents=True, exist_ok=True)
        self._granted = CommandReach(
            read=Places((".",) if read is None else read, what="process: read").tops,
            write=Places((".",) if write is None else write, what="process: write").tops,
        )
        self.view = VisiblePaths.from_grants(os.fspath(root), read_paths, write_paths, network=network)
        self._finder = WithheldFinder(self.view.root, credential_files)
        self._kinds = tuple(sandbox_kinds)
        self._sandbox: Sandbox | None = None
        self._sandbox_lock = Lock()

    def lacking(self, need: Iterable[str]) -> list[str]:
        """Return the declared commands that are not granted."""
        wild = "*" in self.commands
        return [name for name in need if name not in self.commands and ("/" in name or not wild)]

    def open(self, need: Iterable[str], scope: CallScope) -> "LocalProcess":
        """Return the handle of one call."""
        return LocalProcess(self, CommandRules(frozenset(need), self.commands, scope.tool), scope)

    def sandbox(self) -> Sandbox:
        """Return the sandbox that commands run in; the first call probes what this machine supports.

        Raises:
            SandboxUnavailableError: A sandbox is required, but none is available.
        """
        with self._sandbox_lock:
            if self._sandbox is None:
                self._sandbox = find_sandbox(self.mode, self.view, self._kinds)
            return self._sandbox

    def find_view(self, declared: FileReach | None) -> VisiblePaths:
        """Return the paths that a command sees: what was granted and, of a tool that declares files, declared too.

        It looks for withheld files in them, which blocks.

        Raises:
            CapabilityError: The tool declared a path outside the root, or there are too many folders to search.
        """
        if self.mode in {"none", "off"}:
            return self.view
        return self._finder.hide(self.view.with_reach(CommandReach.build(self._granted, declared)))

    def enforcement(self) -> JsonObject:
        """Return what is enforced, by which mechanism, and what is missing; the first call probes it and blocks."""
        try:
            sandbox = self.sandbox()
        except SandboxUnavailableError as error:
            return {"sandbox": "unavailable", "enforced": [], "missing": dict.fromkeys(error.missing, str(error))}
        missing = dict(sandbox.missing)
        processes = "rlimit" if os.getuid() else self._cgroup_or_none()
        if processes is None and self.limits.processes is not None:
            missing["processes"] = "root is not bound by rlimits, and no pids cgroup can be created here"
        if "files" in sandbox.enforced and "root" not in sandbox.enforced:
            missing["unix_sockets"] = (
                "Landlock alone lets a command connect to sockets in the file system; only a private root hides them"
            )
        if "pids" not in sandbox.enforced:
            missing["daemons"] = (
                "no pid namespace; processes that leave the process group are adopted and killed by the launcher"
            )
        return {
            "sandbox": sandbox.kind,
            "enforced": sorted(sandbox.enforced),
            "processes": processes,
            "missing": missing,
        }

    @staticmethod
    def _cgroup_or_none() -> str | None:
        group = PidsCgroup.create()
        if group is None:
            return None
        group.remove()
        return "pids cgroup"


class LocalProcess:
    """The process handle of one call."""

    def __init__(self, backend: ProcessBackend, rules: CommandRules, scope: CallScope) -> None:
        self._backend = backend
        self._rules = rules
        self._scope = scope

    async def run(
        self,
        argv: Sequence[str] | str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        timeout_seconds: float | None = None,
    ) -> Finished:
        """Run one command to its end, and end every process it started.

        Raises:
            CommandNotAllowedError: The tool did not declare the command, or it is not granted.
            SandboxUnavailableError: A sandbox is required, but this machine has none.
            ProcessStartError: The command did not start: no such program, not executable, arguments too long.
            CapabilityError: An argument has the wrong type, or `cwd` is outside the root.
        """
        backend, tool = self._backend, self._scope.tool
        words = check_argv(argv, shell=backend.shell, tool=tool)
        self._rules.check(words[0])
        variables = backend.env | check_env(env, pinned=True, allowed=backend.allowed_env, tool=tool)
        folder = check_cwd(backend.view.root, cwd, tool)
        data = check_stdin(stdin, tool)
        seconds = check_timeout(timeout_seconds, tool)
        path = await anyio.to_thread.run_sync(backend.programs.find, words[0])
        start = CommandStart(backend, path, words, variables, folder, declared=self._scope.files)
        outputs = (self._new_capture("stdout"), self._new_capture("stderr"))
        try:
            launched = await anyio.to_thread.run_sync(start.launch, data is not None)
            run = CommandRun(launched, grace_seconds=backend.grace_seconds)
            await run.run_to_end(data, outputs, timeout_seconds=seconds, on_ready=start.limit_processes)
        except OSError as error:
            raise ProcessStartError(
                f"{words[0]}: its launcher did not start: {error}", command=words[0], errno=error.errno, tool=tool
            ) from error
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(start.clean_up)
        self._raise_for_failure(run, words[0], cwd)
        return _build_result(run, *outputs)

    def _new_capture(self, name: str) -> OutputCapture:
        limits, scope = self._backend.limits, self._scope
        return OutputCapture(
            name,
            keep_bytes=limits.output_bytes,
            spool_bytes=limits.spool_bytes,
            spool=scope.spool,
            redactor=scope.redactor,
            id=f"process-{uuid4().hex}-{name}",
            turn_id=scope.turn_id,
        )

    def _raise_for_failure(self, run: CommandRun, command: str, cwd: str | None) -> None:
        tool, story = self._scope.tool, run.report
        if story.failure is None:
            if story.has_ended:
                return
            why = f"was not released: {run.release_error}" if run.release_error else "was killed before it ended"
            raise ProcessStartError(f"{command}: its launcher {why}", command=command, tool=tool)
        stage, number, words = story.failure
        if stage == "sandbox":
            raise SandboxUnavailableError(
                f"a sandbox must enforce {words} for this command and cannot; {LOOSEN_HINT}",
                missing=words.split(),
                tool=tool,
            )
        if stage in {"cwd", "outside"}:
            why = "is outside the granted root" if stage == "outside" else f"cannot be entered: {words}"
            raise CapabilityError(f"cwd: {cwd!r} {why}", tool=tool, field="cwd")
        raise _START_ERRORS.get(number if stage == "start" else 0, ProcessStartError)(
            f"{command} did not start: {words}", command=command, errno=number or None, tool=tool
        )


_START_ERRORS: dict[int, type[ProcessStartError]] = {
    errno.ENOENT: ProgramNotFoundError,
    errno.EACCES: ProgramNotExecutableError,
    errno.ENOEXEC: ProgramNotExecutableError,
    errno.EPERM: ProgramNotExecutableError,
    errno.E2BIG: ArgumentsTooLongError,
}


def _build_result(run: CommandRun, stdout: OutputCapture, stderr: OutputCapture) -> Finished:
    notes = [*stdout.notes, *stderr.notes]
    if run.report.has_survivors:
        notes.append("a process it started is stuck in the kernel and could not be killed")
    return Finished(
        exit_code=run.report.exit_code,
        signal=run.report.signal,
        timed_out=run.timed_out,
        stdout=stdout.text,
        stderr=stderr.text,
        stdout_truncated=stdout.is_truncated,
        stderr_truncated=stderr.is_truncated,
        stdout_bytes=stdout.total_bytes,
        stderr_bytes=stderr.total_bytes,
        stdout_artifact=stdout.artifact,
        stderr_artifact=stderr.artifact,
        raw_stdout=stdout.raw,
        raw_stderr=stderr.raw,
        notes=tuple(notes),
    )
