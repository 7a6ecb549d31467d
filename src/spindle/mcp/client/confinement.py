"""The confinement of a stdio server: what it may reach by its spec, and what the machine enforces of that."""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from spindle.capabilities.process.backend_installation import find_installation, is_wide
from spindle.capabilities.process.backend_program import ProgramStart, detect_sandbox, list_requirements
from spindle.capabilities.process.backend_program_view import DeclaredReach, ProgramView, build_program_view
from spindle.capabilities.process.backend_sandbox import SANDBOX_KINDS, Sandbox
from spindle.capabilities.process.policy import ProcessLimits
from spindle.errors import ProcessStartError, SandboxUnavailableError
from spindle.mcp.client.home import ServerFolders
from spindle.mcp.spec import ServerSpec

GRACE_SECONDS = 2.0
"""Time for the processes of a server to end after SIGTERM."""
DEFAULT_PROCESSES = 1024
"""Processes and threads of a server whose spec sets no limit, unless it runs without a sandbox by its spec."""

SandboxName: TypeAlias = Literal["bubblewrap", "namespaces", "landlock", "none", "off"]

_MEANINGS = {
    "files": "files that were not declared are reachable",
    "network": "the network is reachable",
    "root": "files in writable folders cannot be hidden",
    "processes": "the number of its processes is not limited",
    "own_links": "links to Spindle's own files in writable folders can be replaced",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerReach:
    """What a server that was started here can reach."""

    sandbox: SandboxName
    """The sandbox in force; `none` if the machine has none, `off` if the spec says so."""
    enforced: frozenset[str] = frozenset()
    home: str
    read: tuple[str, ...] = ()
    """Readable paths besides those of the system and its own installation."""
    write: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    """Files in these paths that it cannot read."""
    installation: tuple[str, ...] = ()
    """What it needs to run: programs, environments, packages."""
    network: bool = True
    limits: Mapping[str, int]
    notes: tuple[str, ...] = ()
    """What is not enforced, or not as declared."""

    @property
    def is_confined(self) -> bool:
        """Whether it is in a sandbox that confines its files."""
        return "files" in self.enforced


class ServerConfinement:
    """The confinement of one server, prepared anew for each start."""

    def __init__(self, spec: ServerSpec, folders: ServerFolders) -> None:
        self._spec = spec
        self._folders = folders
        self._needs: tuple[str, ...] = ()
        self.reach: ServerReach | None = None
        """What the server can reach, once it was started."""

    def prepare(self, command: str, env: Mapping[str, str]) -> ProgramStart | None:
        """Return how to start a program, or `None` to start it without a launcher; it searches folders, which blocks.

        Raises:
            SandboxUnavailableError: A sandbox is required, and this machine cannot enforce what the spec declares.
            CapabilityError: The spec declares a folder that cannot be shown.
        """
        spec, is_required = self._spec, self._spec.sandbox == "required"
        if sys.platform == "win32":
            if is_required:
                raise SandboxUnavailableError("a sandbox is required, but Windows has none", missing=("files",))
            return self._skip("none", "this system has no sandbox")
        limits = self._build_limits()
        if spec.sandbox == "none" and not _list_limits(limits):
            return self._skip("off")
        cwd = os.path.realpath(spec.cwd) if spec.cwd is not None else os.getcwd()  # noqa: PTH109 - a text
        program = os.path.join(cwd, command)  # noqa: PTH118 - texts; an absolute command replaces it
        view = self._build_view(program, cwd, env.get("PATH", os.defpath))
        try:
            sandbox = Sandbox(kind="off")
            if spec.sandbox != "none":
                sandbox = detect_sandbox(spec.sandbox_kinds or SANDBOX_KINDS, view.paths, is_required=is_required)
        except ProcessStartError as error:  # this program is frozen into one file: there is no launcher
            if is_required:
                raise SandboxUnavailableError(str(error), missing=("files",)) from error
            return self._skip("none", str(error))
        if is_required and not view.is_searched:
            raise SandboxUnavailableError(f"a sandbox is required, but {view.notes[-1]}", missing=("files",))
        notes = list(view.notes)
        variables = self._choose_variables(env, sandbox, view, notes)
        self.reach = self._describe(sandbox, view, limits, notes)
        return ProgramStart(
            path=program,
            argv=(command, *spec.args),
            env=variables,
            cwd=cwd,
            view=view.paths,
            sandbox=sandbox,
            is_required=is_required,
            limits=limits,
            grace_seconds=GRACE_SECONDS,
        )

    def record(self, enforced: frozenset[str], missing: Mapping[str, str]) -> None:
        """Record what is enforced for the process that was started."""
        if self.reach is None:
            return
        lacking = [name for name in self._needs if name not in enforced]
        why = "".join(f" ({name}: {reason})" for name, reason in missing.items())
        notes = [f"{_MEANINGS.get(name, f'{name} is not enforced')}{why}" for name in lacking]
        if self.reach.sandbox != "off":
            self.reach = replace(self.reach, notes=(*self.reach.notes, *notes))
        is_open = self._spec.network or "network" not in enforced
        self.reach = replace(self.reach, enforced=enforced, network=is_open)

    def _skip(self, sandbox: SandboxName, *notes: str) -> None:
        """Describe a server that is started without a launcher."""
        self.reach = ServerReach(sandbox=sandbox, home=self._folders.home, limits={}, notes=notes)

    def _build_limits(self) -> ProcessLimits:
        spec = self._spec
        processes = DEFAULT_PROCESSES if spec.max_processes is None and spec.sandbox != "none" else spec.max_processes
        return ProcessLimits(
            cpu_seconds=spec.max_cpu_seconds,
            memory_bytes=spec.max_memory_bytes,
            file_bytes=None,
            processes=processes,
            open_files=None,
        )

    def _build_view(self, program: str, cwd: str, search_path: str) -> ProgramView:
        spec = self._spec
        # A folder that was chosen to run in is declared, unless it contains far more than the server's files.
        chosen = (cwd,) if spec.cwd is not None and not is_wide(cwd) else ()
        declared = DeclaredReach(
            home=self._folders.home,
            scratch=self._folders.scratch,
            cwd=cwd,
            read=(*_make_absolute(spec.read), *chosen),
            write=_make_absolute(spec.write),
            network=spec.network,
        )
        installation = find_installation(
            program, spec.args, search_path=search_path, cwd=cwd, writable=declared.list_writable()
        )
        return build_program_view(declared, installation)

    def _choose_variables(
        self, env: Mapping[str, str], sandbox: Sandbox, view: ProgramView, notes: list[str]
    ) -> dict[str, str]:
        """Return the environment; a home that is passed on and cannot be read is replaced by the server's own."""
        home = env.get("HOME", "")
        if not sandbox.is_confining or "HOME" in self._spec.env or view.paths.can_read(home):
            return dict(env)
        notes.append(f"HOME is its own folder, because {home} is not declared in read or write")
        return {**env, **self._folders.variables}

    def _describe(self, sandbox: Sandbox, view: ProgramView, limits: ProcessLimits, notes: list[str]) -> ServerReach:
        own = (self._folders.home, self._folders.scratch)
        self._needs = (*list_requirements(view.paths), *(("processes",) if limits.processes is not None else ()))
        if sandbox.kind == "none":
            notes += [f"{name}: {why}" for name, why in sandbox.missing.items() if name not in self._needs]
        return ServerReach(
            sandbox=sandbox.kind,
            home=self._folders.home,
            read=view.read,
            write=tuple(path for path in view.paths.write if path not in own),
            hidden=view.paths.hidden,
            installation=view.installation,
            network=self._spec.network,
            limits=_list_limits(limits),
            notes=tuple(notes),
        )


def _make_absolute(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(os.path.abspath(os.path.expanduser(path)) for path in paths)  # noqa: PTH100, PTH111 - texts


def _list_limits(limits: ProcessLimits) -> dict[str, int]:
    given = {
        "max_memory_bytes": limits.memory_bytes,
        "max_processes": limits.processes,
        "max_cpu_seconds": limits.cpu_seconds,
    }
    return {name: value for name, value in given.items() if value is not None}
