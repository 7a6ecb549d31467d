"""What a call would do, said without doing it."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import to_json

from spindle.calls import Err, Ok
from spindle.execution.cancelling import from_outside
from spindle.execution.failures import err_of, secrets_masked, without_secrets
from spindle.execution.job import Job
from spindle.execution.settle import invalid_result
from spindle.tools.masking import masked
from spindle.tools.running import is_awaitable

_MAX_TEXT = 500


async def foretold(job: Job) -> Ok | Err:
    """Answer with the tool's own preview, or with the call as it would be made."""
    tool = job.entry.tool
    if tool.preview is not None:
        return await _previewed(job)
    shown = _shortened(masked(job.arguments or {}, tool.secret_fields))
    return Ok(f"[dry-run] {tool.name} would be called with: {to_json(shown).decode()}")


async def _previewed(job: Job) -> Ok | Err:
    tool = job.entry.tool
    try:
        said: Any = cast("Any", tool.preview)(job.value, job.ctx)
        text: object = await said if is_awaitable(said) else said
    except BaseException as error:  # noqa: BLE001  whatever a tool raises is its answer
        ending = from_outside(error)
        if ending is not None:
            raise ending from None
        failed = err_of(error, tool=tool.name, expose=tool.expose_errors)
        return without_secrets(failed, job.arguments, tool.secret_fields)
    if not isinstance(text, str):
        return invalid_result(tool.name, f"its preview gave a {type(text).__name__}, and not text")
    return Ok(f"[dry-run] {_masked(job, text)}")


def _masked(job: Job, text: str) -> str:
    return secrets_masked(text, job.arguments, job.entry.tool.secret_fields)


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"{value[:_MAX_TEXT]}...[truncated, {len(value)} chars]"
    if isinstance(value, Mapping):
        return {key: _shortened(part) for key, part in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_shortened(part) for part in cast("list[Any]", value)]
    return value
