"""`McpServers`: connects to upstream MCP servers and keeps their tools in a registry."""

import difflib
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import anyio

from spindle.calls import Err, Ok
from spindle.capabilities.secrets.secret import Redactor, Secret
from spindle.errors import (
    InvalidServerSpecError,
    SecretError,
    UnknownServerError,
    UpstreamError,
    UpstreamRequiredError,
    UsageError,
)
from spindle.events import Events
from spindle.execution.results import HandlerResult, redact_result
from spindle.extras import missing_extra
from spindle.mcp.client.connection import UpstreamConnection
from spindle.mcp.client.forwarding import CallHeaders, Forwarder, get_call_headers
from spindle.mcp.client.lifecycle import ClientServices, Clock, LoopClock, ServerStatus
from spindle.mcp.client.tools import ServerTools, UpstreamCall, make_tool
from spindle.mcp.spec import ServerSpec
from spindle.tools.context import ToolContext
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from mcp_types import Tool as ForeignTool

_CLOSE_SECONDS = 15.0

SecretResolver = Callable[[str], Awaitable[str] | str]
"""Returns the value of a secret by its name."""


class McpServers:
    """Upstream servers and their tools: `async with McpServers(specs) as servers`, then `Executor(servers.registry)`.

    A server is started on first use, a `required` one immediately. Each is owned by one task. `secrets` resolves the
    credentials that specs name; `headers` returns extra headers for a call over HTTP.

    Raises:
        InvalidServerSpecError: Two servers have the same name.
    """

    registry: ToolRegistry
    """The tools that the servers offer now."""

    def __init__(
        self,
        specs: Iterable[ServerSpec],
        *,
        secrets: SecretResolver | None = None,
        headers: CallHeaders | None = None,
        events: Events | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.registry = ToolRegistry()
        self._secrets = secrets
        self._headers = headers
        self._events = Events() if events is None else events
        self._clock = LoopClock() if clock is None else clock
        self._redactor = Redactor()
        self._listeners: dict[object, Callable[[], None]] = {}
        self._specs = _check_specs(specs)
        self._connections: dict[str, UpstreamConnection] = {}
        self._group: anyio.abc.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise UsageError("this McpServers was already entered; create another one", field="servers")
        if find_spec("mcp") is None and any(spec.enabled for spec in self._specs):
            raise missing_extra("mcp", purpose="the MCP client", package="mcp")
        self._connections = {spec.name: self._connection(spec) for spec in self._specs}
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        for connection in self._connections.values():
            if connection.spec.enabled:
                self._group.start_soon(connection.run)
                if connection.spec.required:
                    connection.request_start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        group = cast("anyio.abc.TaskGroup", self._group)
        for connection in self._connections.values():
            connection.close()
        group.cancel_scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        # The caller's exception propagates as it is, not inside an exception group.
        await group.__aexit__(None, None, None)

    async def ready(self) -> None:
        """Connect every server now; one that fails emits a warning, and its tools are unavailable.

        Raises:
            UpstreamRequiredError: A required server cannot be connected.
        """
        attempts = [(each, each.request_start(now=True)) for each in self._running()]
        dead: list[tuple[str, str]] = []
        for connection, attempt in attempts:
            await attempt.done.wait()
            if attempt.connection is None and connection.spec.required:
                dead.append((connection.spec.name, attempt.reason))
        if dead:
            said = "; ".join(f"{name!r}: {reason}" for name, reason in dead)
            raise UpstreamRequiredError(
                f"required MCP server not connected: {said}; fix it, or set required=False", server=dead[0][0]
            )

    def status(self) -> list[ServerStatus]:
        """Return the status of each server, in the order of the specs."""
        known = self._connections or {spec.name: self._connection(spec) for spec in self._specs}
        return [connection.status() for connection in known.values()]

    def on_change(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Call `fn` whenever tools or a server's state change; return a function that unsubscribes it."""
        key = object()
        self._listeners[key] = fn
        return lambda: cast("None", self._listeners.pop(key, None))

    async def ping(self, name: str) -> float:
        """Ping a server and return the seconds it took to answer.

        Raises:
            UnknownServerError: No server has that name.
            UpstreamError: The server cannot be connected, or does not answer.
        """
        connection = self._find(name)
        attempt = connection.request_start(now=True)
        await attempt.done.wait()
        if attempt.connection is None:
            raise UpstreamError(f"MCP server {name!r} is not connected: {attempt.reason}", server=name)
        begun = time.perf_counter()
        if not await connection.is_responsive(attempt.connection):
            connection.mark_lost(attempt.connection, "it does not answer")
            raise UpstreamError(f"MCP server {name!r} does not answer", server=name)
        return time.perf_counter() - begun

    async def restart(self, name: str) -> None:
        """Stop a server and start it again.

        Raises:
            UnknownServerError: No server has that name.
            UpstreamError: The server does not start.
        """
        await self._find(name).restart()

    def _connection(self, spec: ServerSpec) -> UpstreamConnection:
        house = ClientServices(
            events=self._events,
            clock=self._clock,
            resolve=partial(self._resolve, spec.name),
            redact=self._redactor.redact,
            changed=self._changed,
            headers=partial(self._headers_of, spec),
        )

        def warn(text: str) -> None:
            self._events.warn(f"MCP server {spec.name!r}: {text}", source="mcp")

        shelf = ServerTools(spec, self.registry, warn)
        connection = UpstreamConnection(spec, shelf, house)
        forwarder = Forwarder(connection)

        async def forward(wanted: UpstreamCall) -> Ok | Err:
            return redact_result(HandlerResult(await forwarder.forward(wanted)), self._redactor).result

        def put(foreign: Sequence["ForeignTool"]) -> None:
            if shelf.update(foreign, lambda each: make_tool(spec, each, forward, forwarder, warn)):
                self._retry_rejected_tools(connection)
                self._changed()

        connection.register_listing = put
        return connection

    def _retry_rejected_tools(self, changed: UpstreamConnection) -> None:
        """Register tools of other servers that were rejected for a name which may be free now."""
        for other in self._connections.values():
            if other is not changed and other.tools.has_rejected:
                other.register_again()

    def _changed(self) -> None:
        for listener in list(self._listeners.values()):
            try:
                listener()
            except Exception as error:  # noqa: BLE001  a failing listener must not stop a server
                self._events.warn("a listener of McpServers.on_change raised", source="mcp", error=error)

    async def _headers_of(self, spec: ServerSpec, ctx: ToolContext) -> dict[str, str]:
        return await get_call_headers(
            self._headers if spec.transport == "http" else None, spec.name, ctx, self._redactor
        )

    async def _resolve(self, server: str, name: str) -> str:
        if self._secrets is None:
            raise SecretError(
                f"MCP server {server!r} needs the secret {name!r}: pass McpServers(secrets=…) to resolve it",
                secret=name,
            )
        try:
            given = self._secrets(name)
            found = cast("object", await given if inspect.isawaitable(given) else given)
        except SecretError:
            raise
        except Exception as error:
            raise SecretError(
                f"the secret {name!r} of MCP server {server!r} cannot be resolved", secret=name
            ) from error
        value = found.reveal() if isinstance(found, Secret) else found
        if not isinstance(value, str) or not value:
            raise SecretError(f"the secret {name!r} that MCP server {server!r} needs is not set", secret=name)
        self._redactor.add(value)
        return value

    def _running(self) -> list[UpstreamConnection]:
        if self._group is None:
            raise UsageError("McpServers must be entered first: `async with McpServers(…)`", field="servers")
        return [connection for connection in self._connections.values() if connection.spec.enabled]

    def _find(self, name: str) -> UpstreamConnection:
        names = {connection.spec.name: connection for connection in self._running()}
        if name in names:
            return names[name]
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(map(repr, names)) or 'none'}"
        raise UnknownServerError(f"no enabled MCP server is named {name!r:.80}; {hint}", server=str(name))


def _check_specs(specs: Iterable[ServerSpec]) -> list[ServerSpec]:
    known: dict[str, ServerSpec] = {}
    for spec in cast("Iterable[object]", specs):
        if not isinstance(spec, ServerSpec):
            raise InvalidServerSpecError(f"expected a ServerSpec, got a {type(spec).__name__}")
        if spec.name in known:
            raise InvalidServerSpecError(
                f"two MCP servers are named {spec.name!r}; rename one", server=spec.name, field="name"
            )
        known[spec.name] = spec
    return list(known.values())
