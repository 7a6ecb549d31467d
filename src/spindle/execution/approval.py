"""Approval of calls by a person, and the dry-run preview that shows a call without running it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic_core import to_json

from spindle.calls import Err, Ok
from spindle.execution.call_state import CallState
from spindle.execution.cancellation import external_cancellation
from spindle.execution.results import build_invalid_result, mask_secret_fields, mask_secrets, to_err
from spindle.tools.arguments import copy_masked, mask_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.invocation import is_awaitable
from spindle.tools.schema.problems import to_printable
from spindle.trust.labels import SinkPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequest:
    """The call to approve, exactly as it will run."""

    tool: Tool
    args: Any
    """A copy of the arguments that the handler will receive; secret fields are masked."""
    checksum: str
    ctx: ToolContext


Approve: TypeAlias = Callable[[ApprovalRequest], Awaitable[bool | str]]
"""Returns `True` to approve; `False`, or a text with the reason, to deny."""


async def request_approval(job: CallState, approve: Approve | None) -> Err | None:
    """Ask for approval if it is required; return the rejection, or `None` if the call may run."""
    tool = job.entry.tool
    if not job.needs_approval:
        return None
    if approve is None:
        text = f"The tool {tool.name!r} needs a person's approval, and no approver is configured. It was not run."
        return Err("needs_approval", text)
    try:
        args = copy_masked(job.value, tool.secret_fields)
        request = ApprovalRequest(tool=tool, args=args, checksum=job.checksum, ctx=job.ctx)
        answer = cast("object", await approve(request))
    except BaseException as error:  # noqa: BLE001  an approver that raises denies the call
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        job.ctx.events.warn(f"the approval callback of {tool.name!r} failed", source="approve", error=error)
        return Err(
            "denied",
            f"The tool {tool.name!r} was not approved: the approval request failed. It was not run.",
            cause=error,
        )
    if answer is True:
        return None
    reason = f" The reason: {to_printable(answer)}" if isinstance(answer, str) and answer else ""
    return Err("denied", f"The tool {tool.name!r} was not approved, so it was not run.{reason}")


def require_sink_approval(sinks: SinkPolicy, jobs: Sequence[CallState], *, tainted: bool) -> None:
    """Require approval for calls to dangerous tools once untrusted content has entered the turn."""
    for job, is_risky in zip(jobs, sinks.judge([job.entry.tool for job in jobs], tainted=tainted), strict=True):
        job.needs_approval = job.needs_approval or is_risky


_MAX_TEXT = 500


async def dry_run_preview(job: CallState) -> Ok | Err:
    """Return the tool's own preview, or a text with the call as it would be made."""
    tool = job.entry.tool
    if tool.preview is not None:
        return await _call_preview(job)
    shown = _shorten(mask_arguments(job.arguments or {}, tool.secret_fields))
    return Ok(f"[dry-run] {tool.name} would be called with: {to_json(shown).decode()}")


async def _call_preview(job: CallState) -> Ok | Err:
    tool = job.entry.tool
    try:
        said: Any = cast("Any", tool.preview)(job.value, job.ctx)
        text: object = await said if is_awaitable(said) else said
    except BaseException as error:  # noqa: BLE001  every exception of a tool becomes its result
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        failed = to_err(error, tool=tool.name, expose=tool.expose_errors)
        return mask_secret_fields(failed, job.arguments, tool.secret_fields)
    if not isinstance(text, str):
        return build_invalid_result(tool.name, f"its preview returned {type(text).__name__}, not text")
    return Ok(f"[dry-run] {_masked(job, text)}")


def _masked(job: CallState, text: str) -> str:
    return mask_secrets(text, job.arguments, job.entry.tool.secret_fields)


def _shorten(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"{value[:_MAX_TEXT]}...[truncated, {len(value)} chars]"
    if isinstance(value, Mapping):
        return {key: _shorten(part) for key, part in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_shorten(part) for part in cast("list[Any]", value)]
    return value
