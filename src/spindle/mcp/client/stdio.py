"""The stdio transport: the messages of a server's process, which is ended with all it started when the link closes."""

import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from spindle.mcp.client.confinement import ServerConfinement
from spindle.mcp.client.environment import find_program
from spindle.mcp.client.link import MAX_MESSAGE_BYTES, BoundedLines, ErrorMarker, OversizedLine, TailBuffer
from spindle.mcp.client.server_process import CLOSED_ERRORS, DirectProcess, LaunchedProcess, ServerProcess
from spindle.mcp.spec import ServerSpec

_HINT = "it ran in a sandbox: declare the files it needs with read and write"
_STDERR_BYTES = 8 << 10
_STDERR_LINES = 8
_EXIT_SECONDS = 2.0
"""Time for a server to exit after its stdin closes, and again after SIGTERM."""
_POLL_SECONDS = 0.01
_LAST_OUTPUT_SECONDS = 0.25


class StdioLink:
    """The stdio link: starts the process, exchanges messages, and keeps the end of its stderr."""

    is_older = False

    def __init__(self, spec: ServerSpec, env: Mapping[str, str], confinement: ServerConfinement) -> None:
        self.error_marker = ErrorMarker()
        self.broken = anyio.Event()
        self._spec = spec
        self._env = dict(env)
        self._confinement = confinement
        self._stderr = TailBuffer(_STDERR_BYTES)
        self._end_reason = ""
        self._has_answered = False

    def describe_exit(self) -> str:
        """Return the exit status and the last lines of stderr."""
        words = self._stderr.lines(_STDERR_LINES)
        said = f"its stderr ended with: {words}" if words else ""
        reach = self._confinement.reach
        is_hint_due = bool(self._end_reason) and not self._has_answered and reach is not None and reach.is_confined
        return "; ".join(part for part in (self._end_reason, _HINT if is_hint_due else "", said) if part)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any, None]:
        """Start the server, yield its message streams, and kill its processes on exit.

        Raises:
            OSError: The server cannot be started.
        """
        process = await self._get_process()
        incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as pumps:
                pumps.start_soon(self._read, process.stdout, incoming.clone())
                pumps.start_soon(self._write, process.stdin, outgoing, incoming)
                pumps.start_soon(self._listen, process.stderr)
                pumps.start_soon(self._release_senders, outgoing)
                pumps.start_soon(self._watch_exit, process)
                try:
                    yield read_stream, write_stream
                finally:
                    read_stream.close()
                    write_stream.close()
                    # The process must not outlive a cancelled caller; every wait in `_end` is bounded.
                    with anyio.CancelScope(shield=True):
                        await self._end(process)
                    pumps.cancel_scope.cancel()
        finally:
            for stream in (incoming, read_stream, write_stream, outgoing):
                stream.close()

    async def _get_process(self) -> ServerProcess:
        spec = self._spec
        command = find_program(spec.command or "", self._env, spec.cwd)
        if command is None:
            raise FileNotFoundError(f"program {spec.command!r} was not found; check command and the server's PATH")
        if spec.cwd is not None and not await anyio.Path(spec.cwd).is_dir():
            raise NotADirectoryError(f"cwd {spec.cwd!r} is not a directory")
        start = await anyio.to_thread.run_sync(self._confinement.prepare, command, self._env)
        if start is not None:
            launched = await LaunchedProcess.start(start)
            self._confinement.record(launched.enforced, launched.missing)
            return launched
        with anyio.CancelScope(shield=True):  # a start cancelled half-way would leak a process
            return await DirectProcess.start([command, *spec.args], env=self._env, cwd=spec.cwd)
        raise OSError("it was not started")  # unreachable: the scope is never cancelled

    async def _read(self, stdout: ByteReceiveStream, out: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        lines = BoundedLines(MAX_MESSAGE_BYTES)
        with out, suppress(*CLOSED_ERRORS):
            async for chunk in stdout:
                self._has_answered = True
                for line in lines.feed(chunk):
                    await out.send(self._parse_line(line))
        self.broken.set()
        await _drain(stdout)

    def _parse_line(self, line: bytes | OversizedLine) -> SessionMessage | Exception:
        if isinstance(line, OversizedLine):
            message = f"its answer of {line.size} bytes is larger than the limit of {MAX_MESSAGE_BYTES}"
            request_id = line.request_id()
            if request_id is None:
                return ValueError(message)
            return SessionMessage(self.error_marker.build_response(request_id, "too_large", message))
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return ValueError(f"a line of {len(line)} bytes on its stdout is not a protocol message")

    async def _write(
        self,
        stdin: ByteSendStream,
        messages: MemoryObjectReceiveStream[SessionMessage],
        back: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        with messages, back, suppress(anyio.ClosedResourceError):
            async for message in messages:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await stdin.send(text.encode("utf-8", "replace") + b"\n")
                except CLOSED_ERRORS:
                    self.broken.set()
                    if isinstance(message.message, JSONRPCRequest):
                        lost = self.error_marker.build_response(message.message.id, "undelivered", "the server is gone")
                        with suppress(*CLOSED_ERRORS):
                            await back.send(SessionMessage(lost))
                    return

    async def _watch_exit(self, process: ServerProcess) -> None:
        """Detect its exit even when a child process holds its stdout open."""
        await process.wait_for_exit()
        await anyio.sleep(_LAST_OUTPUT_SECONDS)  # the last output may still be in the pipe
        self.broken.set()

    async def _release_senders(self, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Release senders that wait for a server that no longer reads."""
        await self.broken.wait()
        messages.close()

    async def _listen(self, stderr: ByteReceiveStream) -> None:
        with suppress(*CLOSED_ERRORS):
            async for chunk in stderr:
                self._stderr.feed(chunk)

    async def _end(self, process: ServerProcess) -> None:
        with suppress(*CLOSED_ERRORS):
            await process.stdin.aclose()
        if not await _exits_in_time(process):
            process.terminate()
            await _exits_in_time(process)
        await process.aclose()
        code = process.returncode
        self._end_reason = process.start_error or ("" if code is None else _describe_exit_code(code))


async def _drain(stream: ByteReceiveStream) -> None:
    """Discard further output: a server blocked on a full pipe would not exit."""
    with suppress(*CLOSED_ERRORS):
        while True:
            await stream.receive()


async def _exits_in_time(process: ServerProcess) -> bool:
    with anyio.move_on_after(_EXIT_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110  there is no event to wait for
            await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None


def _describe_exit_code(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    with suppress(ValueError):
        return f"it was killed by {signal.Signals(-code).name}"
    return f"it was killed by signal {-code}"
