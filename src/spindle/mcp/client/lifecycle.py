"""The parts of an upstream connection: backoff, clock, state, and the services its client shares."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import random
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast

import anyio
from anyio.abc import TaskGroup

from spindle.capabilities.secrets.secret import Redactor, Secret
from spindle.errors import SpindleError
from spindle.events import Events
from spindle.mcp.client.task_ledger import TaskLedger
from spindle.mcp.lock.quarantine import LockPolicy, WithheldDefinition
from spindle.text import to_printable
from spindle.tools.context import ToolContext

if TYPE_CHECKING:
    from spindle.mcp.client.confinement import ServerReach
    from spindle.mcp.client.session import UpstreamSession


FIRST_WAIT_SECONDS = 1.0
MAX_WAIT_SECONDS = 30.0
FAILED_AFTER = 5
"""A server is reported as failed, and still retried, after this many failures in a row."""
_MAX_DOUBLINGS = 10


@dataclass
class Backoff:
    """Exponential backoff without an end: 1 s, 2 s, 4 s … at most 30 s, each reduced at random by up to a half."""

    failures: int = 0
    """Consecutive failures."""
    jitter: Callable[[], float] = random
    """Returns a number from 0 to 1; it keeps clients from retrying a shared server at the same moments."""

    def record_failure(self) -> float:
        """Record a failure and return the seconds to wait before the next attempt."""
        longest = min(FIRST_WAIT_SECONDS * 2 ** min(self.failures, _MAX_DOUBLINGS), MAX_WAIT_SECONDS)
        self.failures += 1
        return longest * (1 + self.jitter()) / 2

    def reset(self) -> None:
        """Clear the failures: the server works again, or was requested explicitly."""
        self.failures = 0


class Clock(Protocol):
    """The clock for retries and health checks."""

    def now(self) -> float:
        """Return the seconds since an arbitrary moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


class LoopClock:
    """The event loop's clock."""

    def now(self) -> float:
        """Return the event loop's time."""
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await anyio.sleep(seconds)


@dataclass(eq=False)
class ActiveConnection:
    """An established connection."""

    session: "UpstreamSession"
    group: TaskGroup
    """The owning task's group, in which requests to the server run."""
    connected_at: float
    over: anyio.Event = field(default_factory=anyio.Event)
    health_check_due: anyio.Event = field(default_factory=anyio.Event)
    reason: str = "it was closed"
    has_served: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether no more requests can be sent."""
        return self.over.is_set() or self.session.link.broken.is_set()


@dataclass(eq=False)
class Attempt:
    """One attempt to connect, for the tasks that wait for it."""

    done: anyio.Event = field(default_factory=anyio.Event)
    connection: ActiveConnection | None = None
    reason: str = ""

    def finish(self, connection: ActiveConnection | None = None, reason: str = "") -> None:
        """Set the outcome; only the first call has an effect."""
        if not self.done.is_set():
            self.connection, self.reason = connection, reason
            self.done.set()


HeaderMapping: TypeAlias = Mapping[str, str] | Mapping[str, Secret] | Mapping[str, str | Secret]
CallHeaders: TypeAlias = Callable[[str, ToolContext], Awaitable[HeaderMapping] | HeaderMapping]
"""Returns the headers of one call, given the name of its server and its context."""


@dataclass(frozen=True, kw_only=True)
class ClientServices:
    """Services shared by the servers of one client."""

    events: Events
    clock: Clock
    redactor: Redactor
    """Holds every secret that was sent to a server."""
    resolve: Callable[[str, str], Awaitable[str]]
    """Returns a secret, given the name of the server and of the secret."""
    headers: CallHeaders | None
    """Returns the extra headers of a call over HTTP."""
    changed: Callable[[], None]
    """Called when tools or the state of a server changed."""
    lock: LockPolicy = field(default_factory=LockPolicy)
    """What the servers may offer."""
    client_name: str = "spindle"
    """The name under which this client introduces itself."""
    tasks: TaskLedger = field(default_factory=TaskLedger)
    """The tasks that servers run for calls."""


ServerState: TypeAlias = Literal["idle", "starting", "ready", "failed", "stopped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """The status of one upstream server."""

    name: str
    state: ServerState
    required: bool
    tools: int
    """Number of registered tools."""
    error: str | None = None
    """Why it last failed; cleared when it is ready again."""
    restarts: int = 0
    """How often it was restarted after it had been ready."""
    protocol_version: str | None = None
    reach: "ServerReach | None" = None
    """What a server over stdio can reach; `None` until it was started."""
    locked: bool | None = None
    """Whether the server is in the lock file; `None` without one."""
    quarantined: int = 0
    """Number of definitions that are withheld, because they changed or are new since the server was locked."""
    withheld: tuple[WithheldDefinition, ...] = ()
    """The first of them."""


_MAX_WORDS = 500


def describe_failure(error: BaseException) -> str:
    """Return the message of an error; for an exception group, that of the first."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, TimeoutError) and not str(error):
        return "it took too long"
    if isinstance(error, (SpindleError, FileNotFoundError, NotADirectoryError, ValueError)):
        return to_printable(str(error), _MAX_WORDS)
    message = getattr(error, "message", None)  # the SDK's errors hold the server's message there
    words = to_printable(message if isinstance(message, str) else str(error), _MAX_WORDS)
    return words or type(error).__name__
