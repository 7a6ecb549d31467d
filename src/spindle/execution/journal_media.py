"""Media of recorded results: spooled, described in the journal, and restored with the recorded result.

A restored result notes the media whose content could not be kept.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, Final, TypeAlias, cast

import anyio

from spindle.artifacts.artifact import await_if_needed
from spindle.artifacts.spool import Spool
from spindle.calls import Ok
from spindle.errors import SpoolError
from spindle.execution.call_state import CallState
from spindle.media.labels import safe_filename, safe_mime_type
from spindle.media.media import Media

MAX_KEPT_BYTES: Final = 64 << 20
"""Larger media is described but not spooled."""
KEEP_SECONDS: Final = 10.0
"""Maximum time for spooling the media of a batch."""
MEASURE_SECONDS: Final = 1.0
"""Maximum time if media is only measured."""

Warn: TypeAlias = Callable[[str, BaseException], None]


async def spool_media(jobs: Sequence[CallState], spool: Spool | None, warn: Warn) -> None:
    """Spool the media of calls that are about to be recorded and store their descriptions."""
    owed = [
        job for job in jobs if job.journal_state is not None and job.journal_state.media is None and _get_media(job)
    ]
    seconds = KEEP_SECONDS if spool is not None else MEASURE_SECONDS
    deadline = anyio.current_time() + seconds if owed else 0
    for job in owed:
        # A read-only call runs again, so its recorded result is never returned.
        place = None if job.entry.tool.read_only else spool
        described = [await _describe(job, media, place, deadline, warn) for media in _get_media(job)]
        cast("Any", job.journal_state).media = described


async def restore_media(
    described: object, spool: Spool | None, warn: Warn
) -> tuple[tuple[Media, ...], list[Mapping[str, Any]]]:
    """Return the media that can still be read, and the descriptions of lost media."""
    found: list[Media] = []
    lost: list[Mapping[str, Any]] = []
    for each in cast("list[object]", described) if isinstance(described, list) else []:
        told: Mapping[str, Any] = cast("Mapping[str, Any]", each) if isinstance(each, Mapping) else {}
        try:
            media = await _reopen(told, spool)
        except Exception as error:  # noqa: BLE001  the rest of the result is still returned
            warn("media of a recorded result could not be read from the spool", error)
            media = None
        if media is None:
            lost.append(told)
        else:
            found.append(media)
    return tuple(found), lost


def format_lost_media(lost: Sequence[Mapping[str, Any]]) -> str:
    """Return the lines that name lost media, to append to the text."""
    return "".join(f"\n[media of this answer was not kept: {_format_description(each)}]" for each in lost)


def _get_media(job: CallState) -> tuple[Any, ...]:
    return job.reduced.media if isinstance(job.reduced, Ok) else ()


async def _describe(job: CallState, media: Media, spool: Spool | None, deadline: float, warn: Warn) -> dict[str, Any]:
    place, length = f"{job.spool_id}/media/{media.id}", None
    is_kept = False
    with anyio.CancelScope(deadline=deadline) as scope:
        try:
            length = await media.byte_length()
            if spool is not None and (length or 0) <= MAX_KEPT_BYTES:
                await spool.write(place, _read_bounded(media), turn_id=job.ctx.turn_id)
                is_kept = True
        except Exception as error:  # noqa: BLE001  a custom media reader may raise anything
            warn(f"media of {job.call.name!r} could not be spooled", error)
    if scope.cancelled_caught:
        warn(f"media of {job.call.name!r} could not be spooled", TimeoutError("reading the media took too long"))
    return {**_build_labels(job, media), "byte_length": length, "kept": place if is_kept else None}


def _build_labels(job: CallState, media: Media) -> dict[str, Any]:
    """Describe media as JSON; redact the fields that may contain secrets."""
    labels: dict[str, Any] = {**media.to_dict(), "filename": job.ctx.redact(media.filename)}
    if media.source is not None:
        labels["source"] = job.ctx.redact(media.source)
    if media.stash:
        made = {name: asdict(entry) for name, entry in media.stash.items()}
        labels["stash"] = {name: {**entry, "value": job.ctx.redact(entry["value"])} for name, entry in made.items()}
    return labels


async def _read_bounded(media: Media) -> AsyncGenerator[bytes]:
    left = MAX_KEPT_BYTES
    async with aclosing(media.stream()) as chunks:
        async for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                raise SpoolError(f"Media {media.safe_filename} exceeds {MAX_KEPT_BYTES} bytes.")
            yield chunk


async def _reopen(description: Mapping[str, Any], spool: Spool | None) -> Media | None:
    place = description.get("kept")
    reader = None if spool is None or not isinstance(place, str) else await spool.read(place)
    if reader is None:
        return None
    length = description.get("byte_length")
    if length is not None and await await_if_needed(reader.byte_length()) != length:
        return None  # the spool entry was overwritten
    labels: dict[str, Any] = {name: value for name, value in description.items() if name not in {"byte_length", "kept"}}
    return Media.from_reader(reader, **labels)


def _format_description(description: Mapping[str, Any]) -> str:
    length = description.get("byte_length")
    size = f"{length} bytes" if isinstance(length, int) else "size unknown"
    name, kind = (
        safe_filename(str(description.get("filename") or "unnamed")),
        safe_mime_type(str(description.get("mime_type"))),
    )
    return f"{description.get('kind') or 'media'} {name!r}, {kind}, {size}"
