"""What a server's owning task and those who wait for it share: a connection, a try to make one, the house."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from spindle.events import Events
from spindle.mcp.client_backoff import Clock
from spindle.tools.context import ToolContext

if TYPE_CHECKING:
    from spindle.mcp.upstream_session import UpstreamSession


@dataclass(eq=False)
class Live:
    """A connection that holds."""

    session: "UpstreamSession"
    group: TaskGroup
    """The owning task's: what waits for the server runs in it."""
    since: float
    over: anyio.Event = field(default_factory=anyio.Event)
    suspect: anyio.Event = field(default_factory=anyio.Event)
    reason: str = "it was closed"
    has_served: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether nothing more can be asked."""
        return self.over.is_set() or self.session.link.broken.is_set()


@dataclass(eq=False)
class Attempt:
    """One try to connect, for those who wait for it."""

    settled: anyio.Event = field(default_factory=anyio.Event)
    live: Live | None = None
    reason: str = ""

    def settle(self, live: Live | None = None, reason: str = "") -> None:
        """Tell how it went; the first word stands."""
        if not self.settled.is_set():
            self.live, self.reason = live, reason
            self.settled.set()


@dataclass(frozen=True, kw_only=True)
class House:
    """What the servers of one client share."""

    events: Events
    clock: Clock
    resolve: Callable[[str], Awaitable[str]]
    redact: Callable[[str], str]
    changed: Callable[[], None]
    headers: Callable[[ToolContext], Awaitable[dict[str, str]]]
    """What a call over HTTP brings along."""
