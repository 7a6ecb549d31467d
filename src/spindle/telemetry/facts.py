"""What may be told of a call: sizes, codes and names always, contents only where the user asked for them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic_core import to_json

from spindle.calls import Err, Ok
from spindle.errors import HandlerFailedError
from spindle.execution.failures import secrets_masked
from spindle.execution.job import Job
from spindle.telemetry import names
from spindle.tools.entry import Entry
from spindle.tools.masking import masked
from spindle.tools.problems import printable

Attributes: TypeAlias = dict[str, str | int | float | bool]

_MAX_NAME = 100
_MAX_ID = 200
_MAX_DESCRIPTION = 1_000


def span_name(job: Job) -> str:
    """Name a call's span; a name no tool has is not part of it, for a model could make up any number of them."""
    entry = entry_of(job)
    return names.EXECUTE_TOOL if entry is None else f"{names.EXECUTE_TOOL} {entry.tool.name}"


def opening(job: Job, arguments_bytes: int | None) -> Attributes:
    """Give what is known of a call before it runs."""
    call, entry = job.call, entry_of(job)
    facts: Attributes = {
        names.OPERATION_NAME: names.EXECUTE_TOOL,
        names.TOOL_NAME: printable(str(call.name), _MAX_NAME) if entry is None else entry.tool.name,
        names.TOOL_TYPE: tool_type(job),
    }
    if arguments_bytes is not None:
        facts[names.ARGUMENTS_BYTES] = arguments_bytes
    if call.tool_call_id:
        facts[names.TOOL_CALL_ID] = printable(str(call.tool_call_id), _MAX_ID)
    if entry is None:
        return facts
    if description := entry.tool.description:
        facts[names.TOOL_DESCRIPTION] = shortened(description, _MAX_DESCRIPTION)
    if entry.mcp_server is not None:
        facts[names.MCP_SERVER] = printable(entry.mcp_server, _MAX_NAME)
    ctx = cast("Any", job.ctx)
    if ctx is not None:
        if ctx.turn_id is not None:
            facts[names.TURN_ID] = printable(str(ctx.turn_id), _MAX_ID)
        if ctx.dry_run:
            facts[names.DRY_RUN] = True
    return facts


def closing(job: Job) -> Attributes:
    """Give what is known of a call when it is over."""
    result = result_of(job)
    facts: Attributes = {
        names.OUTCOME: outcome_code(job),
        names.ATTEMPTS: job.attempts,
        names.RESULT_ARTIFACT: isinstance(result, Ok) and result.artifact is not None,
        names.RESULT_TRIMMED: job.is_trimmed,
        names.RESULT_SHOWN_CHARS: len(text_of(result)),
    }
    if isinstance(result, Err):
        facts[names.ERROR_TYPE] = result.code
        if isinstance(result.cause, BaseException):
            facts[names.CAUSE] = _class_of(result.cause)
    elif result.media:
        facts[names.RESULT_MEDIA] = len(result.media)
    if (whole := result_bytes(job)) is not None:
        facts[names.RESULT_BYTES] = whole
    return facts


@dataclass(frozen=True, slots=True)
class Contents:
    """What a call was given, as it may be shown; taken before it runs, for a handler may change its arguments."""

    arguments: str
    _secrets: dict[str, Any]

    def attributes(self, job: Job, max_chars: int) -> Attributes:
        """Give arguments and result as text, secrets masked, each shortened."""
        shown = secrets_masked(text_of(result_of(job)), self._secrets, self._secrets)
        return {
            names.TOOL_ARGUMENTS: shortened(job.ctx.redacted(self.arguments), max_chars),
            names.TOOL_RESULT: shortened(job.ctx.redacted(shown), max_chars),
        }


def contents_of(job: Job) -> Contents | None:
    """Take down what a call was given; `None` if it did not pass the gates, for nobody knows what is secret in it."""
    entry, ctx = entry_of(job), cast("object", job.ctx)
    if entry is None or ctx is None or job.arguments is None:
        return None
    secret = entry.tool.secret_fields
    kept = {name: job.arguments[name] for name in secret if name in job.arguments}
    return Contents(_json(masked(job.arguments, secret)), kept)


def entry_of(job: Job) -> Entry | None:
    """Give the tool a call is for; one that was refused early may have none."""
    return cast("Entry | None", job.entry)


def tool_type(job: Job) -> str:
    """Say what kind of tool it is: those behind MCP servers reach out of the program."""
    entry = entry_of(job)
    return names.TYPE_EXTENSION if entry is not None and entry.mcp_server is not None else names.TYPE_FUNCTION


def result_of(job: Job) -> Ok | Err:
    """Give what became of a call; one that nobody answered was left by its caller."""
    return job.reduced or Err("cancelled", "")


def outcome_code(job: Job) -> str:
    """Give `ok`, or why there is no result."""
    result = result_of(job)
    return result.code if isinstance(result, Err) else "ok"


def text_of(result: Ok | Err) -> str:
    """Give what the model is shown."""
    return result.value if isinstance(result, Ok) else result.error


def arguments_bytes(job: Job) -> int | None:
    """Measure what the model sent; `None` for what is neither text nor JSON."""
    given = cast("object", job.call.args)
    if isinstance(given, str):
        return _utf8_bytes(given)
    if isinstance(given, bytes):
        return len(given)
    if given is None:
        return 0
    known = job.arguments if isinstance(given, Mapping) else None
    try:
        return None if known is None else len(to_json(known))
    except ValueError:  # deeper than JSON can be
        return None


def result_bytes(job: Job) -> int | None:
    """Measure the whole result; `None` where only reading an artifact would tell."""
    settled = job.settled
    if settled is None or isinstance(settled.result, Err):
        return None
    if settled.whole is not None:
        return len(settled.whole)
    is_elsewhere = settled.result.artifact is not None and not settled.result.value
    return None if is_elsewhere else _utf8_bytes(settled.result.value)


def shortened(text: str, max_chars: int) -> str:
    """Cut a text; halves of surrogate pairs, which no exporter can write, are replaced."""
    cut = text if len(text) <= max_chars else f"{text[:max_chars]}…"
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _json(value: object) -> str:
    try:
        return to_json(value, fallback=repr).decode("utf-8", "replace")
    except ValueError:
        return json.dumps(repr(value))


def _class_of(error: BaseException) -> str:
    name = error.class_name if isinstance(error, HandlerFailedError) else type(error).__qualname__
    return printable(name, _MAX_NAME)
