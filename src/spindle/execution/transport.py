"""Where handlers run: sync ones in threads and processes, and others through a `Transport`, which is a port."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

from spindle.calls import Err, Ok
from spindle.events import Events
from spindle.execution import backends as backends_door
from spindle.execution.backends.threads import Post, ThreadRunner
from spindle.execution.call_state import AdmittedCall
from spindle.execution.call_trace import to_event_text
from spindle.execution.failures import redact_err
from spindle.execution.results import HandlerResult, normalize_off_loop
from spindle.json_types import JsonObject, JsonValue, untyped
from spindle.tools.arguments import build_redactor, copy_arguments
from spindle.tools.declaration import Tool
from spindle.tools.invocation import is_awaitable

if TYPE_CHECKING:
    from spindle.execution.backends.child import ChildLink
    from spindle.execution.backends.processes import ProcessRunner


class SyncHandlerRunner:
    """Runs the sync handlers of one executor in threads, or in processes for `isolation="process"`."""

    def __init__(self, max_workers: int, *, max_threads: int | None = None) -> None:
        self._max_workers = max_workers
        self._threads = ThreadRunner(max_threads or max_workers)

    @cached_property
    def _processes(self) -> "ProcessRunner":
        # Loaded here, through the lazy door: few programs need it and its imports are slow.
        return backends_door.ProcessRunner(self._max_workers)

    @property
    def abandoned(self) -> int:
        """The number of threads still running a call whose caller is gone."""
        return self._threads.abandoned

    async def run(self, state: AdmittedCall) -> object:
        """Run the handler and return its value; on cancellation its thread is abandoned, its process killed."""
        if state.entry.tool.isolation == "process":
            return await self._run_in_process(state)
        handler, value, ctx, meta = state.runnable.handler, state.value, state.ctx, state.runnable.meta

        def body(post: Post) -> Any:
            ctx.set_post(post)
            return handler(value, ctx, meta)

        result = await self._threads.run(body, on_abandon=ctx.cancel)
        # A sync callable, such as a partial or a lambda, may still return a coroutine.
        return await result if is_awaitable(result) else result

    async def _run_in_process(self, state: AdmittedCall) -> object:
        handler, value, ctx, meta = state.runnable.handler, state.value, state.ctx, state.runnable.meta
        parent_events, trace = ctx.events, state.trace

        def body(link: "ChildLink") -> object:
            ctx.events = _ForwardingEvents(parent_events, link)
            if trace is not None:
                ctx.record_with(_ForwardingRecorder(link))
            return handler(value, ctx, meta)

        def hear(message: tuple[str, Any]) -> None:
            name, payload = message
            if name != _RECORD:
                parent_events.notify(name, payload)
            elif trace is not None:
                trace.record(*payload)

        return await self._processes.run(body, on_message=hear)


class _ForwardingEvents(Events):
    """Events of a handler in a child process, forwarded to the observers in the parent."""

    __slots__ = ("_link",)

    def __init__(self, events: Events, link: "ChildLink") -> None:
        super().__init__()
        self._link = link
        self.has_observer = events.has_observer

    def notify(self, name: str, payload: object) -> None:
        """Send the event to the parent process."""
        self._link.send((name, payload))


_RECORD: Final = "(record)"
"""The name of a message that is kept for the journal, instead of an event for observers."""
_FIRST_RECORDS: Final = 10
_RECORD_PAUSE_SECONDS: Final = 0.1


class _ForwardingRecorder:
    """Sends what a handler in a child process emits to the parent; of very much, the first and then some."""

    def __init__(self, link: "ChildLink") -> None:
        self._link = link
        self._count = 0
        self._sent_at = 0.0

    def record(self, kind: str, text: object, detail: object = None) -> None:
        """Send one event to the parent process."""
        now = time.monotonic()
        self._count += 1
        if self._count > _FIRST_RECORDS and now - self._sent_at < _RECORD_PAUSE_SECONDS:
            return
        self._sent_at = now
        self._link.send((_RECORD, (kind, to_event_text(text), detail if type(detail) in {str, int, float} else None)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One call as plain data; every field is JSON."""

    tool: str
    args: Mapping[str, JsonValue]
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
    caller: JsonObject | None = None
    attempt: int = 1
    """Counts the retries of an idempotent tool; every attempt has the same idempotency key."""
    toolset: str | None = None
    read_only: bool = False
    """Whether the same request may simply run again, also after it finished."""
    secret_fields: Sequence[str] = field(default_factory=list[str])
    """The arguments that must not be stored or shown in clear text."""


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


@runtime_checkable
class SelectiveTransport(Protocol):
    """A transport that leaves some tools to the process of the caller."""

    def accepts(self, tool: Tool) -> bool:
        """Return whether calls of the tool go through this transport."""
        ...


@runtime_checkable
class DurableTransport(Protocol):
    """A transport that records results by idempotency key: the same request again returns the recorded result."""

    @property
    def remembers_seconds(self) -> float:
        """How long after its start a call is remembered at least."""
        ...


def accepts(transport: Transport, tool: Tool) -> bool:
    """Return whether calls of a tool go through a transport."""
    return not isinstance(transport, SelectiveTransport) or transport.accepts(tool)


def build_request(state: AdmittedCall) -> Request:
    """Build the request for a call."""
    tool, ctx = state.entry.tool, state.ctx
    return Request(
        tool=tool.name,
        args=copy_arguments(state.arguments),
        tool_call_id=state.call.tool_call_id,
        checksum=state.checksum,
        idempotency_key=cast("str", ctx.idempotency_key),
        fingerprint=tool.fingerprint,
        session_id=ctx.session_id,
        turn_id=ctx.turn_id,
        result_budget_chars=ctx.result_budget_chars,
        seconds_left=ctx.seconds_left,
        working_dir=None if ctx.working_dir is None else str(ctx.working_dir),
        caller=ctx.caller,
        turn_count=ctx.turn_count,
        attempt=state.attempts,
        toolset=tool.toolset,
        read_only=tool.read_only,
        secret_fields=sorted(tool.secret_fields),
    )


async def execute_remotely(transport: Transport, state: AdmittedCall) -> HandlerResult:
    """Run a call through a transport and check its result; unlike a handler, a transport says who wrote an error.

    Raises:
        TypeError: The transport returned neither an `Ok` nor an `Err`.
    """
    tool, result = state.entry.tool, untyped(await transport.execute(build_request(state), state.ctx))
    if isinstance(result, (Ok, Err)):
        handled = await normalize_off_loop(result, tool=tool.name, output=tool.output)
        if isinstance(result, Err) and isinstance(handled.result, Err):
            secrets = build_redactor(state.arguments, tool.secret_fields)
            return HandlerResult(redact_err(replace(handled.result, by=result.by), secrets))
        return handled
    raise TypeError(f"Expected Transport.execute to return an Ok or an Err, got {type(result).__name__}.")


def is_remembered(transport: Transport, tool: Tool, age_seconds: float) -> bool:
    """Return whether a transport still knows a call that was started so long ago, and would not run it again."""
    if not isinstance(transport, DurableTransport) or not accepts(transport, tool):
        return False
    return age_seconds < transport.remembers_seconds
