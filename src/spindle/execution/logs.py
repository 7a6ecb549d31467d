"""Events as lines of a structured log, for programs that collect logs rather than observe."""

import logging
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any

from spindle.events import EVENT_NAMES, Events

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
    return {field.name: _plain(getattr(payload, field.name)) for field in fields(payload)}


def _plain(value: Any) -> Any:
    """Make a fact fit for any log: simple values as they are, times as text, everything else shortened."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value.isoformat() if isinstance(value, datetime) else value if isinstance(value, str) else repr(value)
    return text if len(text) <= _ENOUGH else f"{text[:_ENOUGH]}…"
