"""Forwards calls to an upstream server; a call is sent a second time only if it was not delivered or is repeatable."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio

from spindle.calls import Err, Ok
from spindle.capabilities.secrets.secret import Redactor, Secret
from spindle.errors import UpstreamError
from spindle.mcp.client.connection import UpstreamConnection
from spindle.mcp.client.lifecycle import Action, ActiveConnection, Content, RunningCall
from spindle.mcp.client.results import to_result
from spindle.mcp.client.tools import UpstreamCall
from spindle.mcp.spec import is_custom_header
from spindle.tools.context import ToolContext
from spindle.tools.schema.problems import to_printable

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult, ElicitRequestParams


_MAX_PROGRESS = 500
_MAX_ERROR = 4_000
_SPARE_SECONDS = 5.0
"""Extra time for the SDK's own timeout, so that the call's deadline expires first."""
_REQUEST_TIMEOUT = -32001


@dataclass(frozen=True, slots=True)
class _LostConnection:
    """A lost connection; `is_undelivered` if the server cannot have received the call."""

    is_undelivered: bool
    reason: str


@dataclass(eq=False)
class _PendingResult:
    """The result or error of one call, and the event that it is there."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    result: "CallToolResult | None" = None
    error: Exception | None = None


class Forwarder:
    """Sends the calls of one server's tools."""

    def __init__(self, connection: UpstreamConnection) -> None:
        self._connection = connection
        self._server = connection.spec.name

    def __call__(self) -> bool:
        """Return whether the server's tools can be called now."""
        return self._connection.is_open()

    def why(self) -> str:
        """Return why they cannot be called."""
        return self._not_connected()

    def _not_connected(self) -> str:
        error = self._connection.status().error
        return f"MCP server {self._server!r} is not connected" + (f": {error}" if error else ".")

    async def forward(self, upstream_call: UpstreamCall) -> Ok | Err:
        """Run one call and return its result; always returns within the server's `timeout_seconds`."""
        seconds = self._connection.spec.timeout_seconds
        with anyio.move_on_after(seconds):
            try:
                headers = await self._connection.services.headers(upstream_call.ctx)
            except UpstreamError as error:
                return Err("execution_failed", f"Nothing was sent: {error}.", cause=error)
            return await self._forward(upstream_call, headers)
        return Err("timed_out", f"MCP server {self._server!r} did not answer within {seconds:g} s.")

    async def _forward(self, upstream_call: UpstreamCall, headers: dict[str, str]) -> Ok | Err:
        lost = _LostConnection(is_undelivered=True, reason="")
        for is_again in (False, True):
            live = await self._connection.get_active(wait_for_retry=is_again)
            if live is None:
                break
            answer = await self._ask(live, upstream_call, headers)
            if not isinstance(answer, _LostConnection):
                return answer
            lost = answer
            if not lost.is_undelivered and not upstream_call.is_repeatable:
                break
        return self._build_lost_error(lost)

    def _build_lost_error(self, lost: _LostConnection) -> Err:
        if lost.is_undelivered:
            return Err("not_available", self._not_connected(), retryable=True)
        text = (
            f"MCP server {self._server!r} is not connected: {lost.reason} while the call ran, "
            "and it is not known whether the call took effect."
        )
        return Err("execution_failed", text)

    async def _ask(
        self, live: ActiveConnection, wanted: UpstreamCall, headers: dict[str, str]
    ) -> Ok | Err | _LostConnection:
        """Run the call in the owning task's group, so that a cancelled caller never waits for the server."""
        if live.is_lost:
            return _LostConnection(is_undelivered=True, reason=live.reason)
        box, call = _PendingResult(), RunningCall(self._server, wanted.tool, wanted.ctx, headers)
        try:
            live.group.start_soon(self._run, live, wanted, call, box)
        except RuntimeError:  # the group has just ended
            return _LostConnection(is_undelivered=True, reason=live.reason)
        try:
            await box.done.wait()
        finally:
            if not box.done.is_set():
                box.scope.cancel()  # the SDK also notifies the server
                self._connection.calls.remove(call)
                live.health_check_due.set()
        return self._read(live, wanted, box)

    async def _run(
        self, live: ActiveConnection, upstream_call: UpstreamCall, call: RunningCall, box: _PendingResult
    ) -> None:
        async def ask(params: "ElicitRequestParams") -> tuple[Action, Content | None]:
            return await call.ask(params, self._connection.services.events)

        try:
            with box.scope, self._connection.calls.track(call):
                box.result = await live.session.call(
                    upstream_call.tool,
                    upstream_call.args,
                    seconds=self._connection.spec.timeout_seconds + _SPARE_SECONDS,
                    on_progress=_build_progress_callback(upstream_call, box),
                    ask=ask,
                )
        except Exception as error:  # noqa: BLE001  every error becomes the answer of the call
            box.error = error
        finally:
            box.done.set()

    def _read(self, live: ActiveConnection, wanted: UpstreamCall, box: _PendingResult) -> Ok | Err | _LostConnection:
        if box.result is not None:
            live.has_served = True
            return to_result(box.result, check_output=wanted.check_output)
        if box.error is None:
            return _LostConnection(is_undelivered=False, reason=live.reason)
        return self._failed(live, box.error)

    def _failed(self, live: ActiveConnection, error: Exception) -> Err | _LostConnection:
        data = getattr(error, "error", None)
        if data is None:
            text = f"MCP server {self._server!r} returned an invalid tool result."
            return Err("execution_failed", text)
        message = to_printable(str(data.message), _MAX_ERROR)
        match live.session.link.error_marker.get_failure(cast("Any", error)):
            case "undelivered" | "gone":
                self._connection.mark_lost(live, message)
                return _LostConnection(is_undelivered=True, reason=message)
            case "lost":
                return _LostConnection(is_undelivered=False, reason=message)
            case "refused" | "too_large":
                return Err("execution_failed", f"MCP server {self._server!r}: {message}")
            case _:
                pass
        if live.is_lost:
            return _LostConnection(is_undelivered=False, reason="its connection broke")
        if data.code == _REQUEST_TIMEOUT:
            return Err("timed_out", f"MCP server {self._server!r} did not answer in time.")
        live.has_served = True
        return Err("execution_failed", f"MCP server {self._server!r} answered with an error: {message}")


def _build_progress_callback(upstream_call: UpstreamCall, box: _PendingResult) -> "ProgressFnT":
    """Return a callback that forwards progress to the context until the call ends."""

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        if box.done.is_set() or box.scope.cancel_called:
            return
        percent = max(0.0, min(100.0, 100 * progress / total)) if total else None
        steps = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        upstream_call.ctx.progress(to_printable(message, _MAX_PROGRESS) if message else steps, percent)

    return tell


HeaderMapping: TypeAlias = Mapping[str, str] | Mapping[str, Secret] | Mapping[str, str | Secret]
CallHeaders: TypeAlias = Callable[[str, ToolContext], Awaitable[HeaderMapping] | HeaderMapping]
"""Returns the headers of one call, given the name of its server and its context."""


async def get_call_headers(
    callback: CallHeaders | None, server: str, ctx: ToolContext, redactor: Redactor
) -> dict[str, str]:
    """Return the extra headers of a call; a `Secret` among them is added to the redactor.

    Raises:
        UpstreamError: The callback failed, or a header is invalid.
    """
    if callback is None:
        return {}
    try:
        given = callback(server, ctx)
        found = cast("object", await given if inspect.isawaitable(given) else given)
    except Exception as error:
        raise UpstreamError(
            f"the headers callback failed for a call to MCP server {server!r}", server=server
        ) from error
    if not isinstance(found, Mapping):
        kind = type(found).__name__
        raise UpstreamError(
            f"the headers of a call to MCP server {server!r} must be a mapping, not a {kind}", server=server
        )
    return {str(name): _text(server, name, value, redactor) for name, value in cast("HeaderMapping", found).items()}


def _text(server: str, name: object, value: object, redactor: Redactor) -> str:
    if isinstance(value, Secret):
        redactor.add(value)
    text = value.reveal() if isinstance(value, Secret) else value
    if not is_custom_header(name) or not isinstance(text, str) or not text.isascii() or not text.isprintable():
        # The value may be secret, so the message omits it.
        raise UpstreamError(f"invalid header {name!r:.80} for a call to MCP server {server!r}", server=server)
    return text
