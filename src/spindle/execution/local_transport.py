"""Transports of this machine: requests that run in this process, or each in a process of its own."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from spindle.calls import Call, Err, Ok
from spindle.capabilities.declare import CallScope
from spindle.capabilities.resolve import (
    NO_BACKENDS,
    Backends,
    Handles,
    close_handles,
    find_missing_backends,
    open_handles,
)
from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import CallError
from spindle.events import Events
from spindle.execution import backends as backends_door
from spindle.execution.call_state import AdmittedCall
from spindle.execution.cancellation import external_cancellation
from spindle.execution.failures import to_err
from spindle.execution.results import HandlerResult, normalize, redact_off_loop
from spindle.execution.transport import CancelSignal, Request, SyncHandlerRunner
from spindle.tools.arguments import build_redactor, read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool, get_runnable
from spindle.tools.entry import Entry
from spindle.tools.invocation import is_awaitable
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.execution.backends.child import ChildLink


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
        self._redactor = Redactor()

    async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
        """Look up the tool and run it; reject a tool with another fingerprint. Secrets in the result are masked."""
        entry = self._registry.entry(request.tool)
        refused = self._find_refusal(request, entry)
        if entry is None or refused is not None:
            return refused or _build_missing(request)
        tool = entry.tool
        try:
            async with self._open_job(request, entry, cancel) as state:
                if state.runnable.is_async:
                    value: Any = await state.runnable.handler(state.value, state.ctx, state.runnable.meta)
                else:
                    value = await self._local.run(state)
        except BaseException as error:  # noqa: BLE001  every exception of a tool becomes its result
            return await self._redact(self._to_err(error, request, tool), request, tool)
        return await self._redact(normalize(value, tool=tool.name, output=tool.output).result, request, tool)

    async def reconcile(self, request: Request, cancel: CancelSignal) -> Ok | Err | None:
        """Ask the tool for the result of a request that was interrupted; `None` if it is unknown."""
        entry = self._registry.entry(request.tool)
        refused = self._find_refusal(request, entry)
        if entry is None or refused is not None or entry.tool.reconcile is None:
            return refused
        tool = entry.tool
        try:
            async with self._open_job(request, entry, cancel) as state:
                found: Any = entry.tool.reconcile(request.idempotency_key, state.ctx)
                found = await found if is_awaitable(found) else found
        except BaseException as error:  # noqa: BLE001  a failing callback leaves the outcome unknown
            self._to_err(error, request, tool)
            return None
        if not isinstance(found, (Ok, Err)):
            return None
        return await self._redact(normalize(found, tool=tool.name, output=tool.output).result, request, tool)

    def find_tool(self, request: Request) -> Tool | None:
        """Return the tool of a request, if it is the one that was requested."""
        entry = self._registry.entry(request.tool)
        return None if entry is None or self._find_refusal(request, entry) is not None else entry.tool

    @asynccontextmanager
    async def _open_job(self, request: Request, entry: Entry, cancel: CancelSignal) -> AsyncGenerator[AdmittedCall]:
        tool = entry.tool
        scope = CallScope(
            tool=tool.name,
            session_id=request.session_id,
            turn_id=request.turn_id,
            toolset=tool.toolset,
            redactor=self._redactor,
        )
        opened: Handles | None = None
        try:
            opened = open_handles(tool.capabilities, self._backends, scope)
            state = self._job(request, entry, cancel, opened)
            if tool.capabilities.secrets is not None:
                state.ctx.events.redact_with(self._redactor)
            yield state
        finally:
            await close_handles(opened)

    @staticmethod
    def _to_err(error: BaseException, request: Request, tool: Tool) -> Err:
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        secrets = build_redactor(request.args, tool.secret_fields)
        return to_err(error, tool=tool.name, expose=tool.expose_errors, secrets=secrets)

    async def _redact(self, result: Ok | Err, request: Request, tool: Tool) -> Ok | Err:
        # The caller does not know the secrets that the tool received here, so it cannot mask them.
        handled = HandlerResult(result)
        for redactor in (self._redactor, build_redactor(request.args, tool.secret_fields)):
            handled = await redact_off_loop(handled, redactor)
        return handled.result

    def _find_refusal(self, request: Request, entry: Entry | None) -> Err | None:
        name = request.tool
        if entry is None:
            return _build_missing(request)
        tool = entry.tool
        if tool.fingerprint != request.fingerprint:
            text = f"The tool {name!r} on the worker differs from the one that was requested."
            return Err("not_available", text, by="spindle")
        lacking = find_missing_backends(tool.capabilities, self._backends)
        if lacking:
            needs = ", ".join(lacking)
            text = f"The tool {name!r} requires {needs}, but the worker has no backend for it."
            return Err("not_available", text, by="spindle")
        return None

    def _job(self, request: Request, entry: Entry, cancel: CancelSignal, opened: Handles | None) -> AdmittedCall:
        tool, runnable = entry.tool, get_runnable(entry.tool)
        call = Call(request.tool_call_id, tool.name, request.args)
        arguments = read_arguments(request.args, tool=tool.name, empty_ok=True)
        value = runnable.schema.copying_validator()(arguments)
        ctx = _RequestContext(request, cancel, self._events, opened)
        return AdmittedCall(
            call, time.perf_counter(), entry, arguments, None, runnable, value, ctx, needs_approval=False
        )


def _build_missing(request: Request) -> Err:
    return Err("not_available", f"The tool {request.tool!r} is not registered on the worker.", by="spindle")


class _RequestContext(ToolContext):
    """The context of a call that arrived as a request; also cancelled by the request's cancel signal."""

    __slots__ = ("_signal",)

    def __init__(self, request: Request, signal: CancelSignal, events: Events | None, granted: Handles | None) -> None:
        left = request.seconds_left
        super().__init__(
            request.session_id,
            turn_id=request.turn_id,
            working_dir=request.working_dir,
            caller=request.caller,
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


class ProcessTransport:
    """A transport that forks a process per request, also for async tools; cancelling the request kills it.

    Results cross as data: text, JSON, media and artifacts do, also exceptions of classes that this process has loaded.
    """

    def __init__(self, registry: ToolRegistry, *, backends: Backends = NO_BACKENDS, max_processes: int = 8) -> None:
        self._local = LocalTransport(registry, backends=backends)
        self._runner = backends_door.ProcessRunner(max_processes)

    async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
        """Run the request in its own process and return its result."""

        def body(_link: "ChildLink") -> Ok | Err:
            return anyio.run(self._local.execute, request, cancel)

        try:
            return await self._runner.run(body)
        except CallError as error:
            return to_err(error, tool=request.tool)
