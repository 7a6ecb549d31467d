"""The context that a handler receives besides its arguments."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from spindle.capabilities.declare import CAPABILITY_NAMES
from spindle.errors import CapabilityError, GateNotSupportedError, InvalidContextError
from spindle.events import Audience, Events, Logged, ToolProgress
from spindle.stash import Stash

GateOpener: TypeAlias = Callable[[Any], Awaitable[Any]]
Identify: TypeAlias = Callable[[], tuple[str, str]]
"""Returns a call's checksum and idempotency key."""
Post: TypeAlias = Callable[[Callable[[], None]], None]
"""Runs a function on the event loop's thread."""


class ToolContext:
    """The context of one call: its session and turn, deadline, stash, events and capability handles.

    Raises:
        InvalidContextError: A value has the wrong type; checked here so that it does not fail in the middle of a batch.
    """

    __slots__ = (
        "_cancelled",
        "_handles",
        "_identify",
        "_open_gate",
        "_post",
        "_redact",
        "_turn",
        "checksum",
        "client",
        "deadline",
        "dry_run",
        "events",
        "idempotency_key",
        "result_budget_chars",
        "session_id",
        "stash",
        "tainted",
        "tool_call_id",
        "tool_name",
        "turn_count",
        "turn_id",
        "working_dir",
    )

    def __init__(
        self,
        session_id: str = "s1",
        *,
        turn_id: str | None = None,
        working_dir: str | Path | None = None,
        events: Events | None = None,
        stash: Stash | Mapping[str, Any] | None = None,
        dry_run: bool = False,
        result_budget_chars: int | None = None,
        turn_count: int = 0,
        tool_name: str | None = None,
        tool_call_id: str | None = None,
        checksum: str | None = None,
        idempotency_key: str | None = None,
        deadline: float | None = None,
        open_gate: GateOpener | None = None,
        handles: Mapping[str, Any] | None = None,
        client: Any = None,
        turn: object = None,
    ) -> None:
        _check(session_id=session_id, turn_id=turn_id, events=events, result_budget_chars=result_budget_chars)
        self.session_id = session_id
        self.turn_id = turn_id
        self.working_dir = working_dir
        self.events = Events() if events is None else events
        self.stash = stash if isinstance(stash, Stash) else Stash(stash)
        self.dry_run = dry_run
        self.result_budget_chars = result_budget_chars
        self.turn_count = turn_count
        self.tainted = False
        """Whether untrusted content has entered the turn."""
        self.tool_name = tool_name
        self.tool_call_id = tool_call_id
        self.checksum = checksum
        self.idempotency_key = idempotency_key
        self.deadline = deadline
        self.client = client
        """The MCP client that made the call, for `spindle.mcp.client_requests`; `None` outside an MCP server."""
        self._open_gate = open_gate
        self._handles = handles
        self._turn = turn
        self._identify: Identify | None = None
        self._post: Post | None = None
        self._redact: Callable[[str], str] | None = None
        self._cancelled = False

    def for_call(
        self,
        *,
        tool_name: str,
        tool_call_id: str,
        identify: Identify,
        result_budget_chars: int | None,
        deadline: float | None,
        redact: Callable[[str], str] | None = None,
    ) -> "ToolContext":
        """Build the context of one call; it shares this context's stash, events and turn."""
        own = object.__new__(ToolContext)
        own.session_id, own.turn_id, own.working_dir = self.session_id, self.turn_id, self.working_dir
        own.events, own.stash, own.dry_run, own.turn_count = self.events, self.stash, self.dry_run, self.turn_count
        own.tainted = self.tainted
        own.tool_name, own.tool_call_id, own.deadline = tool_name, tool_call_id, deadline
        own.result_budget_chars, own.client = result_budget_chars, self.client
        own._open_gate, own._handles, own._identify, own._post = self._open_gate, None, identify, None
        own._turn = self._turn
        own._redact = redact
        own._cancelled = False
        return own  # `checksum` and `idempotency_key` are computed on first access

    def grant(self, handles: Mapping[str, Any] | None) -> None:
        """Set the handles of the capabilities that the call declared, just before it runs."""
        self._handles = handles

    def set_post(self, post: "Post | None") -> None:
        """Set how to reach observers if the handler runs outside the event loop's thread."""
        self._post = post

    @property
    def cancelled(self) -> bool:
        """Whether this call was cancelled; long sync handlers should poll it."""
        return self._cancelled

    def cancel(self) -> None:
        """Mark the call as cancelled."""
        self._cancelled = True

    @property
    def seconds_left(self) -> float | None:
        """Seconds until this call's deadline, or `None` without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def progress(self, message: str, percent: float | None = None, audience: Audience = "internal") -> None:
        """Emit a `tool_progress` event."""
        if not self.events.heard("tool_progress"):
            return
        payload = ToolProgress(
            tool_name=self.tool_name,
            turn_id=self.turn_id,
            tool_call_id=self.tool_call_id,
            message=self.redact(message),
            percent=percent,
            audience=audience,
        )
        self._tell("tool_progress", payload)

    def log(self, level: str, message: str, **payload: Any) -> None:
        """Emit a `log` event with a level from `debug` to `emergency` and a payload such as `path=path`.

        If an MCP client made the call and subscribed to that level, it receives the line too.
        """
        if not self.events.heard("log"):
            return
        line = Logged(
            level=level,
            message=self.redact(message),
            turn_id=self.turn_id or "",
            dispatch_id="",
            iteration=self.turn_count,
            emitted_at=datetime.now(UTC),
            payload=self._plain(payload) if payload else None,
            tool_name=self.tool_name,
            tool_call_id=self.tool_call_id,
        )
        self._tell("log", line)

    def _tell(self, name: str, payload: object) -> None:
        if self._post is None:
            self.events.notify(name, payload)
        else:
            self._post(lambda: self.events.notify(name, payload))

    def _plain(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the payload as plain JSON with every secret masked."""
        try:
            return json.loads(self.redact(json.dumps(payload, default=str)), parse_constant=str)
        except Exception:  # noqa: BLE001  logging must not fail the call, and nothing unmasked may be emitted
            return {"payload": "(cannot be shown)"}

    def redact(self, text: str) -> str:
        """Return a text with every secret masked that a tool has received so far."""
        return text if self._redact is None else self._redact(text)

    async def wait_for(self, gate: Any) -> Any:
        """Wait until a person or an event resolves `gate`, and return the value it was resolved with.

        Raises:
            GateNotSupportedError: This context has no gates.
        """
        if self._open_gate is None:
            raise GateNotSupportedError(
                "This context does not support gates. Run the tool inside a turn (TurnRunner).",
                tool=self.tool_name,
            )
        return await self._open_gate(gate)

    def __getattr__(self, name: str) -> Any:
        # Only called for slots that are still empty and for the capability handles.
        if name in {"checksum", "idempotency_key"}:
            identify = self._identify
            self.checksum, self.idempotency_key = identify() if identify else (None, None)
            return object.__getattribute__(self, name)
        if name not in CAPABILITY_NAMES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        handles = self._handles
        if handles is None or name not in handles:
            raise CapabilityError(
                f"This call has no {name} handle. Declare it with capabilities=Capabilities({name}=…) on the tool, "
                "and grant it with backends=Backends(…) on the executor.",
                tool=self.tool_name,
                field=name,
            )
        return handles[name]


def get_turn(ctx: ToolContext) -> object:
    """Return the turn context that `ctx` was derived from, or `None`; for reading a turn's calls, not for handlers."""
    return ctx._turn  # pyright: ignore[reportPrivateUsage]


def _check(*, session_id: object, turn_id: object, events: object, result_budget_chars: object) -> None:
    if not isinstance(session_id, str):
        raise _unfit("session_id", "text", session_id)
    if turn_id is not None and not isinstance(turn_id, str):
        raise _unfit("turn_id", "text or None", turn_id)
    if events is not None and not isinstance(events, Events):
        raise _unfit("events", "Events() or None", events)
    if result_budget_chars is not None and (type(result_budget_chars) is not int or result_budget_chars < 0):
        raise _unfit("result_budget_chars", "a whole number of characters, or None", result_budget_chars)


def _unfit(field: str, expected: str, given: object) -> InvalidContextError:
    return InvalidContextError(f"ToolContext({field}=…): expected {expected}, got {given!r:.80}.", field=field)


@runtime_checkable
class HasToolContext(Protocol):
    """A context from which a handler's `ToolContext` can be derived."""

    def tool_context(self) -> ToolContext:
        """Return a context that shares the stash, the events and the turn id."""
        ...


def to_tool_context(ctx: object) -> ToolContext:
    """Return `ctx` if it is a `ToolContext`, else the one derived from it.

    Raises:
        InvalidContextError: `ctx` is not a context.
    """
    if isinstance(ctx, ToolContext):
        return ctx
    if isinstance(ctx, HasToolContext):
        return ctx.tool_context()
    raise InvalidContextError(
        f"Expected a ToolContext or a DispatchContext, got {type(ctx).__name__}. ToolContext(session_id=…) is enough.",
        field="ctx",
    )
