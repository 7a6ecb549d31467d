"""Truncates the results of a batch to its budget and spools the full results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.forge import ReaderTool
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.queries import get_class_queries
from spindle.artifacts.spool import Spool
from spindle.calls import Err, Ok
from spindle.execution.budget import Budget, allot, first_chars, spool_note, truncation_marker
from spindle.execution.call_state import CallState
from spindle.execution.preview import detect_kind, preview
from spindle.execution.results import HandlerResult

READ_WHOLE_BYTES = 8 << 20
"""Artifacts up to this size are read completely for a structured preview; of larger ones only the beginning."""

_NOT_WORTH_NAMING = {"artifact_byte_length", "artifact_line_count", "artifact_estimate_tokens"}


async def fit_to_budget(
    jobs: Sequence[CallState], budget: Budget, spool: Spool | None, redact: Callable[[str], str] = str
) -> None:
    """Truncate results over their share, allot the room that small results leave, and spool the full results."""
    texts = [await _get_text(job, budget, redact) for job in jobs if not _is_dry_run_text(job)]
    wants = [budget.size(text.capped) for text in texts]
    keeper = _Spooler(spool)
    for text, want, room in zip(texts, wants, allot(budget.total, wants), strict=True):
        job = text.job
        if room < want or len(text.capped) < text.total_chars:
            job.reduced = await _truncate(text, room, budget, keeper)
            job.is_truncated = True
        elif isinstance(job.reduced, Ok):
            result = await keeper.spool_full(job) if job.needs_full_copy else job.reduced
            job.reduced = result if result.value == text.shown else replace(result, value=text.shown)


def fits_untruncated(job: CallState, budget: Budget, share: int) -> bool:
    """Return whether a result fits into its fair share, so that it is not truncated whatever its siblings return."""
    result = job.reduced
    if result is None or job.needs_full_copy or (isinstance(result, Ok) and result.artifact is not None):
        return False
    text, cap = result.value if isinstance(result, Ok) else result.error, _get_cap(job)
    return (cap is None or len(text) <= cap) and budget.size(text) <= share


@dataclass(frozen=True, slots=True)
class _ResultText:
    """The text of a result and its total length."""

    job: CallState
    shown: str
    """The text; for a huge artifact only its beginning."""
    total_chars: int

    @property
    def capped(self) -> str:
        """The text limited to the tool's `max_result_chars`."""
        cap = _get_cap(self.job)
        return self.shown if cap is None else first_chars(self.shown, cap)


def _get_cap(job: CallState) -> int | None:
    # A call that was rejected early has no entry.
    entry = cast("Any", job.entry)
    return None if entry is None else entry.tool.max_result_chars


def all_fit(jobs: Sequence[CallState], budget: Budget) -> bool:
    """Return quickly whether all results fit and none must be spooled, which is the common case."""
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
        cap = _get_cap(job)
        if cap is not None and length > cap:
            return False
        chars += length
    return chars <= budget.total


def _is_dry_run_text(job: CallState) -> bool:
    """Return whether the result is the built-in dry-run text, which is never truncated."""
    ctx = cast("Any", job.ctx)
    return ctx is not None and ctx.dry_run and job.entry.tool.preview is None


async def _get_text(job: CallState, budget: Budget, redact: Callable[[str], str]) -> _ResultText:
    result = job.reduced
    if isinstance(result, Ok) and isinstance(result.artifact, Artifact) and not result.value:
        try:
            return await _read(job, result.artifact, budget.max_chars, redact)
        except Exception as error:  # noqa: BLE001  a custom reader may raise anything
            text = f"The tool {job.call.name!r} returned an artifact that cannot be read."
            job.reduced = result = Err("execution_failed", text, cause=error)
    words = "" if result is None else result.value if isinstance(result, Ok) else result.error
    return _ResultText(job, words, len(words))


async def _read(job: CallState, artifact: Artifact, chars: int, redact: Callable[[str], str]) -> _ResultText:
    """Read at most as much of an artifact as can be shown; a character takes up to four bytes."""
    length = await artifact.byte_length()
    if length <= max(4 * chars, READ_WHOLE_BYTES):
        text = redact(await artifact.as_text())
        return _ResultText(job, text, len(text))
    data = await artifact.first_bytes(4 * chars + 3)
    # Redacted before it is cut: the cut could leave part of a secret.
    shown = redact(data.decode("utf-8-sig", "ignore"))[:chars]
    return _ResultText(job, shown, await artifact.char_count())


async def _truncate(text: _ResultText, room: int, budget: Budget, spooler: "_Spooler") -> Ok | Err | None:
    result, marker = text.job.reduced, truncation_marker(text.total_chars)
    if not isinstance(result, Ok):
        return result and replace(result, error=budget.cut(text.capped, room) + marker)
    kept = await spooler.spool_full(text.job)
    if kept.artifact is not None:
        readers = [name for name in get_class_queries(_class_of(kept.artifact)) if name not in _NOT_WORTH_NAMING]
        marker += spool_note(str(text.job.call.tool_call_id), readers)
    return replace(kept, value=_build_preview(text, room, budget, kept.structured) + marker)


def _build_preview(text: _ResultText, room: int, budget: Budget, structured: Any) -> str:
    plain = budget.cut(text.capped, room)
    try:
        shaped = preview(text.shown, len(plain), structured=structured, kind=detect_kind(text.shown, structured))
    except Exception:  # noqa: BLE001  fall back to plain text
        return plain
    return shaped if budget.size(shaped) <= room else plain


@dataclass(frozen=True, slots=True)
class _Spooler:
    """Spools full results, once each; duplicate calls share one artifact."""

    spool: Spool | None
    _kept: dict[int, Any] = field(default_factory=dict[int, Any])

    async def spool_full(self, job: CallState) -> Ok:
        """Return the result with an artifact of the handler's full result, before any reduction."""
        result, settled = cast("Ok", job.reduced), cast("HandlerResult", job.settled)
        # A reader tool returns a part of an artifact that is already spooled.
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
            return _get_artifact_class(job, result)(reader)
        except Exception as error:  # noqa: BLE001  a full disk must not lose the truncated result
            ctx.events.warn(f"the full result of {job.call.name!r} could not be spooled", source="spool", error=error)
            return None


def _class_of(artifact: object) -> type:
    return type(artifact)


def _get_artifact_class(job: CallState, result: Ok) -> type[Any]:
    chosen = job.entry.tool.artifact_constructor
    if chosen is not None:
        return chosen
    return JsonArtifact if detect_kind(result.value, result.structured) == "json" else Artifact
