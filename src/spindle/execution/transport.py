"""Where handlers run: `Local` for sync handlers in threads and processes, `Transport` as the port for remote ones."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

from spindle.calls import Call, Err, Ok
from spindle.capabilities.declare import CallScope
from spindle.capabilities.resolve import NO_BACKENDS, Backends, close_handles, find_missing_backends, open_handles
from spindle.events import Events
from spindle.execution.backends.threads import Post, ThreadRunner
from spindle.execution.call_state import CallState
from spindle.execution.cancellation import external_cancellation
from spindle.execution.results import mask_secret_fields, normalize, to_err
from spindle.tools.arguments import copy_arguments, read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool, get_runnable
from spindle.tools.entry import Entry
from spindle.tools.invocation import is_awaitable
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.execution.backends.child import ChildLink
    from spindle.execution.backends.processes import ProcessRunner


class SyncHandlerRunner:
    """Runs the sync handlers of one executor in threads, or in processes for `isolation="process"`."""

    def __init__(self, max_workers: int) -> None:
        self._max_workers = max_workers
        self._threads = ThreadRunner(max_workers)

    @cached_property
    def _processes(self) -> "ProcessRunner":
        # Imported on first use: few programs need it and its imports are slow.
        from spindle.execution.backends.processes import ProcessRunner  # noqa: PLC0415

        return ProcessRunner(self._max_workers)

    @property
    def abandoned(self) -> int:
        """The number of threads still running a call whose caller is gone."""
        return self._threads.abandoned

    async def run(self, job: CallState) -> Any:
        """Run the handler and return its value; on cancellation its thread is abandoned, its process killed."""
        if job.entry.tool.isolation == "process":
            return await self._run_in_process(job)
        handler, value, ctx, meta = job.runnable.handler, job.value, job.ctx, job.runnable.meta

        def body(post: Post) -> Any:
            ctx.set_post(post)
            return handler(value, ctx, meta)

        result = await self._threads.run(body, on_abandon=ctx.cancel)
        # A sync callable, such as a partial or a lambda, may still return a coroutine.
        return await result if is_awaitable(result) else result

    async def _run_in_process(self, job: CallState) -> Any:
        handler, value, ctx, meta = job.runnable.handler, job.value, job.ctx, job.runnable.meta
        told = ctx.events

        def body(link: "ChildLink") -> Any:
            ctx.events = _ForwardingEvents(told, link)
            return handler(value, ctx, meta)

        def hear(message: tuple[str, object]) -> None:
            told.notify(*message)

        return await self._processes.run(body, on_message=hear)


class _ForwardingEvents(Events):
    """Events of a handler in a child process, forwarded to the observers in the parent."""

    __slots__ = ("_link",)

    def __init__(self, events: Events, link: "ChildLink") -> None:
        super().__init__()
        self._link = link
        self.heard = events.heard

    def notify(self, name: str, payload: object) -> None:
        """Send the event to the parent process."""
        self._link.send((name, payload))


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One call as plain data; every field is JSON."""

    tool: str
    args: Mapping[str, Any]
    tool_call_id: str
    checksum: str
    idempotency_key: str
    fingerprint: str
    """Fingerprint of the caller's tool; a worker whose tool has another fingerprint rejects the request."""
    session_id: str
    turn_id: str | None
    result_budget_chars: int | None
    seconds_left: float | None
    """Seconds until the call's deadline; relative, because clocks of two machines may differ."""
    working_dir: str | None = None
    turn_count: int = 0


class CancelSignal(Protocol):
    """A flag that is set when the caller cancels the call."""

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled."""
        ...


class Transport(Protocol):
    """Port that runs a request in the place where the tool's handler is."""

    async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
        """Run the request and return its result; it is cancelled when the caller stops waiting."""
        ...


def build_request(job: CallState) -> Request:
    """Build the request for a call."""
    tool, ctx = job.entry.tool, job.ctx
    return Request(
        tool=tool.name,
        args=job.arguments or {},
        tool_call_id=job.call.tool_call_id,
        checksum=job.checksum,
        idempotency_key=cast("str", ctx.idempotency_key),
        fingerprint=tool.fingerprint,
        session_id=ctx.session_id,
        turn_id=ctx.turn_id,
        result_budget_chars=ctx.result_budget_chars,
        seconds_left=ctx.seconds_left,
        working_dir=None if ctx.working_dir is None else str(ctx.working_dir),
        turn_count=ctx.turn_count,
    )


async def execute_remotely(transport: Transport, job: CallState) -> Ok | Err:
    """Run a call through a transport and check the type of its result.

    Raises:
        TypeError: The transport returned neither an `Ok` nor an `Err`.
    """
    result = cast("object", await transport.execute(build_request(job), job.ctx))
    if isinstance(result, (Ok, Err)):
        return result
    raise TypeError(f"Expected Transport.execute to return an Ok or an Err, got {type(result).__name__}.")


class LocalTransport:
    """A transport that runs requests in this process with the tools of a registry; for remote workers and tests.

    Arguments are validated again because they arrived as data. The tool's own checks, the filter and the approval are
    the responsibility of the caller.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        backends: Backends = NO_BACKENDS,
        events: Events | None = None,
        concurrency: int = 64,
    ) -> None:
        self._registry = registry
        self._backends = backends
        self._events = events
        self._local = SyncHandlerRunner(concurrency)

    async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
        """Look up the tool and run it; reject a tool with another fingerprint."""
        entry = self._registry.entry(request.tool)
        if entry is None:
            return Err("not_available", f"The tool {request.tool!r} is not registered on the worker.")
        tool = entry.tool
        refused = self._refusal(request, tool)
        if refused is not None:
            return refused
        opened: Mapping[str, Any] | None = None
        try:
            opened = open_handles(tool.capabilities, self._backends, _build_scope(request, tool))
            job = self._job(request, entry, cancel, opened)
            if job.runnable.is_async:
                value: Any = await job.runnable.handler(job.value, job.ctx, job.runnable.meta)
            else:
                value = await self._local.run(job)
        except BaseException as error:  # noqa: BLE001  every exception of a tool becomes its result
            ending = external_cancellation(error)
            if ending is not None:
                raise ending from None
            failed = to_err(error, tool=tool.name, expose=tool.expose_errors)
            return mask_secret_fields(failed, request.args, tool.secret_fields)
        finally:
            await close_handles(opened)
        return normalize(value, tool=tool.name, trusted=tool.trusted).result

    def _refusal(self, request: Request, tool: Tool) -> Err | None:
        name = request.tool
        if tool.fingerprint != request.fingerprint:
            return Err("not_available", f"The tool {name!r} on the worker differs from the one that was requested.")
        lacking = find_missing_backends(tool.capabilities, self._backends)
        if lacking:
            needs = ", ".join(lacking)
            return Err("not_available", f"The tool {name!r} requires {needs}, but the worker has no backend for it.")
        return None

    def _job(self, request: Request, entry: Entry, cancel: CancelSignal, opened: Mapping[str, Any] | None) -> CallState:
        tool, schema = entry.tool, get_runnable(entry.tool).schema
        job = CallState(
            Call(request.tool_call_id, tool.name, request.args), time.perf_counter(), entry, get_runnable(tool)
        )
        job.arguments = read_arguments(request.args, tool=tool.name, empty_ok=True)
        job.value = schema.validator()(copy_arguments(job.arguments), request.args)
        job.ctx = _RequestContext(request, cancel, self._events, opened)
        return job


def _build_scope(request: Request, tool: Tool) -> CallScope:
    return CallScope(tool=tool.name, session_id=request.session_id, turn_id=request.turn_id, toolset=tool.toolset)


class _RequestContext(ToolContext):
    """The context of a call that arrived as a request; also cancelled by the request's cancel signal."""

    __slots__ = ("_signal",)

    def __init__(
        self, request: Request, signal: CancelSignal, events: Events | None, granted: Mapping[str, Any] | None
    ) -> None:
        left = request.seconds_left
        super().__init__(
            request.session_id,
            turn_id=request.turn_id,
            working_dir=request.working_dir,
            events=events,
            result_budget_chars=request.result_budget_chars,
            turn_count=request.turn_count,
            tool_name=request.tool,
            tool_call_id=request.tool_call_id,
            checksum=request.checksum,
            idempotency_key=request.idempotency_key,
            deadline=None if left is None else time.monotonic() + left,
            handles=granted,
        )
        self._signal = signal

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled here or by the caller's signal."""
        return self._cancelled or self._signal.cancelled
