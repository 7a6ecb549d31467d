"""Keeps a batch's results inside its budget, and what does not fit whole in the spool."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.forge import ReaderTool
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.queries import queries_of
from spindle.artifacts.spool import Spool
from spindle.calls import Err, Ok
from spindle.execution.budget import Budget, allot, first_chars, kept_line, truncation_marker
from spindle.execution.call_state import CallState
from spindle.execution.preview import detect_kind, preview
from spindle.execution.results import HandlerResult

READ_WHOLE_BYTES = 8 << 20
"""An artifact up to this size is read whole, so that its shape can be shown; of a larger one only the beginning."""

_NOT_WORTH_NAMING = {"artifact_byte_length", "artifact_line_count", "artifact_estimate_tokens"}


async def fit_to_budget(
    jobs: Sequence[CallState], budget: Budget, spool: Spool | None, redact: Callable[[str], str] = str
) -> None:
    """Cut what is over its share, share the room small results leave, and keep the whole of all that is cut."""
    texts = [await _text_of(job, budget, redact) for job in jobs if not _is_foretold(job)]
    wants = [budget.size(text.most) for text in texts]
    keeper = _Spooler(spool)
    for text, want, room in zip(texts, wants, allot(budget.total, wants), strict=True):
        job = text.job
        if room < want or len(text.most) < text.total_chars:
            job.reduced = await _cut(text, room, budget, keeper)
            job.is_trimmed = True
        elif isinstance(job.reduced, Ok):
            result = await keeper.spool_full(job) if job.needs_full_copy else job.reduced
            job.reduced = result if result.value == text.shown else replace(result, value=text.shown)


def fits_untruncated(job: CallState, budget: Budget, share: int) -> bool:
    """Whether a result is known to be shown as it is, whatever its siblings give: it fits into its fair share."""
    result = job.reduced
    if result is None or job.needs_full_copy or (isinstance(result, Ok) and result.artifact is not None):
        return False
    text, cap = result.value if isinstance(result, Ok) else result.error, _cap(job)
    return (cap is None or len(text) <= cap) and budget.size(text) <= share


@dataclass(frozen=True, slots=True)
class _Text:
    """What a job's result says, and how much of it there is."""

    job: CallState
    shown: str
    """The text; of a huge artifact its beginning."""
    total_chars: int

    @property
    def most(self) -> str:
        """As much as the tool itself lets through."""
        cap = _cap(self.job)
        return self.shown if cap is None else first_chars(self.shown, cap)


def _cap(job: CallState) -> int | None:
    # A call that was refused early has no tool.
    entry = cast("Any", job.entry)
    return None if entry is None else entry.tool.max_result_chars


def all_fit(jobs: Sequence[CallState], budget: Budget) -> bool:
    """Tell the common case at a glance: a few short texts, and nothing that must be kept."""
    if budget.tokens is not None:
        return False
    chars = 0
    for job in jobs:
        result = job.reduced
        if isinstance(result, Ok):
            if result.artifact is not None or job.needs_full_copy:
                return False
            length = len(result.value)
        else:
            length = 0 if result is None else len(result.error)
        cap = _cap(job)
        if cap is not None and length > cap:
            return False
        chars += length
    return chars <= budget.total


def _is_foretold(job: CallState) -> bool:
    """Whether this is our own short sentence about a call that was not made; it is told as it is."""
    ctx = cast("Any", job.ctx)
    return ctx is not None and ctx.dry_run and job.entry.tool.preview is None


async def _text_of(job: CallState, budget: Budget, redact: Callable[[str], str]) -> _Text:
    result = job.reduced
    if isinstance(result, Ok) and isinstance(result.artifact, Artifact) and not result.value:
        try:
            return await _read(job, result.artifact, budget.most_chars, redact)
        except Exception as error:  # noqa: BLE001  a reader may be anyone's
            text = f"The tool {job.call.name!r} gave an artifact that cannot be read."
            job.reduced = result = Err("execution_failed", text, cause=error)
    words = "" if result is None else result.value if isinstance(result, Ok) else result.error
    return _Text(job, words, len(words))


async def _read(job: CallState, artifact: Artifact, chars: int, redact: Callable[[str], str]) -> _Text:
    """Read no more of an artifact than could be shown; a character takes up to four bytes."""
    length = await artifact.byte_length()
    if length <= max(4 * chars, READ_WHOLE_BYTES):
        text = redact(await artifact.as_text())
        return _Text(job, text, len(text))
    data = await artifact.first_bytes(4 * chars + 3)
    # Masked before it is cut, or the cut might leave the beginning of a secret.
    shown = redact(data.decode("utf-8-sig", "ignore"))[:chars]
    return _Text(job, shown, await artifact.char_count())


async def _cut(text: _Text, room: int, budget: Budget, keeper: "_Spooler") -> Ok | Err | None:
    result, marker = text.job.reduced, truncation_marker(text.total_chars)
    if not isinstance(result, Ok):
        return result and replace(result, error=budget.cut(text.most, room) + marker)
    kept = await keeper.spool_full(text.job)
    if kept.artifact is not None:
        readers = [name for name in queries_of(_class_of(kept.artifact)) if name not in _NOT_WORTH_NAMING]
        marker += kept_line(str(text.job.call.tool_call_id), readers)
    return replace(kept, value=_shown(text, room, budget, kept.structured) + marker)


def _shown(text: _Text, room: int, budget: Budget, structured: Any) -> str:
    plain = budget.cut(text.most, room)
    try:
        shaped = preview(text.shown, len(plain), structured=structured, kind=detect_kind(text.shown, structured))
    except Exception:  # noqa: BLE001  a value that cannot be shown in its shape is shown as text
        return plain
    return shaped if budget.size(shaped) <= room else plain


@dataclass(frozen=True, slots=True)
class _Spooler:
    """Keeps whole results, once each: equal calls share theirs."""

    spool: Spool | None
    _kept: dict[int, Any] = field(default_factory=dict[int, Any])

    async def spool_full(self, job: CallState) -> Ok:
        """Give the result with an artifact of all that the handler gave, before any reduction."""
        result, settled = cast("Ok", job.reduced), cast("HandlerResult", job.settled)
        # What a reader tool gave is a part of something that is kept already.
        if result.artifact is not None or self.spool is None or isinstance(job.entry.tool, ReaderTool):
            return result
        artifact = self._kept.get(id(settled))
        if artifact is None:
            artifact = self._kept[id(settled)] = await self._write(job, settled, self.spool)
        return result if artifact is None else replace(result, artifact=artifact)

    async def _write(self, job: CallState, settled: HandlerResult, spool: Spool) -> Any:
        ctx, result = job.ctx, cast("Ok", settled.result)
        content: str | bytes = result.value if settled.full_bytes is None else settled.full_bytes
        try:
            reader = await spool.write(job.spool_id, content, turn_id=ctx.turn_id)
            return _class_for(job, result)(reader)
        except Exception as error:  # noqa: BLE001  a full disk costs the rest of a result, not the result
            ctx.events.warn(f"the whole result of {job.call.name!r} could not be kept", source="spool", error=error)
            return None


def _class_of(artifact: object) -> type:
    return type(artifact)


def _class_for(job: CallState, result: Ok) -> type[Any]:
    chosen = job.entry.tool.artifact_constructor
    if chosen is not None:
        return chosen
    return JsonArtifact if detect_kind(result.value, result.structured) == "json" else Artifact
