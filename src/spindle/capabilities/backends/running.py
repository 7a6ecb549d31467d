"""One command from its start to the end of all that it started."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

import anyio
import anyio.to_thread

from spindle.capabilities.backends.captured import Captured
from spindle.capabilities.backends.launching import Launched, Story

_WATCHDOG_SECONDS = 8.0
"""Beyond the grace: how long the launcher may take to end what it started, before we end the launcher."""
_LAST_WORDS_SECONDS = 1.0
"""How long a pipe may stay open after the last process we know of has ended."""


class Run:
    """A started command under way."""

    def __init__(self, launched: Launched, *, grace_seconds: float) -> None:
        self.story = Story()
        self.timed_out = False
        self._launched = launched
        self._grace = grace_seconds
        self._report_closed = False
        self.refused: OSError | None = None
        """Why the launcher was not told to go."""

    async def to_end(
        self,
        stdin: bytes | None,
        outputs: tuple[Captured, Captured],
        *,
        timeout_seconds: float | None,
        on_ready: Callable[[], None],
    ) -> None:
        """Feed, listen and wait, until nothing of the command is left, however this ends."""
        launched = self._launched
        try:
            async with anyio.create_task_group() as tasks:
                pumps = [
                    _Finishing(output, descriptor)
                    for output, descriptor in zip(outputs, (launched.stdout, launched.stderr), strict=True)
                ]
                for pump in pumps:
                    tasks.start_soon(pump.run)
                if stdin is not None and launched.stdin is not None:
                    tasks.start_soon(self._feed, stdin, launched.stdin)
                await self._wait(timeout_seconds, on_ready)
                with anyio.move_on_after(_LAST_WORDS_SECONDS):
                    for pump in pumps:
                        await pump.done.wait()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()

    async def _wait(self, timeout_seconds: float | None, on_ready: Callable[[], None]) -> None:
        with anyio.move_on_after(timeout_seconds) as patience:
            await self._listen(on_ready)
        if not patience.cancelled_caught:
            return
        self.timed_out = not self.story.has_ended
        if self.timed_out:
            self._launched.order(b"t")
        with anyio.move_on_after(self._grace + _WATCHDOG_SECONDS):
            await self._listen(on_ready)

    async def _listen(self, on_ready: Callable[[], None]) -> None:
        """Hear the launcher out; it closes its line when all is done."""
        while not self._report_closed:
            await anyio.wait_readable(self._launched.report)
            try:
                data = os.read(self._launched.report, 65536)
            except BlockingIOError:
                continue
            self._report_closed = not data
            was_ready = self.story.is_ready
            self.story.take(data)
            if self.story.is_ready and not was_ready:
                await self._let_go(on_ready)

    async def _let_go(self, on_ready: Callable[[], None]) -> None:
        try:
            await anyio.to_thread.run_sync(on_ready)
        except OSError as error:
            self.refused = error
        self._launched.order(b"k" if self.refused else b"g")

    async def _feed(self, data: bytes, descriptor: int) -> None:
        view = memoryview(data)
        # A command may end, or close its input, without having read it all.
        with suppress(BrokenPipeError):
            while view:
                await anyio.wait_writable(descriptor)
                with suppress(BlockingIOError):
                    view = view[os.write(descriptor, view[:65536]) :]
        self._launched.close_stdin()

    async def _end(self) -> None:
        """See the launcher off: it was asked, or is asked now; if it does not obey, it is killed."""
        if not self._report_closed:
            self._launched.order(b"t")
            with anyio.move_on_after(self._grace + _WATCHDOG_SECONDS):
                await self._listen(lambda: None)
        self._launched.close()
        await anyio.to_thread.run_sync(self._reap)

    def _reap(self) -> None:
        process = self._launched.process
        try:
            process.wait(_WATCHDOG_SECONDS)
        except subprocess.TimeoutExpired:
            _kill_group(process.pid)
            process.wait()
        # A launcher that could not say how the command ended was killed, perhaps by the command itself.
        if not self.story.has_ended and self.story.started_pid and "pids" not in self.story.enforced:
            _kill_group(self.story.started_pid)


class _Finishing:
    """A pump that tells when it is done."""

    def __init__(self, output: Captured, descriptor: int) -> None:
        self.done = anyio.Event()
        self._output, self._descriptor = output, descriptor

    async def run(self) -> None:
        await self._output.pump(self._descriptor)
        self.done.set()


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
