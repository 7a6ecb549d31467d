"""A call as the journal is told of it."""

from datetime import datetime, timedelta
from typing import Any, TypeAlias, cast

from spindle.artifacts.json_artifact import JsonArtifact
from spindle.calls import Err, Ok
from spindle.errors import UsageError
from spindle.execution.failures import redactor_of
from spindle.execution.job import Job, Record
from spindle.execution.settle import Settled
from spindle.journal.entries import Finished, Intent, idempotency_key
from spindle.tools.context import ToolContext
from spindle.tools.masking import masked

Clock: TypeAlias = tuple[datetime, float]
"""The same instant as a time, and as `time.perf_counter()` counts."""


def intent_of(job: Job, now: datetime) -> Intent:
    """Say that a call is about to run; its key is taken down, for its context is in the handler's hands then.

    Raises:
        NotCanonicalError: Its session or turn cannot be named.
    """
    tool, ctx, call_id = job.entry.tool, job.ctx, job.call.tool_call_id
    if job.record is None:
        ctx.checksum = job.checksum
        ctx.idempotency_key = idempotency_key(ctx.session_id, ctx.turn_id, call_id, job.checksum)
        job.record = Record(ctx.idempotency_key)
    return Intent(
        tool_call_id=call_id,
        tool=tool.name,
        checksum=job.checksum,
        idempotency_key=job.record.key,
        args=masked(job.arguments or {}, tool.secret_fields),
        started_at=now,
        session_id=ctx.session_id,
        turn_id=ctx.turn_id,
        fingerprint=tool.fingerprint,
        repeat=tool.read_only,
    )


def bare_intent_of(job: Job, context: ToolContext, now: datetime) -> Intent:
    """Name a call that did not pass the gates. What it was given may hold secrets that nobody could tell apart.

    Raises:
        UsageError: It has no id.
        NotCanonicalError: Its session or turn cannot be named.
    """
    call = job.call
    if not call.tool_call_id:
        raise UsageError("a call without an id cannot be written down", field="tool_call_id")
    return Intent(
        tool_call_id=call.tool_call_id,
        tool=call.name,
        checksum=job.checksum,
        idempotency_key=idempotency_key(context.session_id, context.turn_id, call.tool_call_id, job.checksum),
        args={},
        started_at=now,
        session_id=context.session_id,
        turn_id=context.turn_id,
    )


def finished_of(job: Job, clock: Clock, *, key: str | None = None, text_only: bool = False) -> Finished:
    """Say what became of a call, as it is shown."""
    now, ticks = clock
    result, key = job.reduced, cast("Record", job.record).key if key is None else key
    ended_at = now - timedelta(seconds=ticks - job.begun - job.duration_ms / 1000)
    attempts = job.attempts or _attempts_before(job)
    if not isinstance(result, Ok):
        err = result or Err("execution_failed", "")
        return Finished(
            idempotency_key=key,
            ended_at=ended_at,
            attempts=attempts,
            code=err.code,
            error=err.error,
            result={"field": err.field, "retryable": err.retryable},
            result_chars=len(err.error),
        )
    # An artifact that the handler gave itself is not in our spool.
    is_kept = result.artifact is not None and result.artifact is not _given_artifact(job)
    return Finished(
        idempotency_key=key,
        ended_at=ended_at,
        attempts=attempts,
        result=_told(result, job, is_kept=is_kept, text_only=text_only),
        result_chars=len(result.value),
        cost_usd=result.cost_usd,
        trusted=result.trusted,
        artifact_id=job.place if is_kept else None,
    )


def _told(result: Ok, job: Job, *, is_kept: bool, text_only: bool) -> dict[str, Any]:
    # A tool may repeat what it was told in confidence; that is for the one who asked, not for the record.
    secrets = redactor_of(job.arguments, job.entry.tool.secret_fields)
    told: dict[str, Any] = {"value": secrets.redact(result.value)}
    if result.structured is not None and not text_only:
        told["structured"] = secrets.redact_value(result.structured)
    if result.cost_usd is not None:
        told["cost_usd"] = result.cost_usd
    if is_kept:
        told["is_json"] = isinstance(result.artifact, JsonArtifact)
    if job.record is not None and job.record.media:
        told["media"] = job.record.media
    return told


def _attempts_before(job: Job) -> int:
    """A call that was found out about ran in the process that is gone, and not here."""
    return 1 if job.record is not None and job.record.standing is not None else 0


def _given_artifact(job: Job) -> Any:
    result = cast("Settled", job.settled).result
    return result.artifact if isinstance(result, Ok) else None
