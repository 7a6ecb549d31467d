"""Starting the launcher process and parsing its report."""

import marshal
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from spindle.errors import ProcessStartError
from spindle.json_types import JsonObject

_HERE = Path(__file__).resolve().parent
_PACKAGES = {
    "spindle": _HERE.parent.parent,
    "spindle.capabilities": _HERE.parent,
    "spindle.capabilities.process": _HERE,
    "spindle.capabilities.process.backend_launcher": _HERE / "backend_launcher",
}
# Empty stand-ins for the packages: the launcher's modules import each other by full name and nothing else of spindle.
_BOOT = """\
import sys
for word in sys.argv[1:5]:
    name, _, place = word.partition("=")
    module = sys.modules[name] = type(sys)(name)
    module.__path__ = [place]
from spindle.capabilities.process.backend_launcher.__main__ import main
main(*map(int, sys.argv[5:]))
"""


@dataclass(slots=True)
class LauncherReport:
    """The facts the launcher has reported so far."""

    is_ready: bool = False
    started_pid: int | None = None
    enforced: tuple[str, ...] = ()
    missing: dict[str, str] = field(default_factory=dict[str, str])
    failure: tuple[str, int, str] | None = None
    """The stage, the error number and the system's error message."""
    has_ended: bool = False
    exit_code: int | None = None
    signal: int | None = None
    has_survivors: bool = False
    _incomplete_line: bytes = b""

    def feed(self, data: bytes) -> None:
        """Parse more data of the report; an incomplete line is kept for the next call."""
        *lines, self._incomplete_line = (self._incomplete_line + data).split(b"\n")
        for line in lines:
            word, *facts = line.decode("utf-8", "replace").split("\t")
            self._parse_line(word, facts)

    def _parse_line(self, word: str, facts: list[str]) -> None:
        match word, facts:
            case "ready", _:
                self.is_ready = True
            case "started", [pid]:
                self.started_pid = int(pid)
            case "enforced", names:
                self.enforced = tuple(names)
            case "missing", [name, why]:
                self.missing[name] = why
            case "failed", [stage, number, words]:
                self.failure = self.failure or (stage, int(number), words)
            case "ended", [code, signal]:
                self.has_ended = True
                self.exit_code = int(code) if code else None
                self.signal = int(signal) if signal else None
            case "survivors", _:
                self.has_survivors = True
            case _:
                pass


@dataclass(slots=True)
class LauncherProcess:
    """A running launcher and the local ends of its pipes, which the caller of `launch` must close."""

    process: "subprocess.Popen[bytes]"
    report: int
    control: int
    stdin: int | None
    stdout: int
    stderr: int
    is_closed: bool = False

    def send_command(self, command: bytes) -> None:
        """Send the launcher a command; a launcher that has already ended is ignored."""
        with suppress(OSError):
            os.write(self.control, command)

    def close(self) -> None:
        """Close the local ends of the pipes; the launcher treats a closed control pipe as a kill command."""
        self.is_closed = True
        for descriptor in (self.control, self.report, self.stdout, self.stderr):
            os.close(descriptor)
        self.close_stdin()

    def close_stdin(self) -> None:
        """Close the command's stdin."""
        if self.stdin is not None:
            os.close(self.stdin)
            self.stdin = None


def find_interpreter() -> str:
    """Return the path of the Python interpreter that runs the launcher.

    Raises:
        ProcessStartError: There is no interpreter, for example because this program is frozen into one file.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        raise ProcessStartError(
            "running commands requires a Python interpreter, but this program has none (frozen executable?)", command=""
        )
    return os.path.realpath(sys.executable)


def list_launcher_paths() -> list[str]:
    """Return the paths the launcher reads: the interpreter, the standard library and its own modules."""
    return [os.path.realpath(sys.base_prefix), find_interpreter(), str(_HERE)]


def launch(prefix: Sequence[str], plan: JsonObject, *, feed: bool) -> LauncherProcess:
    """Start the launcher in its own session with an empty environment, its command line prefixed by `front`.

    Raises:
        OSError: The launcher cannot be started.
    """
    words = [
        *prefix,
        find_interpreter(),
        "-I",
        "-S",
        "-c",
        _BOOT,
        *(f"{name}={place}" for name, place in _PACKAGES.items()),
    ]
    theirs: list[int] = []
    ours: list[int] = []
    try:
        plan_fd = _write_plan(plan)
        theirs.append(plan_fd)
        stdin = _create_pipe(theirs, ours, to_them=True) if feed else None
        control = _create_pipe(theirs, ours, to_them=True)
        report, stdout, stderr = (_create_pipe(theirs, ours, to_them=False) for _ in range(3))
        passed = (plan_fd, report[1], control[1])
        process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [*words, *map(str, passed)],
            stdin=subprocess.DEVNULL if stdin is None else stdin[1],
            stdout=stdout[1],
            stderr=stderr[1],
            pass_fds=passed,
            start_new_session=True,
            env={},
            cwd="/",
        )
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return LauncherProcess(process, report[0], control[0], None if stdin is None else stdin[0], stdout[0], stderr[0])


def _create_pipe(theirs: list[int], ours: list[int], *, to_them: bool) -> tuple[int, int]:
    """Create a pipe; return the local, non-blocking end and the launcher's end."""
    reading, writing = os.pipe()
    our_end, their_end = (writing, reading) if to_them else (reading, writing)
    os.set_blocking(our_end, False)
    ours.append(our_end)
    theirs.append(their_end)
    return our_end, their_end


def _write_plan(plan: JsonObject) -> int:
    """Write the plan to an unnamed file: arguments may exceed the capacity of a pipe or a command line."""
    content = marshal.dumps(plan)
    with (
        tempfile.TemporaryFile()
        if not hasattr(os, "memfd_create")
        else os.fdopen(os.memfd_create("spindle-plan"), "w+b") as file
    ):
        file.write(content)
        file.flush()
        file.seek(0)
        return os.dup(file.fileno())
