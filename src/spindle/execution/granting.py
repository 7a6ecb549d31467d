"""What a tool declared that it needs, opened for one call and closed after it."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from spindle.artifacts.spool import Spool
from spindle.calls import Err
from spindle.capabilities.resolve import Backends, close_handles, handles
from spindle.capabilities.scope import CallScope
from spindle.capabilities.secrets import Redactor
from spindle.execution.batch import Batch
from spindle.execution.job import Job
from spindle.execution.settle import Settled

Run: TypeAlias = Callable[[Job, Batch], Awaitable[Settled]]


async def with_handles(
    job: Job, batch: Batch, run: Run, *, backends: Backends, spool: Spool | None, redactor: Redactor
) -> Settled:
    """Open the handles the tool declared, run it, and close them again."""
    tool, ctx = job.entry.tool, job.ctx
    scope = CallScope(
        tool=tool.name,
        session_id=ctx.session_id,
        turn_id=ctx.turn_id,
        toolset=tool.toolset,
        spool=spool,
        events=ctx.events,
        attachments=tuple(batch.attachments),
        redactor=redactor,
    )
    try:
        opened = handles(tool.capabilities, backends, scope)
    except Exception as error:  # noqa: BLE001  a guard that raises refuses
        text = f"The tool {tool.name!r} cannot be used now: what it needs could not be opened."
        return Settled(Err("not_available", text, cause=error))
    ctx.grant(opened)
    try:
        return await run(job, batch)
    finally:
        await close_handles(opened)
