"""Logs as JSON, one object a line: what happened to which call, never what was in it.

`log_calls()` among an executor's interceptors writes a line for each call; `spindle.telemetry.logs.log_events` writes
the events. `JsonFormatter` makes lines of these, and of any other record.
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
from typing import IO, Any, Final, cast

from typing_extensions import override

from spindle.calls import Err
from spindle.events import EVENT_NAMES, Events
from spindle.execution.call_state import CallState
from spindle.execution.interceptors import BatchObserver
from spindle.telemetry import attributes
from spindle.tools.arguments import MASK
from spindle.tools.context import ToolContext
from spindle.tools.schema.problems import printable

_NAMES = (
    r"passw(?:or)?d|passphrase|secret|token|api[_\-]?key|access[_\-]?key|private[_\-]?key|credentials?"
    r"|authorization|cookie"
)
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,;&"'}\]]+)"""

_PATTERNS: Final = (
    # Headers, to the end of their line.
    (re.compile(r"\b(authorization|cookie)([ \t]{0,4}:[ \t]{0,4})[^\s\"'][^\r\n\"']*", re.IGNORECASE), rf"\1\2{MASK}"),
    (re.compile(r"\b(bearer[ \t]+)[\w.~+/=\-]{4,}", re.IGNORECASE), rf"\1{MASK}"),
    # Unlike bearers, basic things are often spoken of; what follows must not be a plain word.
    (re.compile(r"\b(basic[ \t]+)(?=[A-Za-z]{0,64}[\d=+/])[\w+/=]{6,}", re.IGNORECASE), rf"\1{MASK}"),
    # name=value and "name": "value", for names that speak for themselves; JSON in JSON has a backslash more.
    (re.compile(rf"""((?:{_NAMES})\\?["']?\s{{0,4}}[:=]\s{{0,4}}\\?){_VALUE}""", re.IGNORECASE), rf"\1{MASK}"),
    # user:password@ in an address.
    (re.compile(r"(://[^\s/:@]{0,256}:)[^\s/@]{1,512}(@)"), rf"\1{MASK}\2"),
    # Keys whose makers gave them a beginning, and JSON Web Tokens.
    (re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|glpat|xox[abprs])[-_][\w\-]{8,}"), MASK),
    (re.compile(r"\bgithub_pat_\w{8,}|\bAKIA[0-9A-Z]{12,}|\bAIza[\w\-]{20,}"), MASK),
    (re.compile(r"\beyJ[\w\-]{4,}\.[\w\-]{4,}\.[\w\-]*"), MASK),
)


def masked_text(text: str, max_chars: int) -> str:
    """Give a text, shortened, without what looks like a token or a password."""
    # A little more than is shown, so that a token at the edge is seen whole.
    seen = text[: max_chars + 1_024]
    for pattern, instead in _PATTERNS:
        seen = pattern.sub(instead, seen)
    return seen if len(seen) <= max_chars else f"{seen[:max_chars]}…"


def trace_ids() -> dict[str, str]:
    """Give `trace_id` and `span_id` of the current span as they are written everywhere; empty without one."""
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

_TOLD = {
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
"""The facts of an event that are written, and how they are called there; all others may hold contents."""
_SPEAKS = {"warning", "log"}
"""The events whose message is our own, or the program's own."""
_QUIET_CODES = {"input_invalid", "needs_approval", "denied", "cancelled"}
"""What a model or a person may bring about any day."""


class JsonFormatter(logging.Formatter):
    """Makes each record one line of JSON: time, level, event, tool, call id, code, duration, trace ids.

    Arguments, results and the messages of exceptions are left out; what looks like a token is masked.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        event = getattr(record, "event", None)
        if isinstance(event, Mapping) and "name" in event:
            line |= _event(cast("Mapping[str, Any]", event))
        else:
            line |= {"event": "log", "message": masked_text(_words(record), _MAX_CHARS)}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = _exception(record.exc_info[1])
        if "trace_id" not in line:
            line |= trace_ids()
        return json.dumps(line, default=_class_of)


def log_calls(logger: logging.Logger | None = None) -> "CallLog":
    """Write a line for each call of an executor, also for those that were refused; put it among its `interceptors`.

    After `telemetry()`, so that the lines carry the ids of the calls' own spans.
    """
    return CallLog(logger or logging.getLogger("spindle.calls"))


def json_logs(
    stream: IO[str] | None = None, *, level: int = logging.INFO, logger: str = "spindle"
) -> Callable[[], None]:
    """Write a logger's records as JSON, to standard error unless told otherwise; gives back the stop."""
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
    """What `log_calls()` gives: stands among an executor's interceptors and sees every call."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def watch(self, context: ToolContext) -> BatchObserver | None:
        """Watch one batch, if its lines would be written."""
        return _Watch(self._logger, context) if self._logger.isEnabledFor(logging.WARNING) else None


class _Watch:
    def __init__(self, logger: logging.Logger, context: ToolContext) -> None:
        self._logger = logger
        self._context = context
        self._ids: dict[CallState, dict[str, str]] = {}

    def begin(self, job: CallState) -> None:
        self._ids[job] = trace_ids()

    def end(self, job: CallState) -> None:
        """Nothing to do: what became of the call is told at the end of its batch."""

    def close(self, jobs: Sequence[CallState]) -> None:
        for job in jobs:
            result = attributes.result_of(job)
            is_bad = isinstance(result, Err) and result.code not in _QUIET_CODES
            level = logging.WARNING if is_bad else logging.INFO
            if self._logger.isEnabledFor(level):
                self._logger.log(level, "%s", "tool_call", extra={"event": self._facts(job)})

    def _facts(self, job: CallState) -> dict[str, Any]:
        return {
            "name": "tool_call",
            "tool": job.call.name,
            "tool_call_id": job.call.tool_call_id,
            "session_id": self._context.session_id,
            "turn_id": self._context.turn_id,
            "code": attributes.outcome_code(job),
            "duration_ms": round(job.duration_ms, 3),
            "attempts": job.attempts,
            **(self._ids.get(job) or trace_ids()),
        }


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    name = printable(str(event["name"]), _MAX_NAME)
    told = {new: _plain(event[old]) for old, new in _TOLD.items() if event.get(old) is not None}
    line = {"event": name, **told}
    if name in _SPEAKS and isinstance(message := event.get("message"), str):
        line["message"] = masked_text(message, _MAX_CHARS)
    if (error := event.get("error")) is not None:
        line["error"] = _error_class(error)
    return line


def _error_class(error: object) -> str:
    """Name an event's exception by its class alone, also where `log_events` has written it down already."""
    if not isinstance(error, str):
        return _class_of(error)
    found = _CLASS_NAME.match(error)
    return found[1] if found else "Exception"


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (bool, int)):
        return value
    return masked_text(printable(value, _MAX_NAME), _MAX_NAME + 1) if isinstance(value, str) else _class_of(value)


def _words(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  a line whose arguments do not fit it is still a line
        return str(record.msg)


def _exception(error: BaseException) -> dict[str, Any]:
    """Tell where an exception came from; its message may hold what a tool was given, so it is not told."""
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
    return {
        "type": _class_of(error),
        "at": [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames],
    }


def _class_of(value: object) -> str:
    return printable(type(value).__qualname__, _MAX_NAME)


_LEVELS = {"warning": logging.WARNING, "error": logging.ERROR, "tool_progress": logging.DEBUG}
_ENOUGH = 2_000


def log_events(events: Events, logger: logging.Logger | None = None) -> Callable[[], None]:
    """Write each event to a logger: its name is the message, its facts are in `record.event`; gives back the stop.

    Arguments come as observers get them, with secret fields masked.
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
        log.log(level, "%s", name, extra={"event": {"name": name, **_facts(payload)}})


def _facts(payload: Any) -> dict[str, Any]:
    return {field.name: _log_value(getattr(payload, field.name)) for field in fields(payload)}


def _log_value(value: Any) -> Any:
    """Make a fact fit for any log: simple values as they are, times as text, everything else shortened."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value.isoformat() if isinstance(value, datetime) else value if isinstance(value, str) else repr(value)
    return text if len(text) <= _ENOUGH else f"{text[:_ENOUGH]}…"
