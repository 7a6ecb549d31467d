"""Worker processes of the engine suite: commands that are started, killed and stopped by their process id."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio

READY: Final = "Taking calls of"
"""What `spindle worker` prints once it takes calls."""
WAIT_SECONDS: Final = 90.0
"""The longest wait for one event; generous, because worker processes start slowly on a busy machine."""

_PAUSE_SECONDS: Final = 0.05


class WorkerProcess:
    """A worker that a command runs; it is ready once it has printed a line."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self.log = log

    @classmethod
    async def start(
        cls, command: Sequence[str], *, log: Path, ready: str = READY, environ: Mapping[str, str] | None = None
    ) -> "WorkerProcess":
        """Start a command and wait until its log has the line.

        Raises:
            AssertionError: It ended, or was not ready in time.
        """
        started = cls(_spawn(command, log, environ or {}), log)
        deadline = time.monotonic() + WAIT_SECONDS
        while ready not in started.read_log():
            if not started.is_running or time.monotonic() > deadline:
                await started.kill()
                raise AssertionError(f"the worker did not start:\n{started.read_log()}")
            await anyio.sleep(_PAUSE_SECONDS)
        return started

    def read_log(self) -> str:
        """Return what the process has printed."""
        return self.log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    async def kill(self) -> None:
        """Kill the process with SIGKILL and wait for its end."""
        await self.stop(signal.SIGKILL)

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; return the exit code."""
        self.send(how)
        return await self.wait()

    def send(self, how: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.is_running:
            self._process.send_signal(how)

    async def wait(self) -> int:
        """Wait for the end and return the exit code."""
        with anyio.fail_after(WAIT_SECONDS):
            while self.is_running:  # noqa: ASYNC110 - a process has no event
                await anyio.sleep(_PAUSE_SECONDS)
        return self._process.returncode

    async def wait_for_log(self, text: str) -> None:
        """Wait until the process has printed a text."""
        with anyio.fail_after(WAIT_SECONDS):
            while text not in self.read_log():  # noqa: ASYNC110 - nor has a file
                await anyio.sleep(_PAUSE_SECONDS)


def _spawn(command: Sequence[str], log: Path, environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - a command of the tests
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, **environ}
        )
