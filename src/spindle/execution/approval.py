"""Whether a person agrees to a call."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from spindle.calls import Err
from spindle.execution.cancelling import from_outside
from spindle.execution.job import Job
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.masking import shown
from spindle.tools.problems import printable
from spindle.trust.sinks import SinkPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequest:
    """What a person is asked to agree to: exactly the call that will run."""

    tool: Tool
    args: Any
    """As the handler will get them, in a copy; secret fields are masked."""
    checksum: str
    ctx: ToolContext


Approve: TypeAlias = Callable[[ApprovalRequest], Awaitable[bool | str]]
"""`True` agrees; `False`, or a text with the reason, denies."""


async def refused_by_person(job: Job, approve: Approve | None) -> Err | None:
    """Ask, where the tool wants it; without anyone to ask the call waits for approval."""
    tool = job.entry.tool
    if not job.needs_approval:
        return None
    if approve is None:
        text = f"The tool {tool.name!r} needs a person's approval, and nobody can be asked here. It was not run."
        return Err("needs_approval", text)
    try:
        args = shown(job.value, tool.secret_fields)
        request = ApprovalRequest(tool=tool, args=args, checksum=job.checksum, ctx=job.ctx)
        answer = cast("object", await approve(request))
    except BaseException as error:  # noqa: BLE001  a guard that raises refuses
        ending = from_outside(error)
        if ending is not None:
            raise ending from None
        job.ctx.events.warn(f"asking to approve {tool.name!r} failed", source="approve", error=error)
        return Err("denied", f"The tool {tool.name!r} was not approved: asking failed. It was not run.", cause=error)
    if answer is True:
        return None
    reason = f" The reason: {printable(answer)}" if isinstance(answer, str) and answer else ""
    return Err("denied", f"The tool {tool.name!r} was not approved, so it was not run.{reason}")


def guard_sinks(sinks: SinkPolicy, jobs: Sequence[Job], *, tainted: bool) -> None:
    """Have a person asked where strangers' words may have written a call that can do harm."""
    for job, is_risky in zip(jobs, sinks.judge([job.entry.tool for job in jobs], tainted=tainted), strict=True):
        job.needs_approval = job.needs_approval or is_risky
