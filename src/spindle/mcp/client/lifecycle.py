"""The parts of an upstream connection: backoff, clock, connection state, running calls with their elicitations, and the
opener of sessions."""

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
from spindle.mcp.client.stdio import ScratchDirectory, build_environment
from spindle.mcp.spec import ServerSpec
from spindle.tools.context import ToolContext
from spindle.tools.schema.problems import to_printable
from spindle.turns.gates import Gate

if TYPE_CHECKING:
    from spindle.mcp.client.session import UpstreamSession

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams

    from spindle.mcp.client.link import TransportLink
    from spindle.mcp.client.session import UpstreamSession


FIRST_WAIT_SECONDS = 1.0
MAX_WAIT_SECONDS = 30.0
ATTEMPTS = 5


@dataclass
class Backoff:
    """Exponential backoff over consecutive failures: 1 s, 2 s, 4 s … at most 30 s, and at most five retries."""

    failures: int = 0

    def record_failure(self) -> float | None:
        """Record a failure and return the seconds to wait, or `None` after the last retry."""
        self.failures += 1
        if self.failures > ATTEMPTS:
            return None
        return min(FIRST_WAIT_SECONDS * 2 ** (self.failures - 1), MAX_WAIT_SECONDS)

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


@dataclass(frozen=True, kw_only=True)
class ClientServices:
    """Services shared by the servers of one client."""

    events: Events
    clock: Clock
    resolve: Callable[[str], Awaitable[str]]
    redact: Callable[[str], str]
    changed: Callable[[], None]
    headers: Callable[[ToolContext], Awaitable[dict[str, str]]]
    """Returns the extra headers of a call over HTTP."""


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


_MAX_REASON = 2_000
_current: ContextVar["RunningCall | None"] = ContextVar("spindle_mcp_call", default=None)

Action: TypeAlias = Literal["accept", "decline", "cancel"]
Content: TypeAlias = dict[str, str | int | float | bool | list[str] | None]


@dataclass(eq=False)
class RunningCall:
    """A call that is waiting for its server."""

    server: str
    tool: str
    ctx: ToolContext
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """Extra headers of its HTTP requests."""
    _questions: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])

    async def ask(self, params: "ElicitRequestParams", events: Events) -> tuple[Action, Content | None]:
        """Ask an elicitation through a gate of the call; it is cancelled when the call ends."""
        answer: tuple[Action, Content | None] = ("cancel", None)
        with anyio.CancelScope() as scope:
            self._questions.add(scope)
            try:
                answer = await self._ask_gate(params, events)
            finally:
                self._questions.discard(scope)
        return answer

    async def _ask_gate(self, params: "ElicitRequestParams", events: Events) -> tuple[Action, Content | None]:
        try:
            value = await self.ctx.wait_for(self._gate(params))
        except InvalidGateError as error:
            events.warn(f"MCP server {self.server!r} asked with an unusable schema: {error}", source="mcp")
            return "decline", None
        except GateNotSupportedError:
            return "decline", None
        except (GateAbortedError, GateTimeoutError):
            return "cancel", None
        except Exception:  # noqa: BLE001  a gate may be rejected with any exception; each means decline
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
        question = to_printable(params.message, _MAX_REASON) or "input is needed"
        reason = f"The MCP server {self.server!r} asks: {question}"
        left = self.ctx.seconds_left
        return Gate(reason, payload, schema=schema, timeout_seconds=None if left is None else max(left, 0.001))

    def cancel_questions(self) -> None:
        """Cancel the questions that are still open."""
        for scope in list(self._questions):
            scope.cancel()


def get_current_headers() -> dict[str, str]:
    """Return the extra headers of the current call; empty outside of calls."""
    current = _current.get()
    return {} if current is None else current.headers


class RunningCalls:
    """The calls in progress on one server, used to find the call that an elicitation belongs to."""

    def __init__(self) -> None:
        self._running: dict[RunningCall, None] = {}

    def __len__(self) -> int:
        return len(self._running)

    @contextmanager
    def track(self, call: RunningCall) -> Generator[None]:
        """Register a call while it runs."""
        self._running[call] = None
        token = _current.set(call)
        try:
            yield
        finally:
            _current.reset(token)
            self.remove(call)

    def remove(self, call: RunningCall) -> None:
        """Remove a call that is answered or abandoned."""
        self._running.pop(call, None)
        call.cancel_questions()

    def find_for_question(self) -> RunningCall | None:
        """Return the call that a question belongs to, or `None` when it could belong to another session.

        Over HTTP the question arrives in the context of its call. Over stdio it names no call: it is asked only when
        all running calls belong to the same session and turn.
        """
        current = _current.get()
        if current is not None and current in self._running:
            return current
        homes = {(call.ctx.session_id, call.ctx.turn_id) for call in self._running}
        return next(iter(self._running)) if len(homes) == 1 else None


_MAX_LOG_TEXT = 4_000


class SessionFactory:
    """Opens connections to one server."""

    def __init__(
        self,
        spec: ServerSpec,
        services: ClientServices,
        calls: RunningCalls,
        *,
        tools_changed: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._spec = spec
        self._services = services
        self._calls = calls
        self._tools_changed = tools_changed
        self._warn = warn
        self._scratch = ScratchDirectory()
        self._has_warned = False

    async def load(self) -> None:
        """Import the MCP SDK in a thread; the first import takes half a second.

        Raises:
            MissingExtraError: The SDK is not installed.
        """
        await anyio.to_thread.run_sync(load_sdk)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["UpstreamSession", None]:
        """Connect and yield a session that has not negotiated a protocol version yet."""
        from spindle.mcp.client.session import SessionCallbacks, open_session  # noqa: PLC0415  an extra, loaded above

        self._has_warned = False
        hooks = SessionCallbacks(
            on_tools_changed=self._tools_changed,
            on_log=self._logged,
            on_invalid_message=self._warn_invalid_message,
            on_invalid_tool=lambda problem: self._warn(f"is only partly listed: {problem}"),
            on_elicitation=self._answer_elicitation,
        )
        async with open_session(await self._link(), hooks, seconds=self._spec.start_timeout_seconds) as session:
            yield session

    async def close(self) -> None:
        """Remove the server's temporary directory."""
        await anyio.to_thread.run_sync(self._scratch.remove)

    async def _link(self) -> "TransportLink":
        from spindle.mcp.client.http import HttpLink  # noqa: PLC0415  an extra
        from spindle.mcp.client.stdio import StdioLink  # noqa: PLC0415

        if self._spec.command is None:
            return HttpLink(self._spec, self._services.resolve)
        secrets = {name: await self._services.resolve(secret) for name, secret in self._spec.env_secrets.items()}
        scratch = await anyio.to_thread.run_sync(self._scratch.create)
        return StdioLink(self._spec, build_environment(self._spec, os.environ, scratch, secrets))

    def _logged(self, level: str, logger: str | None, data: Any) -> None:
        text = data if isinstance(data, str) else repr(data)
        line = Logged(
            level=level,
            message=self._services.redact(to_printable(text, _MAX_LOG_TEXT)),
            turn_id="",
            dispatch_id="",
            iteration=0,
            emitted_at=datetime.now(UTC),
            payload={"server": self._spec.name, "logger": logger},
        )
        self._services.events.notify("log", line)

    def _warn_invalid_message(self, error: Exception) -> None:
        if not self._has_warned:  # a server that prints to stdout would cause a warning for every line
            self._has_warned = True
            self._warn(
                f"sent something that is not a protocol message; such input is ignored: {describe_failure(error)}"
            )

    async def _answer_elicitation(self, params: "ElicitRequestParams") -> tuple[Action, Content | None]:
        call = self._calls.find_for_question()
        if call is None:
            return "decline", None
        return await call.ask(params, self._services.events)


def load_sdk() -> None:
    """Import the SDK.

    Raises:
        MissingExtraError: It is not installed; the message says how to install it.
    """
    with needs_extra("mcp", purpose="the MCP client"):
        for name in ("session", "http", "stdio"):
            import_module(f"spindle.mcp.client.{name}")
