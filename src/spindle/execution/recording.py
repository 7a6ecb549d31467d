"""The journal's part in a batch: what is written before calls run, and after; and which calls need not run again."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from spindle.calls import Err, ErrCode, Ok
from spindle.errors import SpindleError
from spindle.execution.job import Job
from spindle.execution.settle import Settled, settle
from spindle.journal.entries import Finished, Intent, JournalEntry
from spindle.journal.journal import Journal
from spindle.tools.masking import masked
from spindle.tools.running import is_awaitable


async def begin(journal: Journal, jobs: Sequence[Job]) -> None:
    """Write the intent of each call; a call that must not run again is answered here."""
    try:
        standing = await journal.begin([_intent(job) for job in jobs])
    except SpindleError as error:
        for job in jobs:
            text = f"The tool {job.call.name!r} was not run: the call could not be written down first."
            job.finish(Settled(Err("not_available", text, retryable=True, cause=error)))
        return
    for job, entry in zip(jobs, standing, strict=True):
        if entry is None:
            job.is_journalled = True
        else:
            await _stand_by(journal, job, entry)


async def finish(journal: Journal, jobs: Sequence[Job]) -> None:
    """Write what became of the calls that were begun; a journal that fails now is reported, the answers stand."""
    ended = [_finished(job) for job in jobs if job.is_journalled]
    if not ended:
        return
    try:
        await journal.finish(ended)
    except SpindleError as error:
        message = f"the outcomes of {len(ended)} calls could not be written to the journal"
        jobs[0].ctx.events.warn(message, source="journal", error=error)


def _intent(job: Job, *, repeat: bool = False) -> Intent:
    tool, ctx = job.entry.tool, job.ctx
    return Intent(
        tool_call_id=job.call.tool_call_id,
        tool=tool.name,
        checksum=job.checksum,
        idempotency_key=cast("str", ctx.idempotency_key),
        args=masked(job.arguments or {}, tool.secret_fields),
        started_at=datetime.now(UTC),
        session_id=ctx.session_id,
        turn_id=ctx.turn_id,
        fingerprint=tool.fingerprint,
        repeat=repeat or tool.read_only,
    )


def _finished(job: Job) -> Finished:
    result = job.reduced
    facts: dict[str, Any] = {
        "idempotency_key": job.ctx.idempotency_key,
        "ended_at": datetime.now(UTC),
        "attempts": max(job.attempts, 1),
    }
    if isinstance(result, Ok):
        record = {"value": result.value, "structured": result.structured, "cost_usd": result.cost_usd}
        kept = job.call.tool_call_id if result.artifact is not None else None
        return Finished(
            **facts,
            result=record,
            result_chars=len(result.value),
            cost_usd=result.cost_usd,
            trusted=result.trusted,
            artifact_id=kept,
        )
    err = result or Err("execution_failed", "")
    return Finished(**facts, code=err.code, error=err.error, result={"field": err.field, "retryable": err.retryable})


async def _stand_by(journal: Journal, job: Job, entry: JournalEntry) -> None:
    """Answer a call that was asked before: from the record, by asking its tool, or by saying that nobody knows."""
    if entry.state == "finished":
        job.finish(Settled(_recorded(entry)))
    elif entry.state == "started":
        text = f"The same call of {job.call.name!r} is running already; wait for its answer."
        job.finish(Settled(Err("not_available", text, retryable=True)))
    else:
        found = await _reconciled(job)
        if found is not None:
            job.is_journalled = True
            job.finish(found)
        elif job.entry.tool.idempotent:
            await journal.begin([_intent(job, repeat=True)])
            job.is_journalled = True
        else:
            text = (
                f"The call of {job.call.name!r} was interrupted by a crash, so nobody knows whether it took effect. "
                "It was not run again: find out first."
            )
            job.finish(Settled(Err("interrupted", text)))


def _recorded(entry: JournalEntry) -> Ok | Err:
    record = entry.result or {}
    if entry.code is None:
        cost = record.get("cost_usd")
        return Ok(record.get("value", ""), structured=record.get("structured"), cost_usd=cost, trusted=entry.trusted)
    code = cast("ErrCode", entry.code)
    return Err(code, entry.error or "", field=record.get("field"), retryable=bool(record.get("retryable")))


async def _reconciled(job: Job) -> Settled | None:
    tool = job.entry.tool
    if tool.reconcile is None:
        return None
    try:
        found = tool.reconcile(cast("str", job.ctx.idempotency_key), job.ctx)
        found = await found if is_awaitable(found) else found
    except Exception as error:  # noqa: BLE001  not knowing is an answer too
        job.ctx.events.warn(f"reconciling a call of {tool.name!r} failed", source="reconcile", error=error)
        return None
    return None if found is None else settle(found, tool=tool.name, trusted=tool.trusted)
