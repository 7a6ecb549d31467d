"""The journal side of a batch: intents before calls run, outcomes after, and answers for calls that already ran."""

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast

import anyio

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.spool import Spool
from spindle.calls import Err, ErrCode, Ok
from spindle.errors import UsageError
from spindle.execution.call_state import CallState, JournalState
from spindle.execution.cancellation import external_cancellation, reraise
from spindle.execution.journal_media import format_lost_media, restore_media, spool_media
from spindle.execution.results import HandlerResult, build_redactor, normalize
from spindle.journal.entries import Finished, Intent, JournalEntry, idempotency_key
from spindle.journal.journal import Journal
from spindle.tools.arguments import mask_arguments
from spindle.tools.context import ToolContext
from spindle.tools.invocation import is_awaitable

Clock: TypeAlias = tuple[datetime, float]
"""The same instant as a datetime and as a value of `time.perf_counter()`."""


def build_intent(job: CallState, now: datetime) -> Intent:
    """Build the intent of a call; store its key in the call state, because the handler may change the context.

    Raises:
        NotCanonicalError: Its session or turn id has no canonical JSON.
    """
    tool, ctx, call_id = job.entry.tool, job.ctx, job.call.tool_call_id
    if job.journal_state is None:
        ctx.checksum = job.checksum
        ctx.idempotency_key = idempotency_key(ctx.session_id, ctx.turn_id, call_id, job.checksum)
        job.journal_state = JournalState(ctx.idempotency_key)
    return Intent(
        tool_call_id=call_id,
        tool=tool.name,
        checksum=job.checksum,
        idempotency_key=job.journal_state.key,
        args=mask_arguments(job.arguments or {}, tool.secret_fields),
        started_at=now,
        session_id=ctx.session_id,
        turn_id=ctx.turn_id,
        fingerprint=tool.fingerprint,
        repeat=tool.read_only,
    )


def build_refusal_intent(job: CallState, context: ToolContext, now: datetime) -> Intent:
    """Build the intent of a call that was not admitted; without arguments, which may contain unknown secrets.

    Raises:
        UsageError: The call has no id.
        NotCanonicalError: Its session or turn id has no canonical JSON.
    """
    call = job.call
    if not call.tool_call_id:
        raise UsageError("A call without a tool_call_id cannot be written to the journal.", field="tool_call_id")
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


def build_outcome(job: CallState, clock: Clock, *, key: str | None = None, text_only: bool = False) -> Finished:
    """Build the journal outcome of a call from the result that is returned."""
    now, ticks = clock
    result, key = job.reduced, cast("JournalState", job.journal_state).key if key is None else key
    ended_at = now - timedelta(seconds=ticks - job.started - job.duration_ms / 1000)
    attempts = job.attempts or _count_earlier_attempts(job)
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
    # An artifact that the handler returned is not in the executor's spool.
    is_kept = result.artifact is not None and result.artifact is not _get_handler_artifact(job)
    return Finished(
        idempotency_key=key,
        ended_at=ended_at,
        attempts=attempts,
        result=_serialize_ok(result, job, is_spooled=is_kept, text_only=text_only),
        result_chars=len(result.value),
        cost_usd=result.cost_usd,
        trusted=result.trusted,
        artifact_id=job.spool_id if is_kept else None,
    )


def _serialize_ok(result: Ok, job: CallState, *, is_spooled: bool, text_only: bool) -> dict[str, Any]:
    # A tool may repeat its secret arguments; the caller may see them, the journal must not.
    secrets = build_redactor(job.arguments, job.entry.tool.secret_fields)
    told: dict[str, Any] = {"value": secrets.redact(result.value)}
    if result.structured is not None and not text_only:
        told["structured"] = secrets.redact_value(result.structured)
    if result.cost_usd is not None:
        told["cost_usd"] = result.cost_usd
    if is_spooled:
        told["is_json"] = isinstance(result.artifact, JsonArtifact)
    if job.journal_state is not None and job.journal_state.media:
        told["media"] = job.journal_state.media
    return told


def _count_earlier_attempts(job: CallState) -> int:
    """Return 1 for a reconciled call, which ran in the crashed process, else 0."""
    return 1 if job.journal_state is not None and job.journal_state.interrupted_entry is not None else 0


def _get_handler_artifact(job: CallState) -> Any:
    result = cast("HandlerResult", job.settled).result
    return result.artifact if isinstance(result, Ok) else None


async def reconcile_interrupted(job: CallState, timeout_seconds: float) -> HandlerResult | None:
    """Ask the tool for the result of an interrupted call; return `None` if it is unknown or asking failed."""
    tool = job.entry.tool
    if tool.reconcile is None:
        return None
    problem: BaseException | None = None
    with anyio.move_on_after(timeout_seconds) as scope:
        try:
            found = tool.reconcile(cast("JournalState", job.journal_state).key, job.ctx)
            found = await found if is_awaitable(found) else found
            if found is None:
                return None
            if isinstance(found, (Ok, Err)):
                return normalize(found, tool=tool.name, trusted=tool.trusted)
            problem = TypeError(f"Expected reconcile to return an Ok, an Err or None, got {type(found).__name__}.")
        except BaseException as error:  # noqa: BLE001  a user's callback must not fail the batch
            ending = external_cancellation(error, scope)
            if ending is not None:
                await reraise(ending)
            problem = error
    job.ctx.events.warn(f"reconciling a call of {tool.name!r} failed", source="reconcile", error=problem)
    return None


FLUSH_DELAY_SECONDS = 0.02
"""How long an outcome waits for others to be written in one transaction, independent of slow siblings."""

IsFinal: TypeAlias = Callable[[CallState], bool]


class BatchJournal:
    """Writes the intents and outcomes of one batch to the journal."""

    def __init__(self, journal: Journal, context: ToolContext, spool: Spool | None, is_final: IsFinal) -> None:
        self._journal = journal
        self._context = context
        self._spool = spool
        self._is_final = is_final
        """Whether a result cannot change any more, before the results of its siblings are known."""
        self._ended: list[CallState] = []
        self._has_ended = anyio.Event()
        self._all_ended = anyio.Event()

    async def begin(self, jobs: Sequence[CallState]) -> None:
        """Write the intent of each call; finish calls that must not run again."""
        now = datetime.now(UTC)
        intents = {job: intent for job in jobs if (intent := self._try_build_intent(job, now)) is not None}
        try:
            standing = await self._journal.begin(list(intents.values()))
        except UsageError as error:
            if len(intents) == 1:
                _reject_unwritten(*intents, error=error)
            else:
                # One intent cannot be stored; write them one by one so that the others can.
                for job in intents:
                    await self.begin([job])
        except Exception as error:  # noqa: BLE001  a call without a written intent must not run
            for job in intents:
                _reject_unwritten(job, error=error)
        else:
            for job, entry in zip(intents, standing, strict=True):
                await self._apply_entry(job, entry)

    def _try_build_intent(self, job: CallState, now: datetime) -> Intent | None:
        try:
            return build_intent(job, now)
        except Exception as error:  # noqa: BLE001  for example a call id that is not text
            _reject_unwritten(job, error=error)
            return None

    async def _apply_entry(self, job: CallState, entry: JournalEntry | None) -> None:
        record = cast("JournalState", job.journal_state)
        if entry is None:
            record.is_begun = True
        elif entry.state == "interrupted":
            record.interrupted_entry = entry
        else:
            record.is_recorded = True
            if entry.state == "finished":
                record.answer = HandlerResult(await self._restore_result(job, entry))
                job.finish(record.answer)
            else:
                text = f"The same call of {job.call.name!r} is already running; wait for its result."
                job.finish(HandlerResult(Err("not_available", text, retryable=True)))

    async def admit(self, job: CallState, *, timeout_seconds: float) -> HandlerResult | None:
        """Write the intent of one call and return `None`, or return its result if it must not run."""
        if job.journal_state is None:
            await self.begin([job])
        record = cast("JournalState", job.journal_state)
        if record.is_begun:
            return None
        if record.interrupted_entry is None:
            return job.settled
        found = await reconcile_interrupted(job, timeout_seconds)
        if found is not None:
            record.is_begun = True
            return found
        if job.entry.tool.idempotent:
            return await self._begin_again(job, record)
        record.is_recorded = True
        text = (
            f"The call of {job.call.name!r} was interrupted by a crash, so it is unknown whether it took effect. "
            "It was not run again: find out first."
        )
        return HandlerResult(Err("interrupted", text))

    async def _begin_again(self, job: CallState, record: JournalState) -> HandlerResult | None:
        try:
            await self._journal.begin([replace(build_intent(job, datetime.now(UTC)), repeat=True)])
        except Exception as error:  # noqa: BLE001
            _reject_unwritten(job, error=error)
            return job.settled
        job.journal_state = JournalState(record.key, is_begun=True)
        return None

    async def _restore_result(self, job: CallState, entry: JournalEntry) -> Ok | Err:
        """Rebuild the result that was recorded before."""
        record = entry.result or {}
        if entry.code is not None:
            code = cast("ErrCode", entry.code)
            return Err(code, entry.error or "", field=record.get("field"), retryable=bool(record.get("retryable")))
        media, lost = await restore_media(record.get("media"), self._spool, self._warn)
        return Ok(
            record.get("value", "") + format_lost_media(lost),
            media=media,
            structured=record.get("structured"),
            artifact=None
            if entry.artifact_id is None
            else await self._restore_artifact(job, entry.artifact_id, record),
            cost_usd=record.get("cost_usd"),
            trusted=entry.trusted,
        )

    async def _restore_artifact(self, job: CallState, artifact_id: str, record: dict[str, Any]) -> Any:
        kind = job.entry.tool.artifact_constructor or (JsonArtifact if record.get("is_json") else Artifact)
        try:
            reader = None if self._spool is None else await self._spool.read(artifact_id)
            return None if reader is None else kind(reader)
        except Exception as error:  # noqa: BLE001  the recorded text is still returned
            self._warn(f"the full result of {job.call.name!r} could not be read from the spool", error)
            return None

    @asynccontextmanager
    async def flush_in_background(self) -> AsyncGenerator[None]:
        """Write the outcomes of finished calls while others still run, so that none waits for a slow sibling."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._flush_finished)
            try:
                yield
            finally:
                self._all_ended.set()
                self._has_ended.set()

    def queue_outcome(self, job: CallState) -> None:
        """Queue the outcome of a finished call for writing, without waiting for it."""
        record = job.journal_state
        if record is not None and record.is_begun and self._is_final(job):
            self._ended.append(job)
            self._has_ended.set()

    async def _flush_finished(self) -> None:
        while True:
            await self._has_ended.wait()
            with anyio.move_on_after(FLUSH_DELAY_SECONDS):
                await self._all_ended.wait()
            if self._all_ended.is_set():
                return  # `finish` writes the rest, together with truncated results
            self._has_ended = anyio.Event()
            ended, self._ended = self._ended, []
            try:
                await self._write(ended)
            except Exception:  # noqa: BLE001  `finish` tries again and reports a failure
                return

    async def finish(self, jobs: Sequence[CallState], *, skip_media: bool = False) -> None:
        """Write all outcomes that are not written yet; a failure only emits a warning, the results stay valid.

        With `in_haste`, media is described but not spooled.
        """
        owed = [
            job
            for job in jobs
            if job.journal_state is not None and job.journal_state.is_begun and not job.journal_state.is_recorded
        ]
        refused = [note for job in jobs if (note := self._build_refusal(job)) is not None]
        try:
            await self._write(owed, skip_media=skip_media)
            await self._journal.note(refused)
        except Exception as error:  # noqa: BLE001
            self._warn(
                f"the outcomes of up to {len(owed) + len(refused)} calls could not be written to the journal", error
            )

    async def _write(self, jobs: Sequence[CallState], *, skip_media: bool = False) -> None:
        if not jobs:
            return
        await spool_media(jobs, None if skip_media else self._spool, self._warn)
        clock = datetime.now(UTC), time.perf_counter()
        try:
            await self._journal.finish([build_outcome(job, clock) for job in jobs])
        except UsageError as error:
            if len(jobs) > 1:
                for job in jobs:
                    await self._write([job], skip_media=skip_media)
                return
            # A handler's `structured` may not be JSON; the text is what the model sees.
            self._warn(f"only the text of the result of {jobs[0].call.name!r} could be written to the journal", error)
            await self._journal.finish([build_outcome(jobs[0], clock, text_only=True)])
        for job in jobs:
            cast("JournalState", job.journal_state).is_recorded = True

    def _build_refusal(self, job: CallState) -> tuple[Intent, Finished] | None:
        """Build the rows of a rejected call; without its arguments if they were not validated."""
        result = None if job.settled is None else job.settled.result
        if not isinstance(result, Err) or (
            job.journal_state is not None and (job.journal_state.is_begun or job.journal_state.is_recorded)
        ):
            return None
        now = datetime.now(UTC)
        try:
            intent = (
                build_intent(job, now)
                if cast("Any", job.ctx) is not None
                else build_refusal_intent(job, self._context, now)
            )
            return intent, build_outcome(job, (now, time.perf_counter()), key=intent.idempotency_key)
        except Exception:  # noqa: BLE001  a call without a valid id cannot be recorded, and had no effect
            return None

    def _warn(self, message: str, error: BaseException) -> None:
        self._context.events.warn(message, source="journal", error=error)


Run: TypeAlias = Callable[[CallState, Any], Coroutine[Any, Any, None]]


def notify_on_end(run: Run, journal: BatchJournal) -> Run:
    """Return `run` wrapped so that `recording` is notified of the end of each call."""

    async def run_and_tell(job: CallState, batch: Any) -> None:
        await run(job, batch)
        journal.queue_outcome(job)

    return run_and_tell


def _reject_unwritten(job: CallState, *, error: BaseException) -> None:
    text = f"The tool {job.call.name!r} was not run: the call could not be written to the journal."
    job.journal_state = JournalState("", is_recorded=True)
    job.finish(HandlerResult(Err("not_available", text, retryable=True, cause=error)))
