"""Truncates the results of a batch to its budget and spools the full results."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol, cast

import anyio

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.queries import get_class_queries
from spindle.artifacts.readers import SpoolReader
from spindle.artifacts.spool import Spool
from spindle.artifacts.table_artifact import TableArtifact
from spindle.calls import Err, Ok, build_media_markers
from spindle.capabilities.secrets.secret import Redactor
from spindle.concurrency import spool_threads, start_background
from spindle.errors import MissingExtraError
from spindle.execution.budget import Budget, allot, first_chars, spool_note, truncation_marker
from spindle.execution.call_state import AdmittedCall, CallState, RefusedCall
from spindle.execution.cancellation import external_cancellation, reraise
from spindle.execution.preview import detect_kind, preview
from spindle.execution.results import HandlerResult
from spindle.json_types import JsonValue
from spindle.text import new_id
from spindle.trust.sanitise import break_markers

READ_WHOLE_BYTES = 8 << 20
"""Artifacts up to this size are read completely for a structured preview; of larger ones only the beginning."""

_LONG_CHARS = 1 << 18
_NOT_WORTH_NAMING = {"artifact_byte_length", "artifact_line_count", "artifact_estimate_tokens"}


class Warn(Protocol):
    """Reports a problem that does not change the results."""

    def __call__(self, message: str, *, error: BaseException | None = None) -> object:
        """Emit a `warning` event."""
        ...


class BudgetFit:
    """Truncates the results of a batch that are over their share, and spools the full results.

    The room that small results leave is allotted to the others. A run that is late or fails is followed by one without
    a spool, which leaves the results alone that are already fitted.
    """

    __slots__ = ("_budget", "_fitted", "_is_late", "_jobs", "_redact", "_texts")

    def __init__(self, states: Sequence[CallState], budget: Budget, redact: Callable[[str], str]) -> None:
        self._jobs = [state for state in states if not _is_dry_run_text(state)]
        self._budget = budget
        self._redact = redact
        self._texts: dict[CallState, _ResultText] = {}
        self._fitted: set[CallState] = set()
        self._is_late = False

    async def run_in_time(self, spool: Spool | None, caller: Any, *, deadline: float, warn: Warn) -> None:
        """Fit the results into the budget; what is not spooled at the deadline is spooled in the background."""
        fitting = start_background(partial(self._run, spool), caller=caller, name="spindle-spool")
        if fitting is None:
            return
        with anyio.CancelScope(deadline=deadline):
            await fitting.wait()
        if fitting.is_done and fitting.error is None:
            return
        self._is_late = True
        if fitting.error is None:
            warn("full results are still being written to the spool")
        else:
            warn("the results could not be fitted with their full copies", error=fitting.error)
        await self._run_late()

    async def _run(self, spool: Spool | None) -> None:
        for state in self._jobs:
            self._texts[state] = await _get_text(state, self._budget, self._redact)
        spooler = _Spooler(spool)
        for text, room in self._allot():
            result = await self._fit(text, room, spooler)
            if self._is_late:  # it is spooled, but answered already
                continue
            self._fitted.add(text.state)
            self._store(text, room, result)

    async def _run_late(self) -> None:
        """Fit what is not fitted yet, without a spool and without reading an artifact: its reader may hang."""
        for state in self._jobs:
            if state not in self._texts:
                self._texts[state] = await _get_text(state, self._budget, self._redact, can_read=False)
        spooler = _Spooler(None, can_read=False)
        for text, room in self._allot():
            if text.state not in self._fitted:
                self._store(text, room, await self._fit(text, room, spooler))

    def _allot(self) -> list[tuple["_ResultText", int]]:
        texts = list(self._texts.values())
        return list(zip(texts, allot(self._budget.total, [self._want(text) for text in texts]), strict=True))

    def _want(self, text: "_ResultText") -> int:
        return self._budget.size(text.capped)

    def _is_cut(self, text: "_ResultText", room: int) -> bool:
        return room < self._want(text) or len(text.capped) < text.total_chars

    async def _fit(self, text: "_ResultText", room: int, spooler: "_Spooler") -> Ok | Err | None:
        state, result = text.state, text.state.reduced
        if self._is_cut(text, room):
            return await _truncate(text, room, self._budget, spooler)
        if isinstance(result, Ok) and isinstance(state, AdmittedCall):
            kept = await spooler.spool_full(state, result) if state.needs_full_copy else result
            return kept if kept.value == text.shown else replace(kept, value=text.shown)
        if isinstance(result, Err) and result.error != text.shown:
            return replace(result, error=text.shown)
        return result

    def _store(self, text: "_ResultText", room: int, result: Ok | Err | None) -> None:
        text.state.reduced = result
        if self._is_cut(text, room):
            text.state.is_truncated = True


@dataclass(frozen=True, slots=True)
class _ResultText:
    """The text of a result and its total length."""

    state: CallState
    shown: str
    """The text; for a huge artifact only its beginning."""
    total_chars: int

    @property
    def capped(self) -> str:
        """The text limited to the tool's `max_result_chars`."""
        cap = self.state.max_chars
        return self.shown if cap is None else first_chars(self.shown, cap)


async def _reraise_external(error: BaseException) -> None:
    ending = external_cancellation(error)
    if ending is not None:
        await reraise(ending)


def _is_dry_run_text(state: CallState) -> bool:
    """Return whether the result is the built-in dry-run text, which is never truncated."""
    return isinstance(state, AdmittedCall) and state.ctx.dry_run and state.entry.tool.preview is None


async def _get_text(
    state: CallState, budget: Budget, redact: Callable[[str], str], *, can_read: bool = True
) -> _ResultText:
    result = state.reduced
    if isinstance(result, Ok) and isinstance(result.artifact, Artifact) and not result.value:
        handled = state.handled
        if handled is None or handled.result is not result or handled.artifact_text is None:
            # A reducer returned it: it was not read with the call.
            if not can_read and handled is not None and handled.result is not result:
                state.reduced = handled.result
                return await _get_text(state, budget, redact, can_read=False)
            handled = await read_returned_artifact(HandlerResult(result), state, budget, redact)
        if handled.artifact_text is not None:
            shown, total_chars = handled.artifact_text
            return _ResultText(state, _break_short(shown, budget), total_chars)
        state.reduced = result = handled.result
    words = "" if result is None else result.value if isinstance(result, Ok) else result.error
    is_own = isinstance(result, Err) and result.by == "spindle"
    return _ResultText(state, words if is_own else _break_short(words, budget), len(words))


def _break_short(text: str, budget: Budget) -> str:
    """Break up forged notes in a text that may be shown whole; of a longer one, only the preview is searched."""
    return break_markers(text) if len(text) <= budget.max_chars else text


async def read_returned_artifact(
    handled: HandlerResult, state: CallState, budget: Budget, redact: Callable[[str], str]
) -> HandlerResult:
    """Read what is shown of a returned artifact; one that cannot be read fails the call."""
    result = handled.result
    if not isinstance(result, Ok) or not isinstance(result.artifact, Artifact) or result.value:
        return handled
    try:
        return handled._replace(artifact_text=await _read(result.artifact, budget.max_chars, redact))
    except BaseException as error:  # noqa: BLE001  a custom reader may raise anything
        await _reraise_external(error)
        text = f"The tool {state.call.name!r} returned an artifact that cannot be read."
        return HandlerResult(Err("execution_failed", text, cause=error, by="spindle"))


async def _read(artifact: Artifact, chars: int, redact: Callable[[str], str]) -> tuple[str, int]:
    """Read at most as much of an artifact as can be shown; a character takes up to four bytes."""
    length = await artifact.byte_length()
    if length <= max(4 * chars, READ_WHOLE_BYTES):
        text = redact(await artifact.as_text())
        return text, len(text)
    data = await artifact.first_bytes(4 * chars + 3)
    # Redacted before it is cut: the cut could leave part of a secret.
    shown = redact(data.decode("utf-8-sig", "ignore"))[:chars]
    return shown, await artifact.char_count()


async def _truncate(text: _ResultText, room: int, budget: Budget, spooler: "_Spooler") -> Ok | Err | None:
    state, marker = text.state, truncation_marker(text.total_chars)
    if isinstance(state.reduced, Err):
        return replace(state.reduced, error=budget.cut(break_markers(budget.cut(text.capped, room)), room) + marker)
    if state.reduced is None or isinstance(state, RefusedCall):
        return state.reduced
    kept = await spooler.spool_full(state, state.reduced)
    cut = budget.cut
    if kept.artifact is not None:
        cut = budget.cut_preview
        readers = [name for name in get_class_queries(_class_of(kept.artifact)) if name not in _NOT_WORTH_NAMING]
        marker += spool_note(str(state.call.tool_call_id), readers)
    if len(text.shown) > _LONG_CHARS:  # parsing it would hold up the event loop
        shown = await spool_threads.run(_build_preview, text, room, cut, kept.structured)
    else:
        shown = _build_preview(text, room, cut, kept.structured)
    return replace(kept, value=shown + marker)


def _build_preview(text: _ResultText, room: int, cut: Callable[[str, int], str], structured: JsonValue) -> str:
    plain = cut(break_markers(cut(text.capped, room)), room)
    try:
        shaped = preview(text.shown, len(plain), structured=structured, kind=detect_kind(text.shown, structured))
    except Exception:  # noqa: BLE001  fall back to plain text
        return plain
    shaped = break_markers(shaped)
    return shaped if cut(shaped, room) == shaped else plain


@dataclass(frozen=True, slots=True)
class _Spooler:
    """Spools full results, once each; duplicate calls share one artifact."""

    spool: Spool | None
    can_read: bool = True
    """Whether content is parsed to find out if it is valid for the tool's own artifact class."""
    _kept: dict[int, Artifact | None] = field(default_factory=dict[int, "Artifact | None"])

    async def spool_full(self, state: AdmittedCall, result: Ok) -> Ok:
        """Return the result with an artifact of the handler's full result, before any reduction."""
        handled = state.handled
        # A reader tool returns a part of an artifact that is already spooled.
        if result.artifact is not None or state.entry.tool.is_artifact_reader:
            return result
        if self.spool is None and not state.has_artifact_class:
            return result
        if handled is None or isinstance(handled.result, Err) or _has_only_media(handled.result):
            return result
        artifact = self._kept.get(id(handled))
        if artifact is None:
            content = handled.result.value if handled.full_bytes is None else handled.full_bytes
            artifact = self._kept[id(handled)] = await self._write(state, handled.result, content)
        return result if artifact is None else replace(result, artifact=artifact)

    async def _write(self, state: AdmittedCall, result: Ok, content: str | bytes) -> Artifact | None:
        ctx = state.ctx
        try:
            if self.spool is None:
                reader = Artifact.from_bytes(content if isinstance(content, bytes) else content.encode()).reader
            else:
                reader = await self.spool.write(state.spool_id, content, turn_id=ctx.turn_id)
            return await _build_artifact(state, result, reader, can_read=self.can_read)
        except BaseException as error:  # noqa: BLE001  a full disk must not lose the truncated result
            await _reraise_external(error)
            state.warn(f"the full result of {state.call.name!r} could not be spooled", source="spool", error=error)
            return None


def _has_only_media(result: Ok) -> bool:
    """Return whether the text only stands for the media, which are the full result."""
    return bool(result.media) and result.value == build_media_markers(result.media)


def _class_of(artifact: object) -> type:
    return type(artifact)


async def _build_artifact(state: AdmittedCall, result: Ok, reader: SpoolReader, *, can_read: bool) -> Artifact:
    """Build the artifact of a result; content that the tool's own class cannot parse becomes a plain `Artifact`."""
    chosen: Any = state.entry.tool.artifact_constructor  # the protocol has no constructor
    if chosen is None:
        return JsonArtifact(reader) if detect_kind(result.value, result.structured) == "json" else Artifact(reader)
    try:
        artifact = chosen(reader)
        if can_read and await reader.byte_length() <= READ_WHOLE_BYTES:
            if isinstance(artifact, JsonArtifact):
                await artifact.json_type()
            elif isinstance(artifact, TableArtifact):
                await artifact.columns()
    except MissingExtraError:
        return chosen(reader)
    except BaseException as error:  # noqa: BLE001  a custom class may raise anything
        await _reraise_external(error)
        name = getattr(chosen, "__name__", "artifact_constructor")
        state.warn(f"the result of {state.call.name!r} is not valid for {name}", source="artifact", error=error)
        return Artifact(reader)
    return artifact


MAX_ARTIFACT_BYTES: Final = 8 << 20
"""Artifacts up to this size are read at once to find secrets; larger ones are read and rewritten in pieces."""


async def redact_artifact(
    handled: HandlerResult, redactor: Redactor, spool: Spool | None, turn_id: str | None
) -> HandlerResult:
    """Return the result with secrets redacted in its artifact; a large one is written anew, to the spool if any."""
    result = handled.result
    if not redactor or not isinstance(result, Ok) or not isinstance(result.artifact, Artifact):
        return handled
    artifact = result.artifact
    try:
        if await artifact.byte_length() > MAX_ARTIFACT_BYTES:
            reader = await _rewrite(artifact, redactor, spool, turn_id)
        else:
            data = await artifact.as_bytes()
            clean = redactor.redact_bytes(data)
            reader = None if clean is data else Artifact.from_bytes(clean).reader
    except Exception:  # noqa: BLE001  a custom reader may raise anything; reported when it is shown
        return handled
    if reader is None:
        return handled
    return handled._replace(result=replace(result, artifact=_rebuild_artifact(artifact, reader)), artifact_text=None)


async def _rewrite(
    artifact: Artifact, redactor: Redactor, spool: Spool | None, turn_id: str | None
) -> SpoolReader | None:
    """Return a reader of a large artifact without its secrets, or `None` if it has none."""
    if not await _has_secret(artifact, redactor):
        return None
    async with aclosing(_mask_pieces(artifact, redactor)) as pieces:
        if spool is None:
            return Artifact.from_bytes(b"".join([piece async for piece in pieces])).reader
        return await spool.write(f"redacted-{new_id()}", pieces, turn_id=turn_id)


async def _has_secret(artifact: Artifact, redactor: Redactor) -> bool:
    masked = redactor.mask_stream()
    async with aclosing(_read_pieces(artifact)) as pieces:
        async for piece in pieces:
            await spool_threads.run(partial(masked.feed, piece))
            if masked.has_masked:
                return True
    await spool_threads.run(masked.close)
    return masked.has_masked


async def _mask_pieces(artifact: Artifact, redactor: Redactor) -> AsyncGenerator[bytes]:
    masked = redactor.mask_stream()
    async with aclosing(_read_pieces(artifact)) as pieces:
        async for piece in pieces:
            yield await spool_threads.run(partial(masked.feed, piece))
    yield await spool_threads.run(masked.close)


async def _read_pieces(artifact: Artifact) -> AsyncGenerator[bytes]:
    chunks = getattr(artifact.reader, "chunks", None)
    if not callable(chunks):
        yield await artifact.as_bytes()
        return
    async with aclosing(cast("Any", chunks)()) as pieces:
        async for piece in pieces:
            yield piece


def _rebuild_artifact(artifact: Artifact, reader: SpoolReader) -> Artifact:
    try:
        return artifact.over(reader)
    except Exception:  # noqa: BLE001  a custom artifact class may raise anything
        return Artifact(reader)
