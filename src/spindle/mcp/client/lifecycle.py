"""What a server's owning task and those who wait for it share: a connection, a try to make one, the house."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from spindle.errors import GateAbortedError, GateNotSupportedError, GateTimeoutError, InvalidGateError, SpindleError
from spindle.events import Events, Logged
from spindle.extras import needs_extra
from spindle.mcp.client.stdio import Scratch, environment
from spindle.mcp.spec import ServerSpec
from spindle.tools.context import ToolContext
from spindle.tools.schema.problems import printable
from spindle.turns.gates import Gate

if TYPE_CHECKING:
    from spindle.mcp.client.session import UpstreamSession

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams

    from spindle.mcp.client.link import Link
    from spindle.mcp.client.session import UpstreamSession


FIRST_WAIT_SECONDS = 1.0
MAX_WAIT_SECONDS = 30.0
ATTEMPTS = 5


@dataclass
class Backoff:
    """Counts failures in a row: waits 1 s, 2 s, 4 s … 30 s at most, and after five new attempts there is none."""

    failures: int = 0

    def failed(self) -> float | None:
        """Take note of a failure; gives the seconds to wait, or `None` when it is time to give up."""
        self.failures += 1
        if self.failures > ATTEMPTS:
            return None
        return min(FIRST_WAIT_SECONDS * 2 ** (self.failures - 1), MAX_WAIT_SECONDS)

    def reset(self) -> None:
        """Begin anew: it works again, or somebody asked for it."""
        self.failures = 0


class Clock(Protocol):
    """What passes the time between attempts and between health checks."""

    def now(self) -> float:
        """Give the seconds since some moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...


class LoopClock:
    """The event loop's own clock."""

    def now(self) -> float:
        """Give the loop's time."""
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await anyio.sleep(seconds)


@dataclass(eq=False)
class ActiveConnection:
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
    live: ActiveConnection | None = None
    reason: str = ""

    def settle(self, live: ActiveConnection | None = None, reason: str = "") -> None:
        """Tell how it went; the first word stands."""
        if not self.settled.is_set():
            self.live, self.reason = live, reason
            self.settled.set()


@dataclass(frozen=True, kw_only=True)
class ClientServices:
    """What the servers of one client share."""

    events: Events
    clock: Clock
    resolve: Callable[[str], Awaitable[str]]
    redact: Callable[[str], str]
    changed: Callable[[], None]
    headers: Callable[[ToolContext], Awaitable[dict[str, str]]]
    """What a call over HTTP brings along."""


ServerState: TypeAlias = Literal["idle", "starting", "ready", "failed", "stopped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """One upstream server, now."""

    name: str
    state: ServerState
    required: bool
    tools: int
    """How many of its tools are registered."""
    error: str | None = None
    """Why it last failed; gone when it is ready again."""
    restarts: int = 0
    """How often it was started again after it had been ready."""
    protocol_version: str | None = None


_MAX_WORDS = 500


def describe_failure(error: BaseException) -> str:
    """Say what went wrong; of several things that went wrong together, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, TimeoutError) and not str(error):
        return "it took too long"
    if isinstance(error, (SpindleError, FileNotFoundError, NotADirectoryError, ValueError)):
        return printable(str(error), _MAX_WORDS)
    message = getattr(error, "message", None)  # what the SDK raises carries the server's own words there
    words = printable(message if isinstance(message, str) else str(error), _MAX_WORDS)
    return words or type(error).__name__


_MAX_REASON = 2_000
_current: ContextVar["RunningCall | None"] = ContextVar("spindle_mcp_call", default=None)

Action: TypeAlias = Literal["accept", "decline", "cancel"]
Content: TypeAlias = dict[str, str | int | float | bool | list[str] | None]


@dataclass(eq=False)
class RunningCall:
    """A call that waits for its server."""

    server: str
    tool: str
    ctx: ToolContext
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """What its requests carry, over HTTP."""
    _questions: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])

    async def ask(self, params: "ElicitRequestParams", events: Events) -> tuple[Action, Content | None]:
        """Put a question to whoever can settle the call's gates; it ends with the call."""
        answer: tuple[Action, Content | None] = ("cancel", None)
        with anyio.CancelScope() as scope:
            self._questions.add(scope)
            try:
                answer = await self._asked(params, events)
            finally:
                self._questions.discard(scope)
        return answer

    async def _asked(self, params: "ElicitRequestParams", events: Events) -> tuple[Action, Content | None]:
        try:
            value = await self.ctx.wait_for(self._gate(params))
        except InvalidGateError as error:
            events.warn(f"MCP server {self.server!r} asked with an unusable schema: {error}", source="mcp")
            return "decline", None
        except GateNotSupportedError:
            return "decline", None
        except (GateAbortedError, GateTimeoutError):
            return "cancel", None
        except Exception:  # noqa: BLE001  a gate is rejected with any exception, and that is a no
            return "decline", None
        if params.mode == "url":
            return ("accept" if value is None or value else "decline"), None
        if isinstance(value, dict):
            return "accept", cast("Content", value)
        return "decline", None

    def _gate(self, params: "ElicitRequestParams") -> Gate:
        payload: dict[str, Any] = {"server": self.server, "tool": self.tool, "mode": params.mode}
        schema: dict[str, Any] | None = None
        if params.mode == "url":
            payload["url"] = params.url
        else:
            payload["schema"] = schema = dict(params.requested_schema)
        question = printable(params.message, _MAX_REASON) or "input is needed"
        reason = f"The MCP server {self.server!r} asks: {question}"
        left = self.ctx.seconds_left
        return Gate(reason, payload, schema=schema, timeout_seconds=None if left is None else max(left, 0.001))

    def end(self) -> None:
        """Take back the questions that are still open."""
        for scope in list(self._questions):
            scope.cancel()


def headers_now() -> dict[str, str]:
    """Give the headers of the call that this code works for; none beside calls."""
    current = _current.get()
    return {} if current is None else current.headers


class RunningCalls:
    """The calls of one server that wait now, so that a question without an address finds its call."""

    def __init__(self) -> None:
        self._running: dict[RunningCall, None] = {}

    def __len__(self) -> int:
        return len(self._running)

    @contextmanager
    def running(self, call: RunningCall) -> Generator[None]:
        """Count a call in while it runs."""
        self._running[call] = None
        token = _current.set(call)
        try:
            yield
        finally:
            _current.reset(token)
            self.leave(call)

    def leave(self, call: RunningCall) -> None:
        """Count a call out: it has its answer, or nobody waits for one any more."""
        self._running.pop(call, None)
        call.end()

    def addressee(self) -> RunningCall | None:
        """Find the call a question belongs to; `None` when it could be another session's.

        Over HTTP the question arrives in the context of its call. Over stdio it names none: it is put only where every
        call that runs has the same people behind it.
        """
        current = _current.get()
        if current is not None and current in self._running:
            return current
        homes = {(call.ctx.session_id, call.ctx.turn_id) for call in self._running}
        return next(iter(self._running)) if len(homes) == 1 else None


_MAX_LOG_TEXT = 4_000


class Opener:
    """Opens connections to one server."""

    def __init__(
        self,
        spec: ServerSpec,
        house: ClientServices,
        calls: RunningCalls,
        *,
        tools_changed: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._spec = spec
        self._house = house
        self._calls = calls
        self._tools_changed = tools_changed
        self._warn = warn
        self._scratch = Scratch()
        self._has_strayed = False

    async def load(self) -> None:
        """Load what speaks the protocol; it takes half a second, so it is done in a thread, and once.

        Raises:
            MissingExtraError: It is not installed.
        """
        await anyio.to_thread.run_sync(load_sdk)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["UpstreamSession", None]:
        """Connect; gives a session that has not agreed on a revision yet."""
        from spindle.mcp.client.session import Hooks, opened  # noqa: PLC0415  an extra, loaded above

        self._has_strayed = False
        hooks = Hooks(
            tools_changed=self._tools_changed,
            logged=self._logged,
            strayed=self._strayed,
            left_out=lambda problem: self._warn(f"is listed in part: {problem}"),
            asked=self._asked,
        )
        async with opened(await self._link(), hooks, seconds=self._spec.start_timeout_seconds) as session:
            yield session

    async def close(self) -> None:
        """Remove what the server had of its own."""
        await anyio.to_thread.run_sync(self._scratch.remove)

    async def _link(self) -> "Link":
        from spindle.mcp.client.http import HttpLink  # noqa: PLC0415  an extra
        from spindle.mcp.client.stdio import StdioLink  # noqa: PLC0415

        if self._spec.command is None:
            return HttpLink(self._spec, self._house.resolve)
        secrets = {name: await self._house.resolve(secret) for name, secret in self._spec.env_secrets.items()}
        scratch = await anyio.to_thread.run_sync(self._scratch.variables)
        return StdioLink(self._spec, environment(self._spec, os.environ, scratch, secrets))

    def _logged(self, level: str, logger: str | None, data: Any) -> None:
        text = data if isinstance(data, str) else repr(data)
        line = Logged(
            level=level,
            message=self._house.redact(printable(text, _MAX_LOG_TEXT)),
            turn_id="",
            dispatch_id="",
            iteration=0,
            emitted_at=datetime.now(UTC),
            payload={"server": self._spec.name, "logger": logger},
        )
        self._house.events.notify("log", line)

    def _strayed(self, error: Exception) -> None:
        if not self._has_strayed:  # one that chatters on stdout would have it said with every line
            self._has_strayed = True
            self._warn(f"sent something that is no message; it and its like are passed over: {describe_failure(error)}")

    async def _asked(self, params: "ElicitRequestParams") -> tuple[Action, Content | None]:
        call = self._calls.addressee()
        if call is None:
            return "decline", None
        return await call.ask(params, self._house.events)


def load_sdk() -> None:
    """Import the SDK, or say how to get it."""
    with needs_extra("mcp", purpose="the MCP client"):
        for name in ("session", "http", "stdio"):
            import_module(f"spindle.mcp.client.{name}")
