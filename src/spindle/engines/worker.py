"""What every worker does with a call: read its message, decide whether its body may start, run it, write its result."""

import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from spindle.artifacts.spool import Spool
from spindle.calls import Err, Ok
from spindle.capabilities.resolve import NO_BACKENDS, Backends
from spindle.engines.messages import MessageCodec
from spindle.engines.settings import MAX_STARTS
from spindle.engines.transport import build_interrupted
from spindle.errors import EngineMessageError, SecretError, SpoolError
from spindle.events import Events
from spindle.execution.local_transport import LocalTransport
from spindle.execution.transport import Request
from spindle.json_types import JsonObject
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from spindle.execution.state_key import StateKey


@dataclass(kw_only=True)
class WorkerStats:
    """What a worker has done since its start, for its health page and its metrics."""

    started_at: float = field(default_factory=time.time)
    running: int = 0
    outcomes: "Counter[str]" = field(default_factory=Counter[str])
    """Finished calls by code; `ok` for results."""
    iterations: "Counter[str]" = field(default_factory=Counter[str])
    """Iterations of turns by what came of them: `running`, `suspended` or `ended`."""
    takeovers: int = 0
    """Calls that another worker had started before."""
    is_connected: bool = False
    is_draining: bool = False

    @asynccontextmanager
    async def count_running(self) -> "AsyncGenerator[None]":
        """Count a call as running."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


class EngineWorker(Protocol):
    """A worker of an engine: takes calls from its queues and runs them until it is stopped."""

    async def run(self, stop: anyio.Event, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Take calls until `stop` is set; then let running calls finish for a while, and return.

        It has started once the engine was reached; until then it tries again.
        """
        ...


class _NeverCancelled:
    cancelled = False


class CallRunner:
    """Runs the calls of one worker with the tools of a registry."""

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        backends: Backends = NO_BACKENDS,
        spool: Spool | None = None,
        state_key: "StateKey | None" = None,
        events: Events | None = None,
        concurrency: int = 16,
    ) -> None:
        self._tools = LocalTransport(registry, backends=backends, events=events, concurrency=concurrency)
        self._codec = MessageCodec(spool=spool, key=state_key)
        self.concurrency = concurrency
        """The number of calls that run at once."""
        self.stats = WorkerStats()

    async def run(self, message: JsonObject, call_id: str, *, starts: int) -> JsonObject:
        """Run the body of a call and return the message of its result; only a cancellation is raised.

        `starts` counts this start and those on workers that have died since. After the first one, a body runs again
        only if its tool is idempotent or read-only; otherwise the tool is asked for the outcome, which is else unknown.
        """
        async with self.stats.count_running():
            self.stats.takeovers += starts > 1
            try:
                request = await self._codec.decode_request(message)
            except (EngineMessageError, SecretError, SpoolError) as error:
                refused = Err("not_available", f"The worker cannot read the call: {error}", by="spindle")
                return await self._write(refused, _UNREAD, call_id)
            result = await self._run_in_time(request, starts)
            try:
                return await self._write(result, request, call_id)
            except (EngineMessageError, SpoolError) as error:
                text = f"The tool {request.tool!r} has run, but its result cannot cross to the caller: {error}"
                return await self._write(Err("execution_failed", text, by="spindle"), request, call_id)

    async def _run_in_time(self, request: Request, starts: int) -> Ok | Err:
        result: Ok | Err | None = None
        with anyio.move_on_after(request.seconds_left):
            result = await self._run_once(request, starts)
        if result is None:
            return Err("timed_out", f"The call of {request.tool!r} took too long.", by="spindle")
        return result

    async def _run_once(self, request: Request, starts: int) -> Ok | Err:
        tool = self._tools.find_tool(request)
        # A worker with another version of the tool refuses the first start; later ones have an unknown outcome.
        is_repeatable = tool is not None and (tool.idempotent or tool.read_only) and starts <= MAX_STARTS
        if starts == 1 or is_repeatable:
            return await self._tools.execute(request, _NeverCancelled())
        found = None if tool is None else await self._tools.reconcile(request, _NeverCancelled())
        return found or build_interrupted(request.tool)

    async def _write(self, result: Ok | Err, request: Request, call_id: str) -> JsonObject:
        written = await self._codec.encode_result(result, request, call_id)
        self.stats.outcomes[result.code if isinstance(result, Err) else "ok"] += 1
        return written


_UNREAD = Request(
    tool="",
    args={},
    tool_call_id="",
    checksum="",
    idempotency_key="",
    fingerprint="",
    session_id="",
    turn_id=None,
    result_budget_chars=None,
    seconds_left=None,
)
"""Stands for a request that could not be read."""
