"""One connection to a server with OAuth for each user: tokens, sessions and listings of users never mix.

Tools are registered once for all users, from the listings of those who have connected. A user sees and calls those
that his own connection lists with the same definition. Prompts and resources are not shared at all: each user has
those of his own connection, which a guard of their own checks against the lock.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import anyio
from typing_extensions import override

from spindle.calls import Err, Ok
from spindle.errors import LoginRequiredError, UpstreamError, UsageError
from spindle.mcp.client.connection import UpstreamConnection
from spindle.mcp.client.feature_lock import FeatureLock
from spindle.mcp.client.features import ListKind, UpstreamFeatures
from spindle.mcp.client.forwarding import UpstreamServer
from spindle.mcp.client.lifecycle import ClientServices, ServerState, ServerStatus
from spindle.mcp.client.tools import PreparedListing, UpstreamCall, to_definition
from spindle.mcp.client.user_listings import UserListings
from spindle.mcp.lock.lock_file import LockedServer
from spindle.mcp.lock.quarantine import DefinitionGuard, WithheldDefinition
from spindle.mcp.spec import ServerSpec
from spindle.tools.context import ToolContext
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:  # they need the extra `oauth`
    from mcp_types import CompleteRequestParams
    from mcp_types import Tool as ForeignTool

    from spindle.mcp.oauth.logins import Logins

MAX_USERS: Final = 256
"""Connections of users that are kept open; the one that was idle longest makes room."""
IDLE_SECONDS: Final = 900.0
_SWEEP_SECONDS: Final = 60.0
DEFAULT_USER: Final = "default"

_RANKS: Final[dict[ServerState, int]] = {"stopped": 0, "idle": 1, "failed": 2, "starting": 3, "ready": 4}

StartTask = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Runs a task beside the servers."""


def find_user(ctx: ToolContext) -> str | None:
    """Return the user of a call; `None` if the caller is known, but not by name."""
    caller = ctx.caller
    if caller is None:
        return DEFAULT_USER
    user: object = caller.get("user")
    return user if isinstance(user, str) and user else None


class RedactedTokens:
    """The tokens of one user at one server; the last two are redacted from all output."""

    def __init__(self, spec: ServerSpec, user: str, logins: "Logins", services: ClientServices) -> None:
        self._spec, self._user, self._logins, self._redactor = spec, user, logins, services.redactor
        self._used: list[str] = []

    async def get(self) -> str:
        """Return a valid token."""
        return self._mask(await self._logins.get_token(self._spec, self._user))

    async def renew(self, rejected: str) -> str:
        """Return another token than a rejected one."""
        return self._mask(await self._logins.renew_token(self._spec, self._user, rejected))

    def forget(self) -> None:
        """Redact them no longer."""
        for token in self._used:
            self._redactor.discard(token)
        self._used.clear()

    def _mask(self, token: str) -> str:
        if token not in self._used:
            self._used.append(token)
            self._redactor.add(token, is_token=True)
            if len(self._used) > 2:
                self._redactor.discard(self._used.pop(0))
        return token


class _UserServer(UpstreamServer):
    """The server as one user sees it: a connection with his tokens, whose listing is merged with those of others."""

    def __init__(self, owner: "UserConnections", user: str, tokens: RedactedTokens) -> None:
        services = replace(owner.services, tokens=tokens)
        super().__init__(
            owner.spec,
            ToolRegistry(),
            services,
            on_tools_changed=lambda _server: None,
            on_features_changed=owner.server.report_features,
            guard=owner.build_guard(),
        )
        self._owner, self._user, self.tokens, self.features.user = owner, user, tokens, user
        self.used_at = owner.services.clock.now()

    @override
    def prepare_listing(self, listed: "Sequence[ForeignTool]") -> PreparedListing:
        """Convert the listings of all users, with this one in place of the user's last one."""
        return self._owner.listings.prepare(self._user, listed)

    @property
    def is_used(self) -> bool:
        """Whether a request runs, or a client is subscribed to a resource."""
        return len(self.connection.calls) > 0 or self.features.watch.is_wanted

    @override
    async def describe(self) -> LockedServer:
        """Return what the server offers to this user."""
        listed = self._owner.listings.get_definitions(self._user)
        self.guard.record(self.guard.check("tool", [to_definition(each) for each in listed]))
        return await super().describe()

    @override
    def is_withheld(self, tool: str) -> bool:
        """Return whether the latest listing of the user does not offer the tool as it is registered."""
        return not self._owner.listings.offers(self._user, tool)

    @override
    def apply_listing(self, prepared: PreparedListing) -> None:
        """Register the changes."""
        self._owner.listings.apply(self._user, prepared)


class AbsentFeatures(UpstreamFeatures):
    """A server with OAuth, for a user without a login: nothing is listed and nothing is sent."""

    def __init__(
        self, connection: UpstreamConnection, services: ClientServices, lock: FeatureLock, problem: UpstreamError
    ) -> None:
        super().__init__(connection, services, _get_no_headers, lambda _features, _kind: None, lock)
        self.problem = self._problem = problem

    @override
    async def refresh(self, kind: ListKind) -> None:
        """List nothing."""

    @override
    def may_read(self, uri: str) -> bool:
        """Return True: reading it fails with the problem."""
        return True

    @override
    async def read(self, uri: str, *, ctx: ToolContext, given: object = None) -> NoReturn:
        """Raise the problem."""
        raise self._problem

    @override
    async def get_prompt(self, name: str, arguments: object, *, ctx: ToolContext, given: object = None) -> NoReturn:
        """Raise the problem."""
        raise self._problem

    @override
    async def complete(self, params: "CompleteRequestParams", *, ctx: ToolContext) -> NoReturn:
        """Raise the problem."""
        raise self._problem


async def _get_no_headers(_ctx: ToolContext) -> dict[str, str]:
    return {}


class UserConnections:
    """The connections of all users to one server."""

    def __init__(self, server: UpstreamServer, services: ClientServices, logins: "Logins") -> None:
        self.spec, self.services, self.logins, self.server = server.spec, services, logins, server
        self._said: set[str] = set()
        self.listings = UserListings(server, services.changed)
        self._users: dict[str, _UserServer] = {}
        self._start: StartTask | None = None
        self._sweeping: anyio.CancelScope | None = None

    def open(self, start: StartTask) -> None:
        """Allow connections, whose tasks are started by `start`."""
        self._start = start
        start(self._sweep)

    def close(self) -> None:
        """Close all connections."""
        self._start = None
        if self._sweeping is not None:
            self._sweeping.cancel()
        for user in list(self._users):
            self._close_user(user)

    async def call(self, wanted: UpstreamCall) -> Ok | Err:
        """Send a call with the token of its user, and with no other."""
        user = find_user(wanted.ctx)
        if user is None:
            return Err("execution_failed", f"MCP server {self.spec.name!r} needs a login, and the caller has no name.")
        try:
            server = self.get(user)
        except UpstreamError as error:
            return Err("not_available", f"{error}.", cause=error)
        if not self.listings.has(user):
            await server.connection.get_active()
        if not self.listings.has(user):
            return Err("not_available", server.connection.describe_absence(), retryable=True)
        if not self.listings.offers(user, wanted.tool):
            return Err("not_available", f"MCP server {self.spec.name!r} does not offer this tool to this user.")
        return await server.call(wanted)

    def get(self, user: str | None) -> UpstreamServer:
        """Return the server with the connection of a user; `None` is the only user of this program.

        Raises:
            LoginRequiredError: The user has to log in.
            UpstreamError: Too many users are connected.
        """
        user = DEFAULT_USER if user is None else user
        if not self.logins.has_login(self.spec, user):
            self._close_user(user)
            self.listings.forget(user)
            raise self.logins.build_error(self.spec, user)
        found = self._users.get(user)
        if found is None or not found.connection.is_open():
            found = self._open_user(user)
        found.used_at = self.services.clock.now()
        return found

    def get_features(self, user: str | None) -> UpstreamFeatures:
        """Return the prompts and resources of a user, which are those of his own connection and of no other."""
        try:
            return self.get(user).features
        except UpstreamError as error:
            problem = error
        except UsageError as error:
            text = f"MCP server {self.spec.name!r} needs a login, and the caller cannot have one: {error}"
            problem = UpstreamError(text, server=self.spec.name)
        return AbsentFeatures(self.server.connection, self.services, self.server.features.lock, problem)

    def build_guard(self) -> DefinitionGuard:
        """Build the guard of a user's prompts and resources."""
        services = self.services
        return DefinitionGuard(
            self.spec.name,
            self.server.guard.policy,
            events=services.events,
            redactor=services.redactor,
            said=self._said,
        )

    def get_withheld(self) -> tuple[WithheldDefinition, ...]:
        """Return the prompts and resources in quarantine of all users."""
        return tuple(each for one in self._users.values() for each in one.guard.get_withheld() if each.kind != "tool")

    async def recheck(self) -> None:
        """Check the listings of all users against the lock of the server."""
        self._said.clear()
        for one in list(self._users.values()):
            one.guard.policy = self.server.guard.policy
            await one.features.lock.recheck()
        await self.listings.recheck()

    async def connect(self, user: str | None) -> None:
        """Connect a user who has logged in, so that his tools are listed; a failure is a warning."""
        try:
            await self.get(user).connection.request_start().done.wait()
        except LoginRequiredError:
            return  # his calls say so
        except UpstreamError as error:
            self.services.events.warn(str(error), source="mcp")

    def warn_without_logins(self) -> None:
        """Emit a warning if no user has logged in, so that the server has no tools."""
        if self.spec.enabled and not self.logins.list_users(self.spec):
            words = f"needs a login: run: spindle login {self.spec.name}"
            self.services.events.warn(f"MCP server {self.spec.name!r} {words}", source="mcp")

    def find_hidden(self, user: str | None) -> frozenset[str]:
        """Return the full names of the tools that other users have, but not this one."""
        return self.listings.find_hidden(DEFAULT_USER if user is None else user)

    def status(self, *, tools: int) -> ServerStatus:
        """Return the status of the server: ready if a user is connected."""
        each = [one.connection.status(tools=tools) for one in self._users.values()]
        state: ServerState = "idle"
        for one in each:
            state = one.state if _RANKS[one.state] > _RANKS[state] else state
        failed = sum(status.error is not None for status in each)
        # Their own errors name users, and clients may read this.
        error = f"{failed} of {len(each)} users cannot be connected" if failed and state != "ready" else None
        versions = [status.protocol_version for status in each if status.protocol_version]
        return ServerStatus(
            name=self.spec.name,
            state=state,
            required=False,
            tools=tools,
            error=error,
            restarts=sum(status.restarts for status in each),
            protocol_version=versions[0] if versions else None,
        )

    # --- the connections themselves

    def _open_user(self, user: str) -> _UserServer:
        if self._start is None:
            raise UpstreamError(f"MCP server {self.spec.name!r} is stopped", server=self.spec.name)
        self._close_user(user)
        if len(self._users) >= MAX_USERS:
            idle = [(one.used_at, name) for name, one in self._users.items() if not one.is_used]
            if not idle:
                raise UpstreamError(f"too many users of MCP server {self.spec.name!r}", server=self.spec.name)
            self._close_user(min(idle)[1])
        tokens = RedactedTokens(self.spec, user, self.logins, self.services)
        made = self._users[user] = _UserServer(self, user, tokens)
        self._start(made.connection.run)
        return made

    def _close_user(self, user: str) -> None:
        one = self._users.pop(user, None)
        if one is not None:
            one.connection.close()
            one.tokens.forget()

    async def _sweep(self) -> None:
        """Close the connections that were idle for long; their tools stay listed. Subscriptions end with the login."""
        with anyio.CancelScope() as self._sweeping:
            while self._start is not None:
                await self.services.clock.sleep(_SWEEP_SECONDS)
                latest = self.services.clock.now() - IDLE_SECONDS
                for user, one in list(self._users.items()):
                    if one.used_at > latest:
                        continue
                    if not one.is_used or not self.logins.has_login(self.spec, user):
                        self._close_user(user)


def add_users(
    servers: Iterable[UpstreamServer], services: ClientServices, logins: "Logins | None"
) -> dict[str, UserConnections]:
    """Give the servers with OAuth connections for each user; return them by the name of the server.

    Raises:
        UsageError: There are such servers, but no logins.
    """
    found: dict[str, UserConnections] = {}
    for server in servers:
        if server.spec.oauth is None or not server.spec.enabled:
            continue
        if logins is None:
            raise UsageError(f"MCP server {server.spec.name!r} uses OAuth: pass McpServers(logins=…)", field="logins")
        server.connection.close()  # it would have no user
        server.by_user = found[server.spec.name] = UserConnections(server, services, logins)
    return found
