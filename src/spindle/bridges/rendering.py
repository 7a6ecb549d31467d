"""Renders call results for a model, independent of the dialect.

Text is fenced, supported media is attached, and other media is replaced by a description.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from spindle.calls import CallOutcome, Err, ToolCallRecord
from spindle.errors import UnsupportedMediaError, UsageError
from spindle.media.media import Media
from spindle.trust.envelope import enclose, fence, one_line, render_outcome, render_record
from spindle.trust.labels import media_label

Unsupported: TypeAlias = Literal["throw", "fallback-stash", "synthetic-description"]

_DERIVED: Final = ("text:transcript", "text:caption", "text:description")
"""Stash keys of text that can replace unsupported media, best first."""
IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that every vision model accepts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sees:
    """Which media types a model accepts, and what happens to other media.

    Raises:
        UsageError: `unsupported` is not one of the three modes.
    """

    mime_types: frozenset[str] = IMAGES
    max_bytes: int = 20_000_000
    """Larger media is described instead of sent."""
    unsupported: Unsupported = "throw"
    """`fallback-stash` shows text derived from the media, or a description if there is none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mime_types", frozenset(self.mime_types))
        if self.unsupported not in get_args(Unsupported):
            raise UsageError(
                f"Expected unsupported to be one of {', '.join(get_args(Unsupported))}, got {self.unsupported!r}.",
                field="unsupported",
            )

    def takes(self, media: Media) -> bool:
        """Return whether the model accepts this media."""
        return media.safe_mime_type in self.mime_types


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text for the model."""

    text: str


@dataclass(frozen=True, slots=True)
class MediaPart:
    """Media sent to the model."""

    media: Media
    mime_type: str
    base64: str = field(repr=False)


Part: TypeAlias = TextPart | MediaPart


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The rendered result of one call, independent of the dialect."""

    tool_call_id: str
    name: str
    is_error: bool
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All text parts, in order."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """All media parts, in order."""
        return tuple(part for part in self.parts if isinstance(part, MediaPart))


async def answer_of(outcome: CallOutcome, sees: Sees) -> Answer:
    """Render the outcome of a call.

    Raises:
        UnsupportedMediaError: The model does not accept the media, and `sees.unsupported` is "throw".
    """
    result = outcome.result
    if isinstance(result, Err):
        parts: list[Part] = [TextPart(render_outcome(outcome))]
    else:
        only_media = result.artifact is None and bool(result.media) and only_names(result.value, result.media)
        parts = [] if only_media else [TextPart(render_outcome(outcome))]
        parts += await media_parts(result.media, sees, tool=outcome.name, trusted=result.trusted)
    return Answer(tool_call_id=outcome.tool_call_id, name=outcome.name, is_error=not outcome.ok, parts=tuple(parts))


async def answer_of_record(record: ToolCallRecord, sees: Sees) -> Answer:
    """Render a recorded call: the text the model was shown, and its media.

    Raises:
        UnsupportedMediaError: The model does not accept the media, and `sees.unsupported` is "throw".
    """
    results: object = record.results
    several = cast("Sequence[object]", results) if isinstance(results, tuple) else (results,)
    media = [each for each in several if isinstance(each, Media)]
    parts: list[Part] = []
    if record.shown and not only_names(record.shown, media):
        parts.append(TextPart(_shown(record, record.shown, media)))
    elif not media:
        parts.append(TextPart(await render_record(record)))
    parts += await media_parts(media, sees, tool=record.tool, trusted=record.trusted)
    return Answer(tool_call_id=record.id, name=record.tool, is_error=record.is_error, parts=tuple(parts))


def _shown(record: ToolCallRecord, text: str, media: Iterable[Media]) -> str:
    """Fence the text the model was shown; it is trusted only if all media beside it is trusted."""
    labels = {media_label(each, tool_trusted=record.trusted) for each in media}
    trusted = record.trusted and not record.is_error and labels <= {"trusted"}
    kind = "tool-error" if record.is_error else "trusted-tool-result" if trusted else "tool-result"
    return fence(text, trusted=trusted, kind=kind, tool=record.tool)


def only_names(text: str, media: Iterable[Media]) -> bool:
    """Return whether a text consists only of media markers, which are rendered beside the media anyway."""
    return text in {"", "\n".join(f"[media id: {each.id} | {each.safe_filename}]" for each in media)}


def unanswered(tool_call_id: str, name: str) -> Answer:
    """Render an error for a call without a record: providers reject a conversation with an unanswered call."""
    lost = "This call was not run, or its result was removed from the record."
    text = fence(lost, trusted=False, kind="tool-error", tool=name)
    return Answer(tool_call_id=tool_call_id, name=name, is_error=True, parts=(TextPart(text),))


async def media_parts(media: Iterable[Any], sees: Sees, *, tool: str, trusted: bool) -> list[Part]:
    """Render each media item as a marker, followed by its content or by a text in its place."""
    parts: list[Part] = []
    for each in media:
        parts += await _media(each, sees, tool=tool, trusted=trusted)
    return parts


async def _media(media: Media, sees: Sees, *, tool: str, trusted: bool) -> list[Part]:
    marker = TextPart(f"[media id: {one_line(media.id)} | {media.safe_filename}]")
    if sees.takes(media):
        native = await _native(media, sees)
        if native is not None:
            return [marker, native]
    elif sees.unsupported == "throw":
        raise UnsupportedMediaError(
            f"The model does not accept {media.safe_mime_type} ({media.safe_filename}). "
            'Allow it with Sees(mime_types=...), or set Sees(unsupported="fallback-stash").',
            tool=tool,
            field="media",
        )
    return [marker, TextPart(_described(media, sees, tool=tool, trusted=trusted))]


async def _native(media: Media, sees: Sees) -> MediaPart | None:
    """Read the content; return `None` if it is too large, unreadable, or not of its declared type."""
    try:
        length = await media.byte_length()
        if length is not None and length > sees.max_bytes:
            return None
        data = await media.as_base64()
        is_what_it_claims = (await media.check()).matches
    except Exception:  # noqa: BLE001  unreadable media must not discard the other results
        return None
    too_large = len(data) * 3 // 4 > sees.max_bytes
    return MediaPart(media, media.safe_mime_type, data) if is_what_it_claims and data and not too_large else None


def _described(media: Media, sees: Sees, *, tool: str, trusted: bool) -> str:
    facts = {"tool": tool, "modality": media.kind, "hazard": media.modality_hazard}
    derived = next((media.stash[key] for key in _DERIVED if key in media.stash), None)
    is_trusted = media_label(media, tool_trusted=trusted) == "trusted"
    kind = "trusted-tool-result" if is_trusted else "tool-result"
    if derived is not None and sees.unsupported != "synthetic-description":
        believed = is_trusted and derived.trust_tier == "first-party"
        return enclose(derived.value, trusted=believed, kind=kind, facts=facts)
    words = f"{media.kind} {media.safe_filename} ({media.safe_mime_type}); it cannot be shown here"
    return enclose(words, trusted=is_trusted, kind=kind, facts=facts)
