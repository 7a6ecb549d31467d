"""The calls in progress on a server, and the questions that the server asks while they run."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import anyio

from spindle.errors import GateAbortedError, GateNotSupportedError, GateTimeoutError, InvalidGateError
from spindle.events import Events
from spindle.json_types import JsonObject
from spindle.text import to_printable
from spindle.tools.context import ToolContext
from spindle.turns.gates import Gate

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams

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
        payload: JsonObject = {"server": self.server, "tool": self.tool, "mode": params.mode}
        schema: JsonObject | None = None
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
