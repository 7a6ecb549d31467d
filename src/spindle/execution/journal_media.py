"""Recorded results: what the journal stores of an outcome, and its media, which is spooled and restored.

A restored result notes the media whose content could not be kept.
"""

import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias, cast

import anyio

from spindle import artifacts as lazy_artifacts
from spindle.artifacts.artifact import Artifact, await_if_needed
from spindle.artifacts.spool import Spool
from spindle.calls import Err, ErrCode, Ok, SingleMedia
from spindle.errors import SpoolError
from spindle.execution.approval import redact_reasons
from spindle.execution.call_state import AdmittedCall, CallState, JournalState, RefusedCall
from spindle.execution.cancellation import external_cancellation, reraise
from spindle.execution.failures import is_suspended
from spindle.journal.entries import FinishedCall, JournalEntry
from spindle.json_types import JsonObject, JsonValue, is_array, is_large, is_object
from spindle.media.labels import safe_filename, safe_mime_type
from spindle.media.media import Media
from spindle.tools.arguments import build_redactor
from spindle.tools.declaration import Tool
from spindle.trust.labels import read_label

MAX_KEPT_BYTES: Final = 64 << 20
"""Larger media is described but not spooled."""
KEEP_SECONDS: Final = 10.0
"""Maximum time for spooling the media of a batch."""
MEASURE_SECONDS: Final = 1.0
"""Maximum time if media is only measured."""

Warn: TypeAlias = Callable[[str, BaseException], None]


async def keep_media(state: AdmittedCall, journaled: JournalState, spool: Spool | None, warn: Warn) -> None:
    """Spool the media of a call that has ended, and describe it for the journal."""
    media = _get_media(state)
    # First without reading it: this is recorded if reading does not come to its end.
    journaled.media = [_describe_unread(state, each) for each in media]
    # A read-only call runs again, so its recorded result is never returned.
    place = None if state.entry.tool.read_only else spool
    deadline = anyio.current_time() + (MEASURE_SECONDS if place is None else KEEP_SECONDS)
    for number, each in enumerate(media):
        journaled.media[number] = await _describe(state, each, place, deadline, warn)


async def restore_media(
    described: object, spool: Spool | None, warn: Warn
) -> tuple[tuple[Media, ...], list[Mapping[str, JsonValue]]]:
    """Return the media that can still be read, and the descriptions of lost media."""
    found: list[Media] = []
    lost: list[Mapping[str, JsonValue]] = []
    for each in described if is_array(described) else ():
        item: JsonObject = each if is_object(each) else {}
        try:
            media = await _reopen(item, spool)
        except Exception as error:  # noqa: BLE001  the rest of the result is still returned
            warn("media of a recorded result could not be read from the spool", error)
            media = None
        if media is None:
            lost.append(item)
        else:
            found.append(media)
    return tuple(found), lost


async def restore_result(entry: JournalEntry, tool: Tool | None, spool: Spool | None, warn: Warn) -> Ok | Err:
    """Rebuild the result that was recorded before; `tool` is the one that was called, if it is still there."""
    record = entry.result or {}
    if entry.code is not None:
        code = cast("ErrCode", entry.code)
        by = "spindle" if record.get("by") == "spindle" else "tool"
        return Err(code, entry.error or "", record.get("field"), bool(record.get("retryable")), by=by)
    media, lost = await restore_media(record.get("media"), spool, warn)
    own_class = None if tool is None else tool.artifact_constructor
    artifact = await _restore_artifact(entry, own_class, spool, warn)
    is_lost = artifact is None and bool(record.get("is_partial"))
    return Ok(
        record.get("value", "") + format_lost_media(lost) + (LOST_ARTIFACT if is_lost else ""),
        media=SingleMedia(media) if record.get("is_single_media") and media else media,
        structured=record.get("structured"),
        wire=record.get("wire"),
        artifact=artifact,
        cost_usd=record.get("cost_usd"),
        trusted=entry.trusted,
        label=read_label(record.get("label"), trusted=entry.trusted),
    )


async def _restore_artifact(entry: JournalEntry, own_class: Any, spool: Spool | None, warn: Warn) -> Any:
    kind: Any = own_class or (lazy_artifacts.JsonArtifact if (entry.result or {}).get("is_json") else Artifact)
    try:
        reader = None if spool is None or entry.artifact_id is None else await spool.read(entry.artifact_id)
        return None if reader is None else kind(reader)
    except Exception as error:  # noqa: BLE001  the recorded text is still returned
        warn(f"the full result of {entry.tool!r} could not be read from the spool", error)
        return None


def build_interrupted(tool: str) -> Err:
    """Build the result of a call that a crash interrupted and that must not run again."""
    text = (
        f"The call of {tool!r} was interrupted by a crash, so it is unknown whether it took effect. "
        "It was not run again: find out first."
    )
    return Err("interrupted", text, by="spindle")


LOST_ARTIFACT = "\n[the full result of this call was not kept; only the text above is left]"
"""Appended to a recorded text whose artifact is gone."""


def format_lost_media(lost: Sequence[Mapping[str, JsonValue]]) -> str:
    """Return the lines that name lost media, to append to the text."""
    return "".join(f"\n[media of this answer was not kept: {_format_description(each)}]" for each in lost)


def _get_media(state: AdmittedCall) -> tuple[Media, ...]:
    return state.reduced.media if isinstance(state.reduced, Ok) else ()


async def _describe(state: AdmittedCall, media: Media, spool: Spool | None, deadline: float, warn: Warn) -> JsonObject:
    place, length = f"{state.spool_id}/media/{media.id}", None
    is_kept = False
    text = f"media of {state.call.name!r} could not be spooled"
    with anyio.CancelScope(deadline=deadline) as scope:
        try:
            length = await media.byte_length()
            if spool is not None and (length or 0) <= MAX_KEPT_BYTES:
                await spool.write(place, _read_bounded(media), turn_id=state.ctx.turn_id)
                is_kept = True
        except BaseException as error:  # noqa: BLE001  a custom media reader may raise anything
            ending = external_cancellation(error, scope)
            warn(text, error if ending is None else TimeoutError("reading the media took too long"))
            if ending is not None:
                await reraise(ending)
    return {**_describe_unread(state, media), "byte_length": length, "kept": place if is_kept else None}


def _describe_unread(state: AdmittedCall, media: Media) -> JsonObject:
    return {**_build_labels(state, media), "byte_length": None, "kept": None}


def _list_media(state: AdmittedCall, result: Ok) -> list[JsonObject]:
    """Describe the media of a result; media that a reducer added was not read."""
    journaled = state.journal_state
    known = {each["id"]: each for each in (journaled.media if journaled is not None else None) or ()}
    return [known.get(each.id) or _describe_unread(state, each) for each in result.media]


def _build_labels(state: AdmittedCall, media: Media) -> JsonObject:
    """Describe media as JSON; redact the fields that may contain secrets."""
    labels: JsonObject = {**media.to_dict(), "filename": state.ctx.redact(media.filename)}
    if media.source is not None:
        labels["source"] = state.ctx.redact(media.source)
    if media.stash:
        made = {name: asdict(entry) for name, entry in media.stash.items()}
        labels["stash"] = {name: {**entry, "value": state.ctx.redact(entry["value"])} for name, entry in made.items()}
    return labels


async def _read_bounded(media: Media) -> AsyncGenerator[bytes]:
    left = MAX_KEPT_BYTES
    async with aclosing(media.stream()) as chunks:
        async for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                raise SpoolError(f"Media {media.safe_filename} exceeds {MAX_KEPT_BYTES} bytes.")
            yield chunk


async def _reopen(description: Mapping[str, JsonValue], spool: Spool | None) -> Media | None:
    place = description.get("kept")
    reader = None if spool is None or not isinstance(place, str) else await spool.read(place)
    if reader is None:
        return None
    length = description.get("byte_length")
    if length is not None and await await_if_needed(reader.byte_length()) != length:
        return None  # the spool entry was overwritten
    labels: JsonObject = {name: value for name, value in description.items() if name not in {"byte_length", "kept"}}
    return Media.from_reader(reader, **labels)


def _format_description(description: Mapping[str, JsonValue]) -> str:
    length = description.get("byte_length")
    size = f"{length} bytes" if isinstance(length, int) else "size unknown"
    name, kind = (
        safe_filename(str(description.get("filename") or "unnamed")),
        safe_mime_type(str(description.get("mime_type"))),
    )
    return f"{description.get('kind') or 'media'} {name!r}, {kind}, {size}"


class OutcomeTimes(NamedTuple):
    """The same instant on several clocks."""

    now: datetime
    ticks: float
    """As a value of `time.perf_counter()`."""
    loop_time: float | None = None
    """On the clock of the event loop; `None` if nothing was recorded of the batch."""


def build_outcome(state: CallState, key: str, clock: OutcomeTimes, *, text_only: bool = False) -> FinishedCall:
    """Build the journal outcome of a call from the result that is returned."""
    now, ticks, _ = clock
    result = state.reduced
    ended_at = now - timedelta(seconds=ticks - state.started - state.duration_ms / 1000)
    attempts = state.attempts or _count_earlier_attempts(state)
    if isinstance(state, RefusedCall) or not isinstance(result, Ok):
        err = result if isinstance(result, Err) else Err("execution_failed", "")
        return FinishedCall(
            idempotency_key=key,
            ended_at=ended_at,
            attempts=0 if is_suspended(err) else attempts,  # without attempts, the call may begin again
            code=err.code,
            error=err.error,
            result=_add_trace(
                {"field": err.field, "retryable": err.retryable, "by": err.by} | _serialize_flow(state), state, clock
            ),
            result_chars=len(err.error),
        )
    # An artifact that the handler returned is not in the executor's spool.
    is_kept = result.artifact is not None and result.artifact is not _get_handler_artifact(state)
    return FinishedCall(
        idempotency_key=key,
        ended_at=ended_at,
        attempts=attempts,
        result=_add_trace(_serialize_ok(result, state, is_spooled=is_kept, text_only=text_only), state, clock),
        result_chars=len(result.value),
        cost_usd=result.cost_usd,
        trusted=result.trusted,
        artifact_id=state.spool_id if is_kept else None,
    )


def _serialize_ok(result: Ok, state: AdmittedCall, *, is_spooled: bool, text_only: bool) -> JsonObject:
    # A tool may repeat its secret arguments; the caller may see them, the journal must not.
    secrets = build_redactor(state.arguments, state.entry.tool.secret_fields)
    content: JsonObject = {"value": secrets.redact(result.value)} | _serialize_flow(state)
    if result.label is not None and result.label != read_label(None, trusted=result.trusted):
        content["label"] = result.label
    if result.structured is not None and not text_only and not is_large(result.structured):
        content["structured"] = secrets.redact_value(result.structured)
    if result.wire is not None and not text_only and not is_large(result.wire):
        content["wire"] = secrets.redact_value(result.wire)
    if result.cost_usd is not None:
        content["cost_usd"] = result.cost_usd
    if is_spooled:
        content["is_json"] = isinstance(result.artifact, lazy_artifacts.JsonArtifact)
    has_own_text = state.handled is not None and state.handled.has_text
    if result.artifact is not None and (state.is_truncated or (has_own_text and not is_spooled)):
        content["is_partial"] = True
    if result.media:
        content |= {"media": _list_media(state, result), "is_single_media": isinstance(result.media, SingleMedia)}
    return content


def _serialize_flow(state: CallState) -> JsonObject:
    if not isinstance(state, AdmittedCall) or state.flow_facts is None:
        return {}
    return {"flow": state.flow_facts | {"asked": state.needs_approval, "reasons": list(redact_reasons(state))}}


def _add_trace(content: JsonObject, state: CallState, clock: OutcomeTimes) -> JsonObject:
    """Add what was recorded of the call to what is written of its outcome."""
    trace, now = state.trace, clock.loop_time
    if trace is None or now is None:
        return content
    if not isinstance(state, AdmittedCall):
        trace.write(content, now, None, math.inf)
    elif trace.write(content, now, state.ctx.result_budget_chars, state.deadline):
        secrets = build_redactor(state.arguments, state.entry.tool.secret_fields)
        trace.write_rest(content, lambda text: state.ctx.redact(secrets.redact(text)))
    if state.is_truncated:
        content["timing"] += " truncated"
    return content


def _count_earlier_attempts(state: CallState) -> int:
    """Return 1 for a reconciled call, which ran in the crashed process, else 0."""
    return 1 if state.journal_state is not None and state.journal_state.interrupted_entry is not None else 0


def _get_handler_artifact(state: AdmittedCall) -> object:
    result = None if state.handled is None else state.handled.result
    return result.artifact if isinstance(result, Ok) else None
