"""What a call would do, said without doing it."""

from typing import Any, cast

from pydantic_core import to_json

from spindle.calls import Ok
from spindle.execution.job import Job
from spindle.tools.masking import masked
from spindle.tools.running import is_awaitable

_MAX_TEXT = 500


async def foretold(job: Job) -> Ok:
    """Answer with the tool's own preview, or with the call as it would be made."""
    tool = job.entry.tool
    if tool.preview is not None:
        said = tool.preview(job.value, job.ctx)
        text = await said if is_awaitable(said) else said
        return Ok(f"[dry-run] {text}")
    shown = _shortened(masked(job.arguments or {}, tool.secret_fields))
    return Ok(f"[dry-run] {tool.name} would be called with: {to_json(shown).decode()}")


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"{value[:_MAX_TEXT]}...[truncated, {len(value)} chars]"
    if isinstance(value, dict):
        return {key: _shortened(part) for key, part in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_shortened(part) for part in cast("list[Any]", value)]
    return value
