"""Other people's MCP servers, as tools in a registry of ours."""

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
from spindle.execution.results import HandlerResult, redacted
from spindle.extras import missing_extra
from spindle.mcp.client.connection import Connection
from spindle.mcp.client.forwarding import CallHeaders, Forwarder, headers_of
from spindle.mcp.client.lifecycle import ClientServices, Clock, LoopClock, ServerStatus
from spindle.mcp.client.tools import ServerTools, Wanted, make_tool
from spindle.mcp.spec import ServerSpec
from spindle.tools.context import ToolContext
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from mcp_types import Tool as ForeignTool

_CLOSE_SECONDS = 15.0

Secrets = Callable[[str], Awaitable[str] | str]
"""Gives the value of a secret by its name."""


class McpServers:
    """Upstream servers and their tools: `async with McpServers(specs) as servers`, then `Executor(servers.registry)`.

    A server is started when it is first needed, and one that is `required` at once. Each is owned by one task.
    `secrets` looks up the credentials that specs name; `headers` gives what one call over HTTP brings along.

    Raises:
        InvalidServerSpecError: Two servers have one name.
    """

    registry: ToolRegistry
    """The tools the servers offer, as they are now."""

    def __init__(
        self,
        specs: Iterable[ServerSpec],
        *,
        secrets: Secrets | None = None,
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
        self._specs = _checked(specs)
        self._connections: dict[str, Connection] = {}
        self._group: anyio.abc.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise UsageError("these MCP servers are entered already; make another McpServers", field="servers")
        if find_spec("mcp") is None and any(spec.enabled for spec in self._specs):
            raise missing_extra("mcp", purpose="the MCP client", package="mcp")
        self._connections = {spec.name: self._connection(spec) for spec in self._specs}
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        for connection in self._connections.values():
            if connection.spec.enabled:
                self._group.start_soon(connection.run)
                if connection.spec.required:
                    connection.want()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        group = cast("anyio.abc.TaskGroup", self._group)
        for connection in self._connections.values():
            connection.close()
        group.cancel_scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        # What the caller raised goes on as it is, not as one of a group.
        await group.__aexit__(None, None, None)

    async def ready(self) -> None:
        """Connect every server now; one that cannot be had is warned of, and its tools are unavailable.

        Raises:
            UpstreamRequiredError: A required server cannot be had.
        """
        attempts = [(each, each.want(now=True)) for each in self._running()]
        dead: list[tuple[str, str]] = []
        for connection, attempt in attempts:
            await attempt.settled.wait()
            if attempt.live is None and connection.spec.required:
                dead.append((connection.spec.name, attempt.reason))
        if dead:
            said = "; ".join(f"{name!r}: {reason}" for name, reason in dead)
            raise UpstreamRequiredError(
                f"a required MCP server is not connected: {said}; mend it, or say required=False", server=dead[0][0]
            )

    def status(self) -> list[ServerStatus]:
        """Tell how each server is, in the order they were given."""
        known = self._connections or {spec.name: self._connection(spec) for spec in self._specs}
        return [connection.status() for connection in known.values()]

    def on_change(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Have `fn` called when tools came, went or changed, or a server's state did; gives what stops it."""
        key = object()
        self._listeners[key] = fn
        return lambda: cast("None", self._listeners.pop(key, None))

    async def ping(self, name: str) -> float:
        """Ask a server whether it is there, and give the seconds it took to answer.

        Raises:
            UnknownServerError: No server has that name.
            UpstreamError: It cannot be had, or does not answer.
        """
        connection = self._find(name)
        attempt = connection.want(now=True)
        await attempt.settled.wait()
        if attempt.live is None:
            raise UpstreamError(f"MCP server {name!r} is not connected: {attempt.reason}", server=name)
        begun = time.perf_counter()
        if not await connection.answers(attempt.live):
            connection.lose(attempt.live, "it does not answer")
            raise UpstreamError(f"MCP server {name!r} does not answer", server=name)
        return time.perf_counter() - begun

    async def restart(self, name: str) -> None:
        """End a server and start it anew.

        Raises:
            UnknownServerError: No server has that name.
            UpstreamError: It does not start.
        """
        await self._find(name).restart()

    # --- inside

    def _connection(self, spec: ServerSpec) -> Connection:
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
        connection = Connection(spec, shelf, house)
        forwarder = Forwarder(connection)

        async def forward(wanted: Wanted) -> Ok | Err:
            return redacted(HandlerResult(await forwarder.forward(wanted)), self._redactor).result

        def put(foreign: Sequence["ForeignTool"]) -> None:
            if shelf.put(foreign, lambda each: make_tool(spec, each, forward, forwarder, warn)):
                self._settle_others(connection)
                self._changed()

        connection.put = put
        return connection

    def _settle_others(self, changed: Connection) -> None:
        """Let tools that another server's had the name of take their place, where that one is gone now."""
        for other in self._connections.values():
            if other is not changed and other.shelf.has_refused:
                other.put_again()

    def _changed(self) -> None:
        for listener in list(self._listeners.values()):
            try:
                listener()
            except Exception as error:  # noqa: BLE001  a listener must never end a server
                self._events.warn("a listener of McpServers.on_change raised", source="mcp", error=error)

    async def _headers_of(self, spec: ServerSpec, ctx: ToolContext) -> dict[str, str]:
        return await headers_of(self._headers if spec.transport == "http" else None, spec.name, ctx, self._redactor)

    async def _resolve(self, server: str, name: str) -> str:
        if self._secrets is None:
            raise SecretError(
                f"MCP server {server!r} needs the secret {name!r}: give McpServers(secrets=…) to look it up",
                secret=name,
            )
        try:
            given = self._secrets(name)
            found = cast("object", await given if inspect.isawaitable(given) else given)
        except SecretError:
            raise
        except Exception as error:
            raise SecretError(f"the secret {name!r} of MCP server {server!r} cannot be had", secret=name) from error
        value = found.reveal() if isinstance(found, Secret) else found
        if not isinstance(value, str) or not value:
            raise SecretError(f"there is no secret {name!r}, which MCP server {server!r} needs", secret=name)
        self._redactor.add(value)
        return value

    def _running(self) -> list[Connection]:
        if self._group is None:
            raise UsageError("MCP servers are used inside `async with McpServers(…)`", field="servers")
        return [connection for connection in self._connections.values() if connection.spec.enabled]

    def _find(self, name: str) -> Connection:
        names = {connection.spec.name: connection for connection in self._running()}
        if name in names:
            return names[name]
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(map(repr, names)) or 'none'}"
        raise UnknownServerError(f"no MCP server that is enabled is called {name!r:.80}; {hint}", server=str(name))


def _checked(specs: Iterable[ServerSpec]) -> list[ServerSpec]:
    known: dict[str, ServerSpec] = {}
    for spec in cast("Iterable[object]", specs):
        if not isinstance(spec, ServerSpec):
            raise InvalidServerSpecError(f"a server is described by a ServerSpec, not by a {type(spec).__name__}")
        if spec.name in known:
            raise InvalidServerSpecError(
                f"two MCP servers are called {spec.name!r}; rename one", server=spec.name, field="name"
            )
        known[spec.name] = spec
    return list(known.values())
