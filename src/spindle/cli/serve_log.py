"""What `spindle serve` logs on standard error: what happened to which call, never what was in it."""

import logging
import sys
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from typing_extensions import override

from spindle.cli.terminal_text import one_line, visible
from spindle.telemetry.logs import JsonFormatter
from spindle.telemetry.masking import masked_text

LogLevel = Literal["debug", "info", "warning", "error"]

_MAX_CHARS: Final = 2_000


def log_to_stderr(level: LogLevel, *, as_json: bool) -> None:
    """Log on standard error from a level on, as lines for people or as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    wanted = logging.getLevelNamesMapping()[level.upper()]
    # Libraries that are asked for more write session ids and whole messages; of them only warnings are heard.
    logging.basicConfig(level=max(logging.WARNING, wanted), handlers=[handler])
    logging.getLogger("spindle").setLevel(wanted)


class LineFormatter(logging.Formatter):
    """Makes each record one line that cannot command a terminal, nor pose as two; what looks like a token is masked."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        event = getattr(record, "event", None)
        if isinstance(event, Mapping) and cast("Mapping[str, Any]", event).get("name") == "tool_call":
            told = _call(cast("Mapping[str, Any]", event))
        else:
            told = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            # Its message may hold what a tool was given.
            told = f"{told} ({type(record.exc_info[1]).__qualname__})"
        line = masked_text(visible(one_line(told)), _MAX_CHARS)
        return f"{record.levelname} {record.name}: {line}"


def _call(event: Mapping[str, Any]) -> str:
    seconds = f"{event['duration_ms']:g} ms"
    return f"{event['tool']} {event['code'] or 'ok'} in {seconds} ({event['tool_call_id']}, {event['session_id']})"
