"""The context that a handler receives besides its arguments."""

import time
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from spindle.errors import CapabilityError, GateNotSupportedError
from spindle.events import Audience, Events, Logged, ToolProgress
from spindle.stash import Stash
from spindle.text import PayloadRedactor
from spindle.tools import optional
from spindle.tools.context_values import EventRecorder, ToolRunner, check_context_values, copy_redacted
from spindle.tools.identity import parse_caller, serialize_caller

if TYPE_CHECKING:
    from spindle.capabilities import Attachments, Files, Handles, Network, Process, Secrets, Storage
    from spindle.json_types import JsonObject, JsonValue
    from spindle.tools.context_flow import ContextFlow
    from spindle.trust.flow.ledger import FlowLedger

GateOpener: TypeAlias = Callable[[Any], Awaitable[Any]]


@runtime_checkable
class CallGateOpener(Protocol):
    """A gate opener that knows which call waits, because the call may have to be started again."""

    async def open_in_call(self, gate: Any, ctx: "ToolContext") -> Any:
        """Wait for a gate of the call that `ctx` belongs to."""
        ...


_Identity: TypeAlias = tuple[str | None, str | None]
Identify: TypeAlias = Callable[[], tuple[str, str]]
"""Returns a call's checksum and idempotency key."""
Post: TypeAlias = Callable[[Callable[[], None]], object]
"""Runs a function on the event loop's thread."""


class ToolContext:
    """The context of one call: its session and turn, deadline, stash, events and capability handles.

    Raises:
        InvalidContextError: A value has the wrong type; checked here so that it does not fail in the middle of a batch.
    """

    __slots__ = (
        "_caller",
        "_cancelled",
        "_flow",
        "_handles",
        "_identify",
        "_identity",
        "_open_gate",
        "_post",
        "_recorder",
        "_redactor",
        "_runner",
        "_turn",
        "client",
        "deadline",
        "dry_run",
        "events",
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
        handles: "Handles | None" = None,
        client: object = None,
        turn: object = None,
        caller: "Mapping[str, JsonValue] | None" = None,
    ) -> None:
        check_context_values(
            session_id=session_id, turn_id=turn_id, events=events, result_budget_chars=result_budget_chars
        )
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
        self.deadline = deadline
        self.client = client
        """The MCP client that made the call, for `spindle.mcp.client_requests`; `None` outside an MCP server."""
        self._open_gate = open_gate
        self._handles = handles
        self._turn = turn
        self._caller = None if caller is None else serialize_caller(caller)
        self._identity: _Identity | None = (checksum, idempotency_key)
        self._identify: Identify | None = None
        self._post: Post | None = None
        self._redactor: PayloadRedactor | None = None
        self._runner: ToolRunner | None = None
        self._recorder: EventRecorder | None = None
        self._flow: ContextFlow | None = None
        self._cancelled = False

    def for_call(
        self,
        *,
        tool_name: str,
        tool_call_id: str,
        identify: Identify,
        result_budget_chars: int | None,
        deadline: float | None,
        redactor: PayloadRedactor | None = None,
        runner: ToolRunner | None = None,
    ) -> "ToolContext":
        """Build the context of one call; it shares this context's stash, events and turn."""
        own = object.__new__(ToolContext)
        own.session_id, own.turn_id, own.working_dir = self.session_id, self.turn_id, self.working_dir
        own.events, own.stash, own.dry_run, own.turn_count = self.events, self.stash, self.dry_run, self.turn_count
        own.tainted = self.tainted
        own.tool_name, own.tool_call_id, own.deadline = tool_name, tool_call_id, deadline
        own.result_budget_chars, own.client = result_budget_chars, self.client
        own._open_gate, own._handles, own._post = self._open_gate, None, None
        own._identity, own._identify = None, identify
        own._turn, own._caller = self._turn, self._caller
        own._redactor, own._runner, own._recorder = redactor, runner, None
        own._flow, own._cancelled = None if self._flow is None else self._flow.for_call(), False
        return own

    def with_deadline(self, deadline: float) -> "ToolContext":
        """Return a copy that has at most this deadline, and that can be cancelled by itself."""
        own = copy(self)
        own.deadline = deadline if self.deadline is None else min(deadline, self.deadline)
        return own

    def attach(self, runner: ToolRunner | None) -> None:
        """Set what runs the tools that are used in this context; without it the context is bare."""
        self._runner = runner

    def grant(self, handles: "Handles | None") -> None:
        """Set the handles of the capabilities that the call declared, just before it runs."""
        self._handles = handles

    def record_with(self, recorder: EventRecorder) -> None:
        """Set what keeps the events of the call for the journal, whether or not they have observers."""
        self._recorder = recorder

    def set_post(self, post: "Post | None") -> None:
        """Set how to reach observers if the handler runs outside the event loop's thread."""
        self._post = post

    @property
    def flow(self) -> "ContextFlow":
        """The information flow of the session: `add_user_text` outside a turn, `require_approval` for this call."""
        if self._flow is None:
            self._flow = optional.ContextFlow()  # most executors have no policy
        return self._flow

    @property
    def caller(self) -> "JsonObject | None":
        """Who asked for the turn, as passed to `TurnRunner.run`; each access returns a copy."""
        return parse_caller(self._caller)

    @property
    def checksum(self) -> str | None:
        """The checksum of the tool and its arguments; computed on first access."""
        return self._resolve_identity()[0]

    @property
    def idempotency_key(self) -> str | None:
        """The same key for each attempt at this call, to pass on to services that accept one."""
        return self._resolve_identity()[1]

    def set_identity(self, checksum: str, idempotency_key: str) -> None:
        """Set what the journal has already computed."""
        self._identity = checksum, idempotency_key

    def _resolve_identity(self) -> _Identity:
        if self._identity is None:
            self._identity = self._identify() if self._identify else (None, None)
        return self._identity

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
        if self._recorder is not None:
            self._recorder.record("progress", message, percent)
        if not self.events.has_observer("tool_progress"):
            return
        payload = ToolProgress(
            tool_name=self.tool_name,
            turn_id=self.turn_id,
            tool_call_id=self.tool_call_id,
            message=self.redact(message),
            percent=percent,
            audience=audience,
        )
        self._notify("tool_progress", payload)

    def log(self, level: str, message: str, **payload: "JsonValue") -> None:
        """Emit a `log` event with a level from `debug` to `emergency` and a payload such as `path=path`.

        If an MCP client made the call and subscribed to that level, it receives the line too.
        """
        if self._recorder is not None:
            self._recorder.record("log", message, level)
        if not self.events.has_observer("log"):
            return
        line = Logged(
            level=level,
            message=self.redact(message),
            turn_id=self.turn_id or "",
            dispatch_id="",
            iteration=self.turn_count,
            emitted_at=datetime.now(UTC),
            payload=copy_redacted(payload, self.redact) if payload else None,
            tool_name=self.tool_name,
            tool_call_id=self.tool_call_id,
        )
        self._notify("log", line)

    def _notify(self, name: str, payload: object) -> None:
        if self._post is None:
            self.events.notify(name, payload)
        else:
            self._post(lambda: self.events.notify(name, payload))

    def redact(self, text: str) -> str:
        """Return a text with every secret masked that a tool has received so far."""
        return text if self._redactor is None else self._redactor.redact(text)

    def redact_value(self, value: Any) -> Any:
        """Return a JSON value, dataclass or model with every secret masked that a tool has received so far."""
        return value if self._redactor is None else self._redactor.redact_value(value)

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
        self.redact_gate(gate)
        if self._recorder is not None:
            self._recorder.record("gate", getattr(gate, "reason", None))
        opener: object = getattr(self._turn, "gate_opener", None)
        return await (opener.open_in_call(gate, self) if isinstance(opener, CallGateOpener) else self._open_gate(gate))

    def redact_gate(self, gate: Any) -> None:
        """Mask the secrets in the question of a gate: in its reason, its payload and its schema."""
        for part in ("reason", "payload", "schema"):
            if (value := getattr(gate, part, None)) is not None:
                setattr(gate, part, self.redact_value(value))

    @property
    def network(self) -> "Network":
        """The HTTP client of this call, limited to the hosts its tool declared.

        Raises:
            CapabilityError: The tool did not declare `network`, or it is not granted.
        """
        if (handles := self._handles) is not None and "network" in handles:
            return handles["network"]
        raise self._build_missing_error("network")

    @property
    def files(self) -> "Files":
        """The files that its tool declared.

        Raises:
            CapabilityError: The tool did not declare `files`, or it is not granted.
        """
        if (handles := self._handles) is not None and "files" in handles:
            return handles["files"]
        raise self._build_missing_error("files")

    @property
    def process(self) -> "Process":
        """Runs the commands that its tool declared.

        Raises:
            CapabilityError: The tool did not declare `process`, or it is not granted.
        """
        if (handles := self._handles) is not None and "process" in handles:
            return handles["process"]
        raise self._build_missing_error("process")

    @property
    def secrets(self) -> "Secrets":
        """The secrets that its tool declared.

        Raises:
            CapabilityError: The tool did not declare `secrets`, or it is not granted.
        """
        if (handles := self._handles) is not None and "secrets" in handles:
            return handles["secrets"]
        raise self._build_missing_error("secrets")

    @property
    def storage(self) -> "Storage":
        """The key-value store of its tool.

        Raises:
            CapabilityError: The tool did not declare `storage`, or it is not granted.
        """
        if (handles := self._handles) is not None and "storage" in handles:
            return handles["storage"]
        raise self._build_missing_error("storage")

    @property
    def attachments(self) -> "Attachments":
        """The turn's media of the kinds that its tool declared.

        Raises:
            CapabilityError: The tool did not declare `attachments`, or it is not granted.
        """
        if (handles := self._handles) is not None and "attachments" in handles:
            return handles["attachments"]
        raise self._build_missing_error("attachments")

    def _build_missing_error(self, name: str) -> CapabilityError:
        return CapabilityError(
            f"This call has no {name} handle. Declare it with capabilities=Capabilities({name}=…) on the tool, "
            "and grant it with backends=Backends(…) on the executor.",
            tool=self.tool_name,
            field=name,
        )


def get_runner(ctx: ToolContext) -> ToolRunner | None:
    """Return what runs the tools that are used in this context; `None` for a bare one."""
    return ctx._runner  # pyright: ignore[reportPrivateUsage]  not an attribute for handlers


def get_required_reasons(ctx: ToolContext) -> tuple[str, ...]:
    """Return why interceptors and checks require a person's approval of the call."""
    flow = ctx._flow  # pyright: ignore[reportPrivateUsage]  most contexts have none, and need none
    return () if flow is None else tuple(flow.reasons)


def find_ledger(ctx: ToolContext) -> "FlowLedger | None":
    """Return the ledger of the session, or `None` if neither a policy nor a handler has asked for it yet."""
    flow = ctx._flow  # pyright: ignore[reportPrivateUsage]  the property would create one
    return None if flow is None else flow.ledger


def get_handles(ctx: ToolContext) -> "Handles | None":
    """Return the capability handles of a context."""
    return ctx._handles  # pyright: ignore[reportPrivateUsage]  not an attribute for handlers


def get_turn(ctx: ToolContext) -> object:
    """Return the turn context that `ctx` was derived from, or `None`; for reading a turn's calls, not for handlers."""
    return ctx._turn  # pyright: ignore[reportPrivateUsage]  not an attribute for handlers
