"""`spindle serve`: serve the configured tools as one MCP server over HTTP or stdio."""

import logging
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Final, Literal

import anyio
from cyclopts import Parameter
from typing_extensions import override

from spindle.cli.main import OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, EngineUrl, ProfileName, choose_engine
from spindle.cli.output import escape_controls
from spindle.cli.runtime_registry import build_filter
from spindle.cli.runtime_servers import list_unconfined
from spindle.extras import missing_extra
from spindle.json_types import JsonValue, is_object
from spindle.telemetry.logs import JsonFormatter, redact_text
from spindle.text import to_line

LogLevel = Literal["debug", "info", "warning", "error"]

logger = logging.getLogger("spindle.mcp")

_MAX_CHARS: Final = 2_000


def log_to_stderr(level: LogLevel, *, as_json: bool) -> None:
    """Log to stderr at a level, as text lines or as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    wanted = logging.getLevelNamesMapping()[level.upper()]
    # Below WARNING, libraries log session ids and full messages.
    logging.basicConfig(level=max(logging.WARNING, wanted), handlers=[handler])
    logging.getLogger("spindle").setLevel(wanted)


class LineFormatter(logging.Formatter):
    """Formatter that writes each record as one line, with control characters escaped and tokens masked."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Format the record."""
        event = getattr(record, "event", None)
        text = _call(event) if is_object(event) and event.get("name") == "tool_call" else record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            # Only the type: the message may contain tool arguments.
            text = f"{text} ({type(record.exc_info[1]).__qualname__})"
        line = redact_text(escape_controls(to_line(text)), _MAX_CHARS)
        return f"{record.levelname} {record.name}: {line}"


def _call(event: Mapping[str, JsonValue]) -> str:
    seconds = f"{event['duration_ms']:g} ms"
    return f"{event['tool']} {event['code'] or 'ok'} in {seconds} ({event['tool_call_id']}, {event['session_id']})"


def serve(
    *,
    stdio: Annotated[
        bool,
        Parameter(negative="", help="Serve over standard input and output, for a client that starts this command."),
    ] = False,
    host: Annotated[str | None, Parameter(help="Listen on this address.")] = None,
    port: Annotated[int | None, Parameter(help="Listen on this port; 0 selects a free one.")] = None,
    profile: ProfileName = None,
    engine: EngineUrl = None,
    log_level: Annotated[LogLevel, Parameter(help="Minimum level to log on standard error.")] = "warning",
    log_json: Annotated[bool, Parameter(negative="", help="Log one JSON object per line.")] = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Serve the tools to MCP clients until Ctrl-C; running calls may finish and are recorded."""
    missing = [name for name in ("mcp", "starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise missing_extra("server", purpose="spindle serve", package=missing[0])
    config = choose_engine(where.load_for_tools(), engine)
    build_filter(config, profile)
    log_to_stderr(log_level, as_json=log_json)
    for name in list_unconfined(config):
        logger.warning('MCP server %r runs without a sandbox (sandbox = "none"): it can reach all that you can', name)
    from spindle.cli.gateway import over_http, over_stdio  # noqa: PLC0415 - the MCP SDK is an extra that takes 0.5 s

    if stdio:
        anyio.run(over_stdio, config, profile)
    else:
        anyio.run(over_http, config, where, profile, host, port)
    return OK
