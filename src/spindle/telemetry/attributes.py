"""Names of all spans, attributes and metrics, and functions that compute the attributes of a call.

The names follow the GenAI and MCP conventions; our own start with `spindle.`. The conventions are still in development
(github.com/open-telemetry/semantic-conventions-genai, as of November 2026); renames are made in this module only.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic_core import to_json

from spindle.calls import Err, Ok
from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import HandlerFailedError
from spindle.execution.call_state import AdmittedCall, CallState, RefusedCall
from spindle.json_types import untyped
from spindle.text import shorten, to_encodable, to_printable
from spindle.tools.arguments import build_redactor, mask_arguments

SCOPE: Final = "spindle"
"""The name of our tracer and our meter."""

# Operations: the values of `gen_ai.operation.name`, and the prefixes of span names.
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
DISPATCH: Final = "spindle.dispatch"
ITERATION: Final = "spindle.iteration"

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
"""Only with `contents=True`."""
TOOL_RESULT: Final = "gen_ai.tool.call.result"
"""Only with `contents=True`."""

TYPE_FUNCTION: Final = "function"
TYPE_EXTENSION: Final = "extension"

ERROR_TYPE: Final = "error.type"
OTHER: Final = "_OTHER"
"""The conventions' value for unbounded names, such as those of unknown tools."""

MCP_SESSION_ID: Final = "mcp.session.id"

# Spindle's own attributes.
OUTCOME: Final = "spindle.outcome.code"
"""`ok`, or the code of the `Err`."""
CAUSE: Final = "spindle.error.cause"
"""The class of the handler's exception; never its message."""
ATTEMPTS: Final = "spindle.attempts"
TURN_ID: Final = "spindle.turn.id"
TURN_STATUS: Final = "spindle.turn.status"
DISPATCH_ID: Final = "spindle.dispatch.id"
ITERATION_NUMBER: Final = "spindle.iteration.number"
ITERATIONS: Final = "spindle.iterations"
MCP_SERVER: Final = "spindle.mcp.server"
DRY_RUN: Final = "spindle.dry_run"
ARGUMENTS_BYTES: Final = "spindle.arguments.size"
RESULT_BYTES: Final = "spindle.result.size"
"""Size of the full result, if known without reading it."""
RESULT_SHOWN_CHARS: Final = "spindle.result.shown_chars"
RESULT_ARTIFACT: Final = "spindle.result.artifact"
RESULT_TRIMMED: Final = "spindle.result.trimmed"
RESULT_MEDIA: Final = "spindle.result.media_count"

# Metrics.
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
TOOL_DURATION_BUCKETS: Final = (
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64),
    *(1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)
AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
AGENT_DURATION_BUCKETS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
OUTCOMES: Final = "spindle.tool.outcomes"
BYTES_IN: Final = "spindle.tool.arguments.size"
BYTES_OUT: Final = "spindle.tool.result.size"
TRIMS: Final = "spindle.tool.result.trims"
ABANDONED_THREADS: Final = "spindle.executor.abandoned_threads"


Attributes: TypeAlias = dict[str, str | int | float | bool]

_MAX_NAME = 100
_MAX_ID = 200
_MAX_DESCRIPTION = 1_000


def build_span_name(state: CallState) -> str:
    """Return the name of a call's span; an unknown tool's name is omitted, since a model could invent any number."""
    entry = state.entry
    return EXECUTE_TOOL if entry is None else f"{EXECUTE_TOOL} {entry.tool.name}"


def start_attributes(state: CallState, arguments_bytes: int | None) -> Attributes:
    """Return the attributes known before a call runs."""
    call, entry = state.call, state.entry
    facts: Attributes = {
        OPERATION_NAME: EXECUTE_TOOL,
        TOOL_NAME: to_printable(str(call.name), _MAX_NAME) if entry is None else entry.tool.name,
        TOOL_TYPE: get_tool_type(state),
    }
    if arguments_bytes is not None:
        facts[ARGUMENTS_BYTES] = arguments_bytes
    if call.tool_call_id:
        facts[TOOL_CALL_ID] = to_printable(str(call.tool_call_id), _MAX_ID)
    if entry is None:
        return facts
    if description := entry.tool.description:
        facts[TOOL_DESCRIPTION] = truncate(description, _MAX_DESCRIPTION)
    if entry.mcp_server is not None:
        facts[MCP_SERVER] = to_printable(entry.mcp_server, _MAX_NAME)
    if isinstance(state, AdmittedCall):
        if state.ctx.turn_id is not None:
            facts[TURN_ID] = to_printable(state.ctx.turn_id, _MAX_ID)
        if state.ctx.dry_run:
            facts[DRY_RUN] = True
    return facts


def end_attributes(state: CallState) -> Attributes:
    """Return the attributes known after a call has ended."""
    result = get_result(state)
    facts: Attributes = {
        OUTCOME: get_outcome_code(state),
        ATTEMPTS: state.attempts,
        RESULT_ARTIFACT: isinstance(result, Ok) and result.artifact is not None,
        RESULT_TRIMMED: state.is_truncated,
        RESULT_SHOWN_CHARS: len(get_text(result)),
    }
    if isinstance(result, Err):
        facts[ERROR_TYPE] = result.code
        if isinstance(result.cause, BaseException):
            facts[CAUSE] = _class_of(result.cause)
    elif result.media:
        facts[RESULT_MEDIA] = len(result.media)
    if (whole := measure_result(state)) is not None:
        facts[RESULT_BYTES] = whole
    return facts


@dataclass(frozen=True, slots=True)
class Contents:
    """The redacted arguments of a call, captured before it runs, since a handler may change them."""

    arguments: str
    _secrets: Redactor
    _redact: Callable[[str], str]

    def attributes(self, state: CallState, max_chars: int) -> Attributes:
        """Return arguments and result as text, redacted and truncated."""
        shown = self._secrets.redact(get_text(get_result(state)))
        return {
            TOOL_ARGUMENTS: truncate(self._redact(self.arguments), max_chars),
            TOOL_RESULT: truncate(self._redact(shown), max_chars),
        }


def capture_contents(state: CallState) -> Contents | None:
    """Capture the arguments of a call; `None` if it was refused, since its secret fields are then unknown."""
    if isinstance(state, RefusedCall):
        return None
    secret = state.entry.tool.secret_fields
    secrets = build_redactor(state.arguments, secret)
    return Contents(_json(mask_arguments(state.arguments, secret)), secrets, state.ctx.redact)


def get_tool_type(state: CallState) -> str:
    """Return the tool type of the conventions: `extension` for tools of MCP servers, otherwise `function`."""
    entry = state.entry
    return TYPE_EXTENSION if entry is not None and entry.mcp_server is not None else TYPE_FUNCTION


def get_result(state: CallState) -> Ok | Err:
    """Return the result of a call; without one, its caller was cancelled."""
    return state.reduced or Err("cancelled", "")


def get_outcome_code(state: CallState) -> str:
    """Return `ok` or the code of the error."""
    result = get_result(state)
    return result.code if isinstance(result, Err) else "ok"


def get_text(result: Ok | Err) -> str:
    """Return the text that the model sees."""
    return result.value if isinstance(result, Ok) else result.error


def measure_arguments(state: CallState) -> int | None:
    """Return the size of the arguments in bytes; `None` if they are neither text nor JSON."""
    given = untyped(state.call.args)
    if isinstance(given, str):
        return _utf8_bytes(given)
    if isinstance(given, bytes):
        return len(given)
    if given is None:
        return 0
    known = state.arguments if isinstance(given, Mapping) else None
    try:
        return None if known is None else len(to_json(known))
    except ValueError:  # nested too deeply for JSON
        return None


def measure_result(state: CallState) -> int | None:
    """Return the size of the full result in bytes; `None` if an artifact would have to be read."""
    handled = state.handled
    if handled is None or isinstance(handled.result, Err):
        return None
    if handled.full_bytes is not None:
        return len(handled.full_bytes)
    is_elsewhere = handled.result.artifact is not None and not handled.result.value
    return None if is_elsewhere else _utf8_bytes(handled.result.value)


def truncate(text: str, max_chars: int) -> str:
    """Truncate a text and replace lone surrogates, which no exporter can encode."""
    return to_encodable(shorten(text, max_chars))


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _json(value: object) -> str:
    try:
        return to_json(value, fallback=repr).decode("utf-8", "replace")
    except ValueError:
        return json.dumps(repr(value))


def _class_of(error: BaseException) -> str:
    name = error.class_name if isinstance(error, HandlerFailedError) else type(error).__qualname__
    return to_printable(name, _MAX_NAME)
