"""What one command needs before it starts, and what is cleared away after it."""

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from spindle.capabilities.backends.configuration import add_configuration, skip_configuration
from spindle.capabilities.backends.launching import Launched, launch
from spindle.capabilities.backends.pids_cgroup import PidsCgroup
from spindle.capabilities.backends.sandbox import Sandbox, needed
from spindle.capabilities.backends.view import View
from spindle.capabilities.process import ProcessLimits, SandboxMode


class Settings(Protocol):
    """The part of a backend that a start looks at."""

    view: View
    limits: ProcessLimits
    mode: SandboxMode
    grace_seconds: float

    def sandbox(self) -> Sandbox:
        """Give the sandbox commands run in."""
        ...


class Start:
    """The start of one command. `launch` and `clear` block, and run in threads."""

    def __init__(self, settings: Settings, path: str, words: list[str], variables: dict[str, str], folder: str) -> None:
        self._settings = settings
        self._path, self._words, self._variables, self._folder = path, words, variables, folder
        self._scratch: str | None = None
        self._group: PidsCgroup | None = None
        self._launched: Launched | None = None
        self._is_over = False
        self._lock = Lock()

    def launch(self, feed: bool) -> Launched:  # noqa: FBT001 - called through a thread, by position
        """Start the launcher.

        Raises:
            OSError: It cannot be started.
            SandboxUnavailableError: A sandbox was required, and there is none.
        """
        sandbox = self._settings.sandbox()
        # Looked at for every command: a file that holds no secret now may hold one later.
        view = add_configuration(self._settings.view.with_program(self._path))
        with self._lock:
            if self._is_over:
                raise ProcessLookupError("it was cancelled before it started")
            # Right below the root, under a name nobody can know beforehand: no link can wait for it there.
            self._scratch = tempfile.mkdtemp(prefix=".spindle-", dir=view.root)
            if os.getuid() == 0 and self._settings.limits.processes is not None:
                self._group = PidsCgroup.create()
            self._launched = launch(sandbox.front(view), self._plan(sandbox, view, self._scratch), feed=feed)
            return self._launched

    def _plan(self, sandbox: Sandbox, view: View, scratch: str) -> dict[str, Any]:
        settings = self._settings
        required = needed(view) if settings.mode == "required" else ()
        skipping = skip_configuration(view, self._variables, scratch) if sandbox.is_confining else {}
        return sandbox.plan(view, cwd=self._folder, required=required) | {
            "path": self._path,
            "argv": self._words,
            "env": {"HOME": scratch, "TMPDIR": scratch, **skipping, **self._variables},
            "limits": asdict(settings.limits),
            "grace_seconds": float(settings.grace_seconds),
            "wait": self._group is not None,
        }

    def bound_processes(self) -> None:
        """Put the launcher, which waits for it, and all it will start under a bound that holds for root too.

        Raises:
            OSError: The system refuses.
        """
        if self._group is not None and self._launched is not None and self._settings.limits.processes is not None:
            self._group.hold(self._launched.process.pid, self._settings.limits.processes)

    def clear(self) -> None:
        """Remove what is left; also end a launcher that nobody took over because its caller was cancelled."""
        with self._lock:
            self._is_over = True
            if self._launched is not None and not self._launched.is_closed:
                self._launched.close()
                with suppress(subprocess.TimeoutExpired):
                    self._launched.process.wait(10)
            if self._scratch is not None:
                _remove(self._scratch)
            if self._group is not None:
                self._group.remove()


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        # What the command put in its place, if it did.
        Path(folder).unlink(missing_ok=True)
