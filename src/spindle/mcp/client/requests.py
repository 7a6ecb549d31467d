"""Requests to an upstream server other than calls: in its time, sent again after a lost connection, cancellable.

They only read, so that sending one twice is harmless.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import anyio

from spindle.errors import UpstreamError, UpstreamRefusedError
from spindle.mcp.client.connection import UpstreamConnection
from spindle.mcp.client.lifecycle import ActiveConnection, ClientServices
from spindle.mcp.client.running_calls import RunningCall
from spindle.mcp.client.upstream_questions import Answered, Question
from spindle.text import to_printable
from spindle.tools.context import ToolContext

if TYPE_CHECKING:
    from spindle.mcp.client.session import AnswerQuestions, UpstreamSession

T = TypeVar("T")
Send = Callable[["UpstreamSession", "AnswerQuestions"], Awaitable[T]]
"""Sends one request over a session; questions that its server asks meanwhile are answered by the second argument."""

GetHeaders = Callable[[ToolContext], Awaitable[dict[str, str]]]
"""Returns the extra headers of a request; raises `UpstreamError`."""

_MAX_ERROR = 4_000
_REQUEST_TIMEOUT = -32001


@dataclass(eq=False)
class _PendingAnswer(Generic[T]):
    """The answer to one request, and the event that it is there."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    answers: list[T] = field(default_factory=list[T])
    error: Exception | None = None


class UpstreamRequests:
    """Sends requests to one server."""

    def __init__(self, connection: UpstreamConnection, services: ClientServices, get_headers: GetHeaders) -> None:
        self._connection = connection
        self._services = services
        self._get_headers = get_headers
        self._spec = connection.spec

    async def send(self, send: Send[T], *, method: str, ctx: ToolContext | None) -> T:
        """Send a request within the server's `timeout_seconds` and return its answer.

        Without `ctx` the request is not made for a user and has no headers of one.

        Raises:
            UpstreamRefusedError: The server answered with an error.
            UpstreamError: The server cannot be connected, does not answer in time, or gave an invalid answer.
        """
        seconds = self._spec.timeout_seconds
        try:
            with anyio.fail_after(seconds):
                return await self._send_with_retry(send, method, ctx)
        except TimeoutError as error:
            raise self._error(f"did not answer {method} within {seconds:g} s") from error

    async def _send_with_retry(self, send: Send[T], method: str, ctx: ToolContext | None) -> T:
        headers = {} if ctx is None else await self._get_headers(ctx)
        for _ in range(2):
            live = await self._connection.get_active()
            if live is None:
                break
            pending = await self._run(live, send, self._build_call(method, ctx, headers))
            if pending.answers:
                live.has_served = True
                return pending.answers[0]
            if not self._is_lost(live, pending.error):
                raise self._translate_error(live, pending.error, method)
        raise UpstreamError(self._connection.describe_absence(), server=self._spec.name)

    def _build_call(self, method: str, ctx: ToolContext | None, headers: dict[str, str]) -> RunningCall:
        return RunningCall(
            self._spec.name,
            method,
            ToolContext() if ctx is None else ctx,
            headers,
            can_sample=self._spec.sampling,
            can_list_roots=self._spec.roots,
            has_client=ctx is not None,
        )

    async def _run(self, live: ActiveConnection, send: Send[T], call: RunningCall) -> _PendingAnswer[T]:
        """Run the request in the owning task's group, so that a cancelled caller never waits for the server."""
        pending = _PendingAnswer[T]()

        async def ask(questions: Sequence[Question]) -> list[Answered]:
            return await call.ask(self._services.redactor.redact_value(list(questions)), self._services.events)

        async def run() -> None:
            try:
                with pending.scope, self._connection.calls.track(call):
                    pending.answers.append(await send(live.session, ask))
            except Exception as error:  # noqa: BLE001  every error becomes the answer of the request
                pending.error = error
            finally:
                pending.done.set()

        if live.is_lost:
            return pending
        try:
            live.group.start_soon(run)
        except RuntimeError:  # the group has just ended
            return pending
        try:
            await pending.done.wait()
        finally:
            if not pending.done.is_set():
                pending.scope.cancel()  # the SDK also notifies the server
                self._connection.calls.remove(call)
                live.health_check_due.set()
        return pending

    def _is_lost(self, live: ActiveConnection, error: Exception | None) -> bool:
        data = getattr(error, "error", None)
        if data is None:
            return error is None or live.is_lost
        failure = live.session.link.error_marker.get_failure(cast("Any", error))
        if failure in ("undelivered", "gone"):
            message = to_printable(self._services.redactor.redact(str(data.message)), _MAX_ERROR)
            self._connection.mark_lost(live, message)
        return failure in ("undelivered", "gone", "lost") or live.is_lost

    def _translate_error(self, live: ActiveConnection, error: Exception | None, method: str) -> UpstreamError:
        data = getattr(error, "error", None)
        if data is None:
            return self._error(f"gave an invalid answer to {method}")
        message = to_printable(self._services.redactor.redact(str(data.message)), _MAX_ERROR)
        if live.session.link.error_marker.get_failure(cast("Any", error)) is not None:
            return self._error(f"could not answer {method}: {message}")
        if data.code == _REQUEST_TIMEOUT:
            return self._error(f"did not answer {method} in time")
        live.has_served = True
        text = f"MCP server {self._spec.name!r} answered {method} with an error: {message}"
        return UpstreamRefusedError(text, server=self._spec.name, rpc_code=int(data.code))

    def _error(self, problem: str) -> UpstreamError:
        return UpstreamError(f"MCP server {self._spec.name!r} {problem}", server=self._spec.name)
