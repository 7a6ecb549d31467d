"""`UpstreamServer`: one upstream server, the registration of its tools, and the calls forwarded to it.

A call is sent a second time only if it was not delivered or is repeatable.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread

from spindle.calls import Err, Ok
from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import ClientCapabilityError, InvalidToolError, UpstreamError
from spindle.execution.results import HandlerResult, redact_result
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.mcp.client.call_headers import get_call_headers
from spindle.mcp.client.connection import UpstreamConnection
from spindle.mcp.client.contents import map_result_uris
from spindle.mcp.client.feature_lock import FeatureLock
from spindle.mcp.client.features import KINDS as LIST_KINDS
from spindle.mcp.client.features import FeaturesChanged, UpstreamFeatures
from spindle.mcp.client.lifecycle import ActiveConnection, ClientServices, ServerStatus
from spindle.mcp.client.results import to_result
from spindle.mcp.client.running_calls import RunningCall
from spindle.mcp.client.task_ledger import CallTask
from spindle.mcp.client.tools import PreparedListing, ServerTools, UpstreamCall, Warn, make_tool, to_definition
from spindle.mcp.client.upstream_questions import Answered, Question, describe_capabilities
from spindle.mcp.client.user_listings import CallsByUser
from spindle.mcp.client_requests import Capability, can_ask
from spindle.mcp.lock.definitions import KINDS, bound_facts
from spindle.mcp.lock.lock_file import LockedServer
from spindle.mcp.lock.quarantine import MAX_SHOWN, DefinitionGuard
from spindle.mcp.spec import ServerSpec
from spindle.text import to_printable
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.trust.sanitise import sanitise

if TYPE_CHECKING:
    from mcp.client.subscriptions import ServerEvent
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult
    from mcp_types import Tool as ForeignTool

_MAX_PROGRESS = 500
_MAX_ERROR = 4_000
_SPARE_SECONDS = 5.0
"""Extra time for the SDK's own timeout, so that the call's deadline expires first."""
_REQUEST_TIMEOUT = -32001
_MISSING_CAPABILITY = -32021


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


@dataclass(frozen=True, slots=True)
class _Availability:
    """The availability check of a server's tools."""

    connection: UpstreamConnection

    def __call__(self) -> bool:
        """Return whether the server's tools can be called now."""
        return self.connection.is_open() or self.connection.spec.oauth is not None

    def why(self) -> str:
        """Return why they cannot be called."""
        return self.connection.describe_absence()


class UpstreamServer:
    """One upstream server: its connection, its registered tools, and the calls to them."""

    def __init__(
        self,
        spec: ServerSpec,
        registry: ToolRegistry,
        services: ClientServices,
        *,
        on_tools_changed: "Callable[[UpstreamServer], None]",
        on_features_changed: FeaturesChanged = lambda _features, _kind: None,
        guard: DefinitionGuard | None = None,
    ) -> None:
        self.spec = spec
        self.connection = UpstreamConnection(spec, services, self)
        self._services = services
        self.guard = guard or DefinitionGuard(
            spec.name, services.lock, events=services.events, redactor=services.redactor
        )
        self._tools = ServerTools(spec, registry, self._warn, self.guard)
        self.features = UpstreamFeatures(
            self.connection,
            services,
            self._get_headers,
            on_features_changed,
            FeatureLock(self.guard, services.redactor),
        )
        """Its prompts and resources."""
        self._on_tools_changed = on_tools_changed
        self.report_features = on_features_changed
        """Tells clients that a list of prompts or resources has changed."""
        self._listed: Sequence[ForeignTool] | None = None
        self.by_user: CallsByUser | None = None
        """For a server with OAuth, whose own `connection` is never opened: it would have no user."""

    def status(self) -> ServerStatus:
        """Return the current status."""
        withheld = self.guard.get_withheld()
        source = self.connection if self.by_user is None else self.by_user
        if self.by_user is not None:
            withheld = tuple(dict.fromkeys((*withheld, *self.by_user.get_withheld())))
        return replace(
            source.status(tools=len(self._tools)),
            locked=self.guard.is_locked,
            quarantined=len(withheld),
            withheld=withheld[:MAX_SHOWN],
        )

    async def describe(self) -> LockedServer:
        """Return what the server offers and says about itself now, without its origin.

        What a lock file cannot hold is left out: `guard` has the problems.
        """
        live = await self.connection.get_active()
        if live is None:
            return LockedServer()
        for each in LIST_KINDS:
            await self.features.refresh(each)
        await self.features.lock.survey_apps(lambda uri: self.features.read(uri, ctx=ToolContext()))
        said: JsonObject = self._services.redactor.redact_value(live.session.describe_server())
        listed = {kind: self.guard.get_listing(kind).definitions for kind in KINDS}
        return LockedServer(
            program=bound_facts(said["program"]),
            capabilities=bound_facts(said["capabilities"]),
            protocol=live.session.protocol_version,
            definitions={kind: listed[kind] for kind in KINDS if listed[kind]},
        )

    def definitions(self) -> list[JsonObject]:
        """Return the definitions of the last listing, not sanitised, with our own secrets masked."""
        return [self._services.redactor.redact_value(each) for each in self._tools.get_listed()]

    def retry_rejected_tools(self) -> None:
        """Register the tools that were rejected for a name which may be free now."""
        if self._tools.retry():
            self._on_tools_changed(self)

    def prepare_listing(self, listed: "Sequence[ForeignTool]") -> PreparedListing:
        """Convert what is new or changed in a listing; may run in a thread."""
        self._listed = tuple(listed)
        return self._tools.prepare(listed, self._make_tool)

    def apply_listing(self, prepared: PreparedListing) -> None:
        """Register the changes of a listing."""
        withheld = self.guard.get_withheld()
        if self._tools.apply(prepared):
            self._on_tools_changed(self)
        elif withheld != self.guard.get_withheld():
            self._services.changed()

    def is_withheld(self, tool: str) -> bool:
        """Return whether the latest listing has the tool in quarantine."""
        return self.guard.is_withheld("tool", tool)

    async def recheck(self) -> None:
        """Check the latest listing again, since the lock was replaced."""
        if self.by_user is not None:
            await self.by_user.recheck()
        elif self._listed is not None:
            self.apply_listing(await anyio.to_thread.run_sync(self.prepare_listing, self._listed))
        await self.features.lock.recheck()
        self.report_features(self.features, "prompts")
        self.report_features(self.features, "resources")

    async def watch_features(self, live: ActiveConnection) -> None:
        """List prompts and resources while the server is connected."""
        await self.features.run(live)

    def notice_change(self, event: "ServerEvent") -> None:
        """Note that prompts or resources have changed."""
        self.features.notice(event)

    def _make_tool(self, foreign: "ForeignTool", warn: Warn) -> Tool:
        shown = self._services.redactor.redact_value(foreign)
        if shown.name != foreign.name:
            raise InvalidToolError("its name contains a secret of this configuration", tool=shown.name, field="name")
        return make_tool(self.spec, shown, self.call, _Availability(self.connection), warn)

    def _warn(self, text: str) -> None:
        clean = self._services.redactor.redact(text)
        self._services.events.warn(f"MCP server {self.spec.name!r}: {clean}", source="mcp")

    async def call(self, wanted: UpstreamCall) -> Ok | Err:
        """Send one call and return its result without our credentials, within the tool's timeout."""
        if self.by_user is not None:
            return await self.by_user.call(wanted)
        result = await self._call_in_time(wanted)
        return redact_result(HandlerResult(result), self._services.redactor).result

    async def _call_in_time(self, wanted: UpstreamCall) -> Ok | Err:
        name, seconds = self.spec.name, wanted.timeout_seconds
        with anyio.move_on_after(seconds):
            try:
                headers = await self._get_headers(wanted.ctx)
            except UpstreamError as error:
                return Err("execution_failed", f"Nothing was sent: {error}.", cause=error)
            return await self._call_with_retry(wanted, headers)
        return Err("timed_out", f"MCP server {name!r} did not answer within {seconds:g} s.")

    async def _get_headers(self, ctx: ToolContext) -> dict[str, str]:
        callback = self._services.headers if self.spec.transport == "http" else None
        return await get_call_headers(callback, self.spec.name, ctx, self._services.redactor)

    async def _call_with_retry(self, upstream_call: UpstreamCall, headers: dict[str, str]) -> Ok | Err:
        lost = _LostConnection(is_undelivered=True, reason="")
        for _ in range(2):
            live = await self.connection.get_active()
            if live is None:
                break
            if self.is_withheld(upstream_call.tool):  # it has changed with the connection
                return Err(
                    "not_available", f"MCP server {self.spec.name!r} has changed this tool: it is in quarantine."
                )
            answer = await self._ask(live, upstream_call, headers)
            if not isinstance(answer, _LostConnection):
                return answer
            lost = answer
            # A call that has created a task is not sent again: it goes on waiting for the task.
            is_sent = not lost.is_undelivered and not upstream_call.is_repeatable
            if is_sent and await self._get_task(upstream_call).find() is None:
                break
        return self._build_lost_error(lost)

    def _build_lost_error(self, lost: _LostConnection) -> Err:
        if lost.is_undelivered:
            return Err("not_available", self.connection.describe_absence(), retryable=True)
        text = (
            f"MCP server {self.spec.name!r} is not connected: {lost.reason} while the call ran, "
            "and it is not known whether the call took effect."
        )
        return Err("execution_failed", text)

    def _get_task(self, wanted: UpstreamCall) -> CallTask:
        ledger = self._services.tasks
        return CallTask(ledger=ledger, call_id=wanted.ctx.tool_call_id, server=self.spec.name, tool=wanted.tool)

    async def _ask(
        self, live: ActiveConnection, wanted: UpstreamCall, headers: dict[str, str]
    ) -> Ok | Err | _LostConnection:
        """Run the call in the owning task's group, so that a cancelled caller never waits for the server."""
        if live.is_lost:
            return _LostConnection(is_undelivered=True, reason=live.reason)
        box, call = _PendingResult(), self._build_call(wanted, headers)
        try:
            live.group.start_soon(self._run, live, wanted, call, box)
        except RuntimeError:  # the group has just ended
            return _LostConnection(is_undelivered=True, reason=live.reason)
        try:
            await box.done.wait()
        finally:
            if not box.done.is_set():
                box.scope.cancel()  # the SDK also notifies the server
                self.connection.calls.remove(call)
                live.health_check_due.set()
        return self._read(live, wanted, box)

    def _build_call(self, wanted: UpstreamCall, headers: dict[str, str]) -> RunningCall:
        spec = self.spec
        return RunningCall(spec.name, wanted.tool, wanted.ctx, headers, spec.sampling, spec.roots)

    async def _run(
        self, live: ActiveConnection, upstream_call: UpstreamCall, call: RunningCall, box: _PendingResult
    ) -> None:
        async def ask(questions: Sequence[Question]) -> list[Answered]:
            return await call.ask(self._services.redactor.redact_value(list(questions)), self._services.events)

        try:
            with box.scope, self.connection.calls.track(call):
                box.result = await live.session.call(
                    upstream_call.tool,
                    upstream_call.args,
                    seconds=upstream_call.timeout_seconds + _SPARE_SECONDS,
                    on_progress=_build_progress_callback(upstream_call, box, self._services.redactor),
                    ask=ask,
                    may_repeat=lambda listed: (
                        not self.guard.check("tool", [to_definition(each) for each in listed]).is_withheld(
                            upstream_call.tool
                        )
                    ),
                    capabilities=describe_capabilities(call.ctx, sampling=self.spec.sampling, roots=self.spec.roots),
                    task=self._get_task(upstream_call),
                )
        except Exception as error:  # noqa: BLE001  every error becomes the answer of the call
            box.error = error
        finally:
            box.done.set()

    def _read(self, live: ActiveConnection, wanted: UpstreamCall, box: _PendingResult) -> Ok | Err | _LostConnection:
        if box.result is not None:
            live.has_served = True
            return to_result(map_result_uris(box.result, self.features.uris), check_output=wanted.check_output)
        if box.error is None:
            return _LostConnection(is_undelivered=False, reason=live.reason)
        return self._translate_error(live, box.error, wanted.ctx)

    def _translate_error(self, live: ActiveConnection, error: Exception, ctx: ToolContext) -> Err | _LostConnection:
        data = getattr(error, "error", None)
        if data is None:
            text = f"MCP server {self.spec.name!r} returned an invalid tool result."
            return Err("execution_failed", text)
        message = to_printable(self._services.redactor.redact(str(data.message)), _MAX_ERROR)
        match live.session.link.error_marker.get_failure(cast("Any", error)):
            case "undelivered" | "gone":
                self.connection.mark_lost(live, message)
                return _LostConnection(is_undelivered=True, reason=message)
            case "lost":
                return _LostConnection(is_undelivered=False, reason=message)
            case "refused" | "too_large":
                return Err("execution_failed", f"MCP server {self.spec.name!r}: {message}")
            case _:
                pass
        if live.is_lost:
            return _LostConnection(is_undelivered=False, reason="its connection broke")
        if data.code == _MISSING_CAPABILITY and (needed := _find_needed_capability(data.data)) is not None:
            live.has_served = True
            return self._build_capability_error(needed, ctx)
        if data.code == _REQUEST_TIMEOUT:
            return Err("timed_out", f"MCP server {self.spec.name!r} did not answer in time.")
        live.has_served = True
        return Err("execution_failed", f"MCP server {self.spec.name!r} answered with an error: {message}")

    def _build_capability_error(self, needed: Capability, ctx: ToolContext) -> Err:
        text = f"The MCP server {self.spec.name!r} needs a client that declares the capability {needed!r}."
        if can_ask(ctx, needed):
            text = f"The MCP server {self.spec.name!r} needs {needed}, which is not allowed in its configuration."
            return Err("execution_failed", text)
        return Err("execution_failed", text, cause=ClientCapabilityError(text, capability=needed))


def _find_needed_capability(data: JsonValue) -> Capability | None:
    """Return the capability of a client that a server misses, if it is one that a client of ours may have."""
    needed = data.get("requiredCapabilities") if is_object(data) else None
    known: tuple[Capability, ...] = ("elicitation", "sampling", "roots")
    return next((name for name in known if is_object(needed) and name in needed), None)


def _build_progress_callback(upstream_call: UpstreamCall, box: _PendingResult, redactor: Redactor) -> "ProgressFnT":
    """Return a callback that forwards progress to the context until the call ends."""

    async def report(progress: float, total: float | None, message: str | None) -> None:
        if box.done.is_set() or box.scope.cancel_called:
            return
        percent = max(0.0, min(100.0, 100 * progress / total)) if total else None
        steps = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        # Redacted before it is shortened: the beginning of a secret is not recognised.
        shown = to_printable(sanitise(redactor.redact(message)), _MAX_PROGRESS) if message else steps
        upstream_call.ctx.progress(redactor.redact(shown), percent)

    return report
