"""Helpers of an executor callback: reports deltas of messages and calls, log lines and usage to observers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast

from spindle.errors import InvalidToolArgsError, UsageError
from spindle.events import Events, Logged, TextDelta, ToolCallDelta
from spindle.tools.arguments import MASK, copy_masked, read_arguments
from spindle.tools.identity import checksum


@dataclass(slots=True)
class _PartialReport:
    full: str = ""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    is_complete: bool = False
    facts: dict[str, Any] = field(default_factory=dict[str, Any])


class Usage:
    """Usage totals of a turn, such as tokens and cost."""

    def __init__(self, total: dict[str, Any]) -> None:
        self.total = total

    def add(self, usage: Any) -> None:
        """Add usage figures: numbers are summed, other values are overwritten."""
        if usage is None:
            return
        for name, value in _to_mapping(usage).items():
            before = self.total.get(name)
            both_numbers = _is_number(before) and _is_number(value)
            self.total[name] = before + value if both_numbers else value


def _to_mapping(usage: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", usage) if isinstance(usage, Mapping) else cast("dict[str, Any]", vars(usage))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Log:
    """Writes lines to the `log` event."""

    def __init__(self, helpers: "CallbackHelpers") -> None:
        self._helpers = helpers

    def trace(self, message: str, **payload: Any) -> None:
        """Write a line at trace level."""
        self._helpers.write("trace", message, payload)

    def debug(self, message: str, **payload: Any) -> None:
        """Write a line at debug level."""
        self._helpers.write("debug", message, payload)

    def info(self, message: str, **payload: Any) -> None:
        """Write a line at info level."""
        self._helpers.write("info", message, payload)

    def warn(self, message: str, **payload: Any) -> None:
        """Write a line at warn level."""
        self._helpers.write("warn", message, payload)

    def error(self, message: str, **payload: Any) -> None:
        """Write a line at error level."""
        self._helpers.write("error", message, payload)


class CallbackHelpers:
    """The second argument of an executor callback; emits events to observers and stores no records."""

    def __init__(self, ctx: Any, events: Events, usage: Usage) -> None:
        self._ctx = ctx
        self._events = events
        self._usage = usage
        self._reports: dict[tuple[str, str], _PartialReport] = {}

    @property
    def log(self) -> Log:
        """Writes lines to the `log` event."""
        # Not cached: that would be a reference cycle.
        return Log(self)

    def report_message(self, id: str, delta: str, is_complete: bool = False) -> None:  # noqa: FBT001, FBT002  the public shape
        """Emit a delta of the answer."""
        self._report_text("message", id, delta, is_complete=is_complete)

    def report_thought(self, id: str, delta: str, is_complete: bool = False) -> None:  # noqa: FBT001, FBT002
        """Emit a delta of the model's reasoning."""
        self._report_text("thought", id, delta, is_complete=is_complete)

    def report_tool_call(self, id: str, **partial: Any) -> None:
        """Emit an update of a call: `tool`, `args`, `is_complete`, `is_error`, `results`; merged with earlier updates.

        Secret fields of the tool are masked in the event.
        """
        growing = self._get_report("tool_call", id)
        growing.facts |= partial
        growing.is_complete = bool(growing.facts.get("is_complete"))
        if not self._events.heard("tool_call"):
            return
        facts, now = growing.facts, datetime.now(UTC)
        known = bool(facts.get("tool")) and "args" in facts
        self._events.notify(
            "tool_call",
            ToolCallDelta(
                id=id,
                turn_id=self._ctx.turn_id,
                tool=facts.get("tool", ""),
                args=self._mask_args(facts.get("tool", ""), facts.get("args")),
                checksum=_checksum(facts["tool"], facts["args"]) if known else "",
                is_complete=growing.is_complete,
                is_error=bool(facts.get("is_error")),
                results=facts.get("results"),
                created_at=growing.created_at,
                updated_at=now,
                completed_at=now if growing.is_complete else None,
            ),
        )

    def report_usage(self, usage: Any) -> None:
        """Add figures to the turn's usage."""
        self._usage.add(usage)

    def write(self, level: Literal["trace", "debug", "info", "warn", "error"], message: str, payload: Any) -> None:
        """Emit a `log` event."""
        ctx = self._ctx
        self._events.notify(
            "log",
            Logged(
                level=level,
                message=message,
                turn_id=ctx.turn_id,
                dispatch_id=ctx.dispatch_id,
                iteration=ctx.iteration,
                emitted_at=datetime.now(UTC),
                payload=payload or None,
            ),
        )

    def _report_text(self, kind: Literal["message", "thought"], id: str, delta: str, *, is_complete: bool) -> None:
        growing = self._get_report(kind, id)
        growing.full += delta
        growing.is_complete = is_complete
        now = datetime.now(UTC)
        self._events.notify(
            kind,
            TextDelta(
                id=id,
                turn_id=self._ctx.turn_id,
                delta=delta,
                full=growing.full,
                is_complete=is_complete,
                created_at=growing.created_at,
                updated_at=now,
                completed_at=now if is_complete else None,
            ),
        )

    def _mask_args(self, tool: str, args: Any) -> Any:
        found = self._ctx.tools.get(tool)
        secret = () if found is None else found.secret_fields
        if not secret:
            return copy_masked(args, ())
        try:
            return copy_masked(read_arguments(args, tool=tool, empty_ok=True), secret)
        except InvalidToolArgsError:
            return MASK  # an incomplete call may contain part of a secret

    def _get_report(self, kind: str, id: str) -> _PartialReport:
        growing = self._reports.setdefault((kind, id), _PartialReport())
        if growing.is_complete:
            # Providers restart their ids in each response, so a complete id in a later iteration is a new item.
            if self._ctx.iteration == growing.facts.get("iteration", self._ctx.iteration):
                raise UsageError(f"The {kind} {id!r} is already complete; use another id for a new one.", field="id")
            growing = self._reports[kind, id] = _PartialReport()
        growing.facts.setdefault("iteration", self._ctx.iteration)
        return growing


def _checksum(tool: str, args: Any) -> str:
    try:
        return checksum(tool, args)
    except Exception:  # noqa: BLE001  an incomplete call may contain anything
        return ""
