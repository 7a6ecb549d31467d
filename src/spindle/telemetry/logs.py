"""JSON logs, one object per line: what happened to which call, without arguments or results.

`log_calls()` among an executor's interceptors logs each call; `log_events` logs the events. `JsonFormatter` formats
these and any other records; `masked_text` redacts what looks like a credential.
"""

import json
import logging
import math
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache, partial
from typing import IO, Any, Final

from typing_extensions import override

from spindle.calls import Err
from spindle.events import EVENT_NAMES, Events
from spindle.execution.call_state import CallState
from spindle.execution.interceptors import BatchObserver
from spindle.json_types import JsonObject, JsonValue, is_mapping
from spindle.telemetry import attributes
from spindle.text import MASK, shorten, to_printable
from spindle.tools.context import ToolContext

_NAMES = (
    r"passw(?:or)?d|passphrase|secret|token|api[_\-]?key|access[_\-]?key|private[_\-]?key|credentials?"
    r"|authorization|cookie"
)
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,;&"'}\]]+)"""

_PATTERNS: Final = (
    # Headers, to the end of the line.
    (re.compile(r"\b(authorization|cookie)([ \t]{0,4}:[ \t]{0,4})[^\s\"'][^\r\n\"']*", re.IGNORECASE), rf"\1\2{MASK}"),
    (re.compile(r"\b(bearer[ \t]+)[\w.~+/=\-]{4,}", re.IGNORECASE), rf"\1{MASK}"),
    # "basic" is also an ordinary word, so the value must not be one.
    (re.compile(r"\b(basic[ \t]+)(?=[A-Za-z]{0,64}[\d=+/])[\w+/=]{6,}", re.IGNORECASE), rf"\1{MASK}"),
    # name=value and "name": "value" for names of credentials; JSON inside JSON has an extra backslash.
    (re.compile(rf"""((?:{_NAMES})\\?["']?\s{{0,4}}[:=]\s{{0,4}}\\?){_VALUE}""", re.IGNORECASE), rf"\1{MASK}"),
    # user:password@ in a URL.
    (re.compile(r"(://[^\s/:@]{0,256}:)[^\s/@]{1,512}(@)"), rf"\1{MASK}\2"),
    # Keys with a known prefix, and JSON Web Tokens.
    (re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|glpat|xox[abprs])[-_][\w\-]{8,}"), MASK),
    (re.compile(r"\bgithub_pat_\w{8,}|\bAKIA[0-9A-Z]{12,}|\bAIza[\w\-]{20,}"), MASK),
    (re.compile(r"\beyJ[\w\-]{4,}\.[\w\-]{4,}\.[\w\-]*"), MASK),
)


def redact_text(text: str, max_chars: int) -> str:
    """Truncate a text and redact everything that looks like a token or a password."""
    # More than is shown, so that a token at the edge is matched completely.
    seen = text[: max_chars + 1_024]
    for pattern, instead in _PATTERNS:
        seen = pattern.sub(instead, seen)
    return shorten(seen, max_chars)


def get_trace_ids() -> dict[str, str]:
    """Return `trace_id` and `span_id` of the current span in hexadecimal; empty without a span."""
    find = _finder()
    context: Any = None if find is None else find().get_span_context()
    if context is None or not context.is_valid:
        return {}
    return {"trace_id": format(context.trace_id, "032x"), "span_id": format(context.span_id, "016x")}


@cache
def _finder() -> Callable[[], Any] | None:
    try:
        from opentelemetry.trace import get_current_span  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    return get_current_span


_MAX_CHARS = 2_000
_MAX_NAME = 200
_MAX_FRAMES = 20
_CLASS_NAME = re.compile(r"([A-Za-z_]\w{0,99})\(")

_LOGGED_FIELDS = {
    "tool_name": "tool",
    "tool": "tool",
    "tool_call_id": "tool_call_id",
    "session_id": "session_id",
    "turn_id": "turn_id",
    "dispatch_id": "dispatch_id",
    "iteration": "iteration",
    "iterations": "iterations",
    "checksum": "checksum",
    "code": "code",
    "status": "status",
    "stage": "stage",
    "source": "source",
    "level": "said_level",
    "is_error": "is_error",
    "attempts": "attempts",
    "percent": "percent",
    "duration_ms": "duration_ms",
    "trace_id": "trace_id",
    "span_id": "span_id",
}
"""The fields of an event that are logged → their names in the log; other fields may contain contents."""
_EVENTS_WITH_MESSAGE = {"warning", "log"}
"""Events whose message is written by Spindle or by the program."""
_QUIET_CODES = {"input_invalid", "needs_approval", "denied", "cancelled"}
"""Codes that a model or a user causes in normal operation; logged at INFO."""


class JsonFormatter(logging.Formatter):
    """A formatter that writes each record as one line of JSON: time, level, event, tool, call id, code, trace ids.

    Arguments, results and exception messages are omitted; text that looks like a token is redacted.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: JsonObject = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        event = getattr(record, "event", None)
        if is_mapping(event) and "name" in event:
            line |= _event(event)
        else:
            line |= {"event": "log", "message": redact_text(_words(record), _MAX_CHARS)}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = _exception(record.exc_info[1])
        if "trace_id" not in line:
            line |= get_trace_ids()
        return json.dumps(line, default=_get_class_name)


def log_calls(logger: logging.Logger | None = None) -> "CallLog":
    """Return an interceptor that logs each call of an executor, including refused ones.

    Put it after `telemetry()` in `interceptors`, so that the lines have the ids of the calls' own spans.
    """
    return CallLog(logger or logging.getLogger("spindle.calls"))


def json_logs(
    stream: IO[str] | None = None, *, level: int = logging.INFO, logger: str = "spindle"
) -> Callable[[], None]:
    """Write a logger's records as JSON to a stream (default: stderr); return a function to stop."""
    log, handler = logging.getLogger(logger), logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    before = log.level
    log.addHandler(handler)
    log.setLevel(level)

    def stop() -> None:
        log.removeHandler(handler)
        log.setLevel(before)

    return stop


class CallLog:
    """The interceptor that `log_calls()` returns; observes every call of an executor."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def watch(self, context: ToolContext) -> BatchObserver | None:
        """Return an observer of one batch, or `None` if the logger is disabled."""
        return _BatchLog(self._logger, context) if self._logger.isEnabledFor(logging.WARNING) else None


class _BatchLog:
    def __init__(self, logger: logging.Logger, context: ToolContext) -> None:
        self._logger = logger
        self._context = context
        self._ids: dict[CallState, dict[str, str]] = {}

    def begin(self, state: CallState) -> None:
        self._ids[state] = get_trace_ids()

    def end(self, state: CallState) -> None:
        """Do nothing: the outcome is logged at the end of the batch."""

    def close(self, states: Sequence[CallState]) -> None:
        for state in states:
            result = attributes.get_result(state)
            is_bad = isinstance(result, Err) and result.code not in _QUIET_CODES
            level = logging.WARNING if is_bad else logging.INFO
            if self._logger.isEnabledFor(level):
                self._logger.log(level, "%s", "tool_call", extra={"event": self._facts(state)})

    def _facts(self, state: CallState) -> JsonObject:
        return {
            "name": "tool_call",
            "tool": state.call.name,
            "tool_call_id": state.call.tool_call_id,
            "session_id": self._context.session_id,
            "turn_id": self._context.turn_id,
            "code": attributes.get_outcome_code(state),
            "duration_ms": round(state.duration_ms, 3),
            "attempts": state.attempts,
            **(self._ids.get(state) or get_trace_ids()),
        }


def _event(event: Mapping[object, object]) -> JsonObject:
    name = to_printable(str(event["name"]), _MAX_NAME)
    logged = {new: _plain(event[old]) for old, new in _LOGGED_FIELDS.items() if event.get(old) is not None}
    line = {"event": name, **logged}
    if name in _EVENTS_WITH_MESSAGE and isinstance(message := event.get("message"), str):
        line["message"] = redact_text(message, _MAX_CHARS)
    if (error := event.get("error")) is not None:
        line["error"] = _error_class(error)
    return line


def _error_class(error: object) -> str:
    """Return the class name of an event's exception, also if `log_events` has already converted it to text."""
    if not isinstance(error, str):
        return _get_class_name(error)
    found = _CLASS_NAME.match(error)
    return found[1] if found else "Exception"


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (bool, int)):
        return value
    return redact_text(to_printable(value, _MAX_NAME), _MAX_NAME) if isinstance(value, str) else _get_class_name(value)


def _words(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  a record with wrong format arguments must still be logged
        return str(record.msg)


def _exception(error: BaseException) -> JsonObject:
    """Return the class and traceback of an exception, without its message, which may contain arguments."""
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
    return {
        "type": _get_class_name(error),
        "at": [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames],
    }


def _get_class_name(value: object) -> str:
    return to_printable(type(value).__qualname__, _MAX_NAME)


_LEVELS = {"warning": logging.WARNING, "error": logging.ERROR, "tool_progress": logging.DEBUG}
_MAX_VALUE_CHARS = 2_000


def log_events(events: Events, logger: logging.Logger | None = None) -> Callable[[], None]:
    """Log each event: its name is the message, its fields are in `record.event`; return a function to stop.

    Arguments are as observers get them, with secret fields redacted.
    """
    log = logger or logging.getLogger("spindle.events")
    stops = [events.on(name, partial(_write, log, name)) for name in EVENT_NAMES]

    def stop() -> None:
        for each in stops:
            each()

    return stop


def _write(log: logging.Logger, name: str, payload: Any) -> None:
    level = _LEVELS.get(name, logging.INFO)
    if log.isEnabledFor(level):
        log.log(level, "%s", name, extra={"event": {"name": name, **_to_fields(payload)}})


def _to_fields(payload: Any) -> JsonObject:
    return {field.name: _log_value(getattr(payload, field.name)) for field in fields(payload)}


def _log_value(value: object) -> JsonValue:
    """Convert a field for logging: numbers as they are, times in ISO format, other values as truncated text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value.isoformat() if isinstance(value, datetime) else value if isinstance(value, str) else repr(value)
    return shorten(text, _MAX_VALUE_CHARS)
