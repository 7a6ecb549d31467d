"""Questions that a server asks a person: put as a gate of the call they belong to, declined where nobody can answer."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import anyio

from spindle.errors import GateAbortedError, GateNotSupportedError, GateTimeoutError, InvalidGateError
from spindle.events import Events
from spindle.tools.context import ToolContext
from spindle.tools.problems import printable
from spindle.turns.gate import Gate

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams

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
