"""`McpServers`: connects to upstream MCP servers and keeps their tools in a registry."""

import inspect
import time
from collections.abc import Awaitable, Callable, Iterable
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import anyio

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
from spindle.extras import missing_extra
from spindle.json_types import JsonObject, untyped
from spindle.mcp.client.catalog import UpstreamCatalog
from spindle.mcp.client.connection import UpstreamConnection
from spindle.mcp.client.forwarding import UpstreamServer
from spindle.mcp.client.lifecycle import CallHeaders, ClientServices, Clock, LoopClock, ServerStatus
from spindle.mcp.client.task_ledger import TaskLedger
from spindle.mcp.client.user_connections import add_users
from spindle.mcp.lock.comparison import DefinitionChange
from spindle.mcp.lock.definitions import KINDS
from spindle.mcp.lock.lock_file import LockedServer
from spindle.mcp.lock.quarantine import LockPolicy
from spindle.mcp.spec import ServerSpec
from spindle.text import did_you_mean
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:  # it needs the extra `oauth`
    from spindle.mcp.oauth.logins import Logins

_CLOSE_SECONDS = 15.0
USER_SECONDS = 10.0
"""How long the connections of a user may take before his tools are listed without them."""

SecretResolver = Callable[[str], Awaitable[str] | str]
"""Returns the value of a secret by its name."""


class McpServers:
    """Upstream servers and their tools: `async with McpServers(specs) as servers`, then `Executor(servers.registry)`.

    A server is started on first use, a `required` one immediately. Each is owned by one task. `secrets` resolves the
    credentials that specs name; `headers` returns extra headers for a call over HTTP; `tasks` keeps the tasks that
    servers make of calls, by default in memory. With a `lock`, definitions of a locked server that changed or are new
    are neither offered nor callable. `logins` has the tokens of users for servers with OAuth: the user of a call is
    `user` of its caller, or "default" where a call has no caller.

    Raises:
        InvalidServerSpecError: Two servers have the same name.
    """

    registry: ToolRegistry
    """The tools that the servers offer now."""
    features: UpstreamCatalog
    """Their prompts, resources and resource templates."""

    def __init__(
        self,
        specs: Iterable[ServerSpec],
        *,
        secrets: SecretResolver | None = None,
        headers: CallHeaders | None = None,
        logins: "Logins | None" = None,
        events: Events | None = None,
        clock: Clock | None = None,
        lock: LockPolicy | None = None,
        client_name: str = "spindle",
        tasks: TaskLedger | None = None,
    ) -> None:
        self.registry = ToolRegistry()
        self._secrets = secrets
        self._events = Events() if events is None else events
        self.tasks = TaskLedger() if tasks is None else tasks
        """The tasks that servers run for calls."""
        self._redactor = Redactor()
        self._listeners: dict[object, Callable[[], None]] = {}
        self._group: anyio.abc.TaskGroup | None = None
        services = ClientServices(
            events=self._events,
            clock=LoopClock() if clock is None else clock,
            redactor=self._redactor,
            resolve=self._resolve,
            headers=headers,
            changed=self._notify_listeners,
            lock=LockPolicy() if lock is None else lock,
            client_name=client_name,
            tasks=self.tasks,
        )
        self._lock = services.lock
        self._servers = [
            UpstreamServer(
                spec,
                self.registry,
                services,
                on_tools_changed=self._update_others,
                on_features_changed=lambda features, kind: self.features.report_change(kind, features.user),
            )
            for spec in _check_specs(specs)
        ]
        self._by_user = add_users(self._servers, services, logins)
        features = [server.features for server in self._servers]
        self.features = UpstreamCatalog(features, self._events, by_user=self._by_user)

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise UsageError("this McpServers was already entered; create another one", field="servers")
        if find_spec("mcp") is None and any(each.spec.enabled for each in self._servers):
            raise missing_extra("mcp", purpose="the MCP client", package="mcp")
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        for server in self._get_enabled():
            if (users := self._by_user.get(server.spec.name)) is not None:
                users.open(self._group.start_soon)
                continue
            self._group.start_soon(server.connection.run)
            if server.spec.required:
                server.connection.request_start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        group = cast("anyio.abc.TaskGroup", self._group)
        for server in self._servers:
            server.connection.close()
        for users in self._by_user.values():
            users.close()
        group.cancel_scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        # The caller's exception propagates as it is, not inside an exception group.
        await group.__aexit__(None, None, None)

    async def ready(self) -> None:
        """Connect every server now; one that fails emits a warning, and its tools are unavailable.

        Raises:
            UpstreamRequiredError: A required server cannot be connected.
        """
        shared = [each for each in self._get_enabled() if each.by_user is None]
        attempts = [(each.spec, each.connection.request_start(is_fresh=True)) for each in shared]
        await self.connect_user(None)
        for users in self._by_user.values():
            users.warn_without_logins()
        dead: list[tuple[str, str]] = []
        for spec, attempt in attempts:
            await attempt.done.wait()
            if attempt.connection is None and spec.required:
                dead.append((spec.name, attempt.reason))
        if dead:
            said = "; ".join(f"{name!r}: {reason}" for name, reason in dead)
            raise UpstreamRequiredError(
                f"required MCP server not connected: {said}; fix it, or set required=False", server=dead[0][0]
            )

    async def describe(self, name: str, *, user: str | None = None) -> tuple[LockedServer, list[DefinitionChange]]:
        """Return what a server offers now, for a lock file, and the definitions that cannot be locked.

        A server with OAuth offers it to a user; `None` is the only user of this program.

        Raises:
            UnknownServerError: No server has that name.
            LoginRequiredError: The user has to log in.
            UpstreamError: The server cannot be connected.
        """
        server, users = self._find(name), self._by_user.get(name)
        server = server if users is None else users.get(user)
        attempt = server.connection.request_start(is_fresh=True)
        await attempt.done.wait()
        if attempt.connection is None:
            raise UpstreamError(f"MCP server {name!r} is not connected: {attempt.reason}", server=name)
        found = await server.describe()
        unreadable = [
            DefinitionChange(kind=kind, name=each, type="unreadable", problem=problem)
            for kind in KINDS
            for each, problem in server.guard.get_listing(kind).problems.items()
        ]
        return found, unreadable

    async def connect_user(self, user: str | None) -> None:
        """Connect a user to the servers with OAuth where he has logged in; `None` is the only user of this program."""
        async with anyio.create_task_group() as group:
            group.cancel_scope.deadline = anyio.current_time() + USER_SECONDS
            for users in self._by_user.values():
                group.start_soon(users.connect, user)

    def find_hidden_tools(self, user: str | None) -> frozenset[str]:
        """Return the registered tools of servers with OAuth that are those of other users."""
        return frozenset[str]().union(*(users.find_hidden(user) for users in self._by_user.values()))

    def status(self) -> list[ServerStatus]:
        """Return the status of each server, in the order of the specs."""
        return [server.status() for server in self._servers]

    def definitions(self) -> dict[str, list[JsonObject]]:
        """Return the tools of each server as it listed them, also those that are not offered.

        Nothing is sanitised: the texts are for checks such as `spindle.mcp.lint`, never for a client or a model.
        """
        return {server.spec.name: server.definitions() for server in self._servers}

    def on_change(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Call `fn` whenever tools or a server's state change; return a function that unsubscribes it."""
        key = object()
        self._listeners[key] = fn

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    async def ping(self, name: str) -> float:
        """Ping a server and return the seconds it took to answer.

        Raises:
            UnknownServerError: No server has that name.
            UpstreamError: The server cannot be connected, or does not answer.
        """
        connection = self._find_connection(name)
        attempt = connection.request_start(is_fresh=True)
        await attempt.done.wait()
        if attempt.connection is None:
            raise UpstreamError(f"MCP server {name!r} is not connected: {attempt.reason}", server=name)
        begun = time.perf_counter()
        if not await connection.health.is_responsive(attempt.connection):
            connection.mark_lost(attempt.connection, "it does not answer")
            raise UpstreamError(f"MCP server {name!r} does not answer", server=name)
        return time.perf_counter() - begun

    async def measure_latency(self, name: str) -> float | None:
        """Return the seconds that a connected server takes to answer a ping; `None` if it cannot be measured now.

        Unlike `ping`, it never starts a server, gives no connection up, and leaves servers alone that run calls. The
        connections of users to a server with OAuth are not measured.

        Raises:
            UnknownServerError: No server has that name.
            UpstreamError: The server does not answer.
        """
        connection = self._find(name).connection
        live = connection.get_idle()
        if live is None:
            return None
        begun = time.perf_counter()
        is_responsive = await connection.health.is_responsive(live)
        if connection.get_idle() is not live:  # a call that began meanwhile may have kept it from answering
            return None
        if not is_responsive:
            raise UpstreamError(f"MCP server {name!r} does not answer pings", server=name)
        return time.perf_counter() - begun

    @property
    def specs(self) -> tuple[ServerSpec, ...]:
        """What the servers were configured with."""
        return tuple(server.spec for server in self._servers)

    @property
    def lock(self) -> LockPolicy:
        """The lock in force."""
        return self._lock

    async def apply_lock(self, policy: LockPolicy) -> None:
        """Use another lock from now on; the latest listings are checked against it at once."""
        self._lock = policy
        for server in self._servers:
            server.guard.policy = policy
        for server in self._servers:
            await server.recheck()

    async def restart(self, name: str) -> None:
        """Stop a server and start it again.

        Raises:
            UnknownServerError: No server has that name.
            UpstreamError: The server does not start.
        """
        await self._find_connection(name).restart()

    def _update_others(self, changed: UpstreamServer) -> None:
        """Let other servers register tools that were rejected for a name which may be free now."""
        for server in self._servers:
            if server is not changed:
                server.retry_rejected_tools()
        self._notify_listeners()

    def _notify_listeners(self) -> None:
        for listener in list(self._listeners.values()):
            try:
                listener()
            except Exception as error:  # noqa: BLE001  a failing listener must not stop a server
                self._events.warn("a listener of McpServers.on_change raised", source="mcp", error=error)

    async def _resolve(self, server: str, name: str) -> str:
        if self._secrets is None:
            raise SecretError(
                f"MCP server {server!r} needs the secret {name!r}: pass McpServers(secrets=…) to resolve it",
                secret=name,
            )
        try:
            given = self._secrets(name)
            found = untyped(await given if inspect.isawaitable(given) else given)
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

    def _get_enabled(self) -> list[UpstreamServer]:
        if self._group is None:
            raise UsageError("McpServers must be entered first: `async with McpServers(…)`", field="servers")
        return [server for server in self._servers if server.spec.enabled]

    def _find_connection(self, name: str) -> UpstreamConnection:
        server, users = self._find(name), self._by_user.get(name)
        return server.connection if users is None else users.get(None).connection

    def _find(self, name: str) -> UpstreamServer:
        names = {server.spec.name: server for server in self._get_enabled()}
        if name in names:
            return names[name]
        hint = did_you_mean(name, names, f"known: {', '.join(map(repr, names)) or 'none'}")
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
