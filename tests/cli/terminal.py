"""A pseudo terminal with a program in it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 30.0
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")


class Terminal:
    """Runs one program at a time on a terminal of a given width, and reads everything it writes."""

    def __init__(self, *, columns: int, cwd: Path, env: dict[str, str]) -> None:
        self.env = env
        self._cwd = cwd
        self._columns = columns
        self._master = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._master >= 0:
            os.close(self._master)

    @property
    def exit_code(self) -> int | None:
        """How the program ended."""
        return None if self._process is None else self._process.returncode

    def start(self, argv: list[str]) -> None:
        """Start a program; the terminal is its own, so that Ctrl-C reaches it."""
        self._master, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, self._columns, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *argv],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=self._cwd,
            env=self.env,
            start_new_session=True,
        )
        os.close(inner)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Listen until the program has written a text."""
        self.wait_until(lambda: text in self._screen())

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Listen until something is so."""
        until = time.monotonic() + SECONDS
        while not is_so():
            if time.monotonic() > until:
                raise AssertionError(f"it never was so; the screen: {self._screen()!r}")
            if not self._listen(0.05):
                assert is_so(), f"the program ended; the screen: {self._screen()!r}"
                return

    def finish(self) -> str:
        """Listen until the program has ended."""
        until = time.monotonic() + SECONDS
        while self._listen(0.5):
            if time.monotonic() > until:
                raise AssertionError(f"it did not end; the screen: {self._screen()!r}")
        assert self._process is not None
        self._process.wait(SECONDS)
        return self._screen()

    def run(self, argv: list[str]) -> str:
        """Start a program and give what it wrote."""
        self.start(argv)
        return self.finish()

    @staticmethod
    def plain(screen: str) -> str:
        """What is left without escape sequences."""
        return _ESCAPES.sub("", screen)

    def _screen(self) -> str:
        return self._received.decode("utf-8", "replace").replace("\r\n", "\n")

    def _listen(self, seconds: float) -> bool:
        """Read more, if there is any; return false once the program has ended."""
        readable, _, _ = select.select([self._master], [], [], seconds)
        if not readable:
            return self._process is not None and self._process.poll() is None
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self._received += data
        return bool(data)
