"""Keeps a batch's results inside its budget, and what does not fit whole in the spool."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.forge import ReaderTool
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.query import queries_of
from spindle.artifacts.spool import Spool
from spindle.calls import Err, Ok
from spindle.execution.budget import Budget, allot, kept_line, truncation_marker
from spindle.execution.job import Job
from spindle.execution.preview import detect_kind, preview

_NOT_WORTH_NAMING = {"artifact_byte_length", "artifact_line_count", "artifact_estimate_tokens"}


@dataclass(slots=True)
class _Text:
    """What a job's result says, and how much of it there is."""

    job: Job
    shown: str
    total_chars: int


async def fit(jobs: Sequence[Job], budget: Budget, spool: Spool | None) -> None:
    """Cut what is over its share, share the room small results leave, and keep the whole of all that is cut."""
    if _all_fit(jobs, budget):
        return
    texts = [await _text_of(job, budget) for job in jobs]
    rooms = allot(budget.total, [_wanted(text, budget) for text in texts])
    for text, room in zip(texts, rooms, strict=True):
        if room < budget.size(text.shown) or text.total_chars > len(text.shown):
            await _cut(text, room, budget, spool)
        elif text.job.is_reduced:
            text.job.reduced = await _with_whole(text.job, spool)
        elif isinstance(text.job.reduced, Ok) and text.shown is not text.job.reduced.value:
            text.job.reduced = replace(text.job.reduced, value=text.shown)


def _all_fit(jobs: Sequence[Job], budget: Budget) -> bool:
    """Tell the common case at a glance: a few short texts, and nobody asks for less."""
    chars = 0
    for job in jobs:
        result = job.reduced
        if not isinstance(result, Ok):
            chars += len(result.error) if result is not None else 0
        elif result.artifact is None and not job.is_reduced and job.entry.tool.max_result_chars is None:
            chars += len(result.value)
        else:
            return False
    return chars <= budget.total and budget.unit == "chars"


async def _text_of(job: Job, budget: Budget) -> _Text:
    result = job.reduced
    if isinstance(result, Ok):
        if isinstance(result.artifact, Artifact) and not result.value:
            return await _beginning(job, result.artifact, budget.total)
        return _Text(job, result.value, len(result.value))
    error = result.error if result is not None else ""
    return _Text(job, error, len(error))


async def _beginning(job: Job, artifact: Artifact, chars: int) -> _Text:
    """Read no more of an artifact than could be shown; a character takes up to four bytes."""
    length = await artifact.byte_length()
    if length <= 4 * chars:
        text = await artifact.as_text()
        return _Text(job, text, len(text))
    data = await artifact.first_bytes(4 * chars)
    return _Text(job, data.decode("utf-8-sig", "ignore")[:chars], length)


def _wanted(text: _Text, budget: Budget) -> int:
    entry = text.job.entry
    cap = entry.tool.max_result_chars if entry is not None else None  # pyright: ignore[reportUnnecessaryComparison]
    if cap is None or len(text.shown) <= cap:
        return budget.size(text.shown)
    return budget.size(text.shown[:cap])


async def _cut(text: _Text, room: int, budget: Budget, spool: Spool | None) -> None:
    job, result = text.job, text.job.reduced
    marker = truncation_marker(text.total_chars)
    if not isinstance(result, Ok):
        shown = budget.cut(text.shown, room)
        job.reduced = replace(result, error=shown + marker) if isinstance(result, Err) else result
        return
    kept = await _with_whole(job, spool)
    if budget.unit == "chars":
        kind = detect_kind(text.shown, result.structured)
        shown = preview(text.shown, room, structured=result.structured, kind=kind)
    else:
        shown = budget.cut(text.shown, room)
    if kept.artifact is not None:
        readers = [name for name in queries_of(_class_of(kept.artifact)) if name not in _NOT_WORTH_NAMING]
        marker += kept_line(job.call.tool_call_id, readers)
    job.reduced = replace(kept, value=shown + marker)


async def _with_whole(job: Job, spool: Spool | None) -> Ok:
    """Give the result with an artifact of all that the handler gave, before any reduction."""
    result, settled = job.reduced, job.settled
    if not isinstance(result, Ok) or settled is None or not isinstance(settled.result, Ok):
        raise TypeError("only a good result has a whole")
    # What a reader tool gave is a part of something that is kept already.
    if result.artifact is not None or spool is None or isinstance(job.entry.tool, ReaderTool):
        return result
    content: str | bytes = settled.result.value if settled.whole is None else settled.whole
    ctx, call_id = job.ctx, job.call.tool_call_id
    try:
        reader = await spool.write(f"{ctx.session_id}/{ctx.turn_id}/{call_id}", content, turn_id=ctx.turn_id)
        artifact: Any = _class_for(job, settled.result)(reader)
    except Exception as error:  # noqa: BLE001  a full disk costs the rest of a result, not the result
        ctx.events.warn(f"the whole result of {job.call.name!r} could not be kept", source="spool", error=error)
        return result
    return replace(result, artifact=artifact)


def _class_of(artifact: object) -> type:
    return type(artifact)


def _class_for(job: Job, result: Ok) -> type[Any]:
    chosen = job.entry.tool.artifact_constructor
    if chosen is not None:
        return chosen
    return Artifact if result.structured is None else JsonArtifact
