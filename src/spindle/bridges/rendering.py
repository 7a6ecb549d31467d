"""Renders call results for a model, independent of the dialect.

Text is fenced, supported media is attached, and other media is replaced by a description.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from spindle.calls import CallOutcome, Err, ToolCallRecord, build_media_markers
from spindle.errors import UnsupportedMediaError, UsageError
from spindle.json_types import is_list_or_tuple
from spindle.media.media import Media
from spindle.trust.envelope import fence, fence_with_facts, render_error, render_outcome, render_record, to_one_line
from spindle.trust.labels import media_label

Unsupported: TypeAlias = Literal["throw", "fallback-stash", "synthetic-description"]

_DERIVED_TEXT_KEYS: Final = ("text:transcript", "text:caption", "text:description")
"""Stash keys of text that can replace unsupported media, best first."""
IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that every vision model accepts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MediaSupport:
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

    def accepts(self, media: Media) -> bool:
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
class RenderedResult:
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


async def render_result(outcome: CallOutcome, media_support: MediaSupport) -> RenderedResult:
    """Render the outcome of a call.

    Raises:
        UnsupportedMediaError: The model does not accept the media, and `media_support.unsupported` is "throw".
    """
    result = outcome.result
    if isinstance(result, Err):
        parts: list[Part] = [TextPart(render_outcome(outcome))]
    else:
        only_media = result.artifact is None and bool(result.media) and is_only_markers(result.value, result.media)
        parts = [] if only_media else [TextPart(render_outcome(outcome))]
        parts += await render_media(result.media, media_support, tool=outcome.name)
    return RenderedResult(
        tool_call_id=outcome.tool_call_id, name=outcome.name, is_error=not outcome.ok, parts=tuple(parts)
    )


async def render_recorded_result(record: ToolCallRecord, media_support: MediaSupport) -> RenderedResult:
    """Render a recorded call: the text the model was shown, and its media.

    Raises:
        UnsupportedMediaError: The model does not accept the media, and `media_support.unsupported` is "throw".
    """
    results = record.results
    several: Sequence[object] = results if is_list_or_tuple(results) else (results,)
    media = [*(each for each in several if isinstance(each, Media)), *record.media]
    parts: list[Part] = []
    if record.shown and not is_only_markers(record.shown, media):
        parts.append(TextPart(_fence_shown(record, record.shown, media)))
    elif not media:
        parts.append(TextPart(await render_record(record)))
    parts += await render_media(media, media_support, tool=record.tool)
    return RenderedResult(tool_call_id=record.id, name=record.tool, is_error=record.is_error, parts=tuple(parts))


def _fence_shown(record: ToolCallRecord, text: str, media: Iterable[Media]) -> str:
    """Fence the text the model was shown; it is trusted only if all media beside it is trusted."""
    if record.is_error:
        return render_error(text, by=record.by, tool=record.tool)
    labels = {media_label(each) for each in media}
    trusted = record.trusted and labels <= {"trusted"}
    kind = "trusted-tool-result" if trusted else "tool-result"
    return fence(text, trusted=trusted, kind=kind, tool=record.tool)


def is_only_markers(text: str, media: Iterable[Media]) -> bool:
    """Return whether a text consists only of media markers, which are rendered beside the media anyway."""
    return text in {"", build_media_markers(media)}


def render_missing_result(tool_call_id: str, name: str) -> RenderedResult:
    """Render an error for a call without a record: providers reject a conversation with an unanswered call."""
    lost = "This call was not run, or its result was removed from the record."
    text = fence(lost, trusted=False, kind="tool-error", tool=name)
    return RenderedResult(tool_call_id=tool_call_id, name=name, is_error=True, parts=(TextPart(text),))


async def render_media(media: Iterable[Media], media_support: MediaSupport, *, tool: str) -> list[Part]:
    """Render each media item as a marker, followed by its content or by a text in its place."""
    parts: list[Part] = []
    for each in media:
        parts += await _render_media_item(each, media_support, tool=tool)
    return parts


async def _render_media_item(media: Media, media_support: MediaSupport, *, tool: str) -> list[Part]:
    marker = TextPart(f"[media id: {to_one_line(media.id)} | {media.safe_filename}]")
    if media_support.accepts(media):
        native = await _read_media(media, media_support)
        if native is not None:
            return [marker, native]
    elif media_support.unsupported == "throw":
        raise UnsupportedMediaError(
            f"The model does not accept {media.safe_mime_type} ({media.safe_filename}). "
            'Allow it with MediaSupport(mime_types=...), or set MediaSupport(unsupported="fallback-stash").',
            tool=tool,
            field="media",
        )
    return [marker, TextPart(_describe_media(media, media_support, tool=tool))]


async def _read_media(media: Media, media_support: MediaSupport) -> MediaPart | None:
    """Read the content; return `None` if it is too large, unreadable, or not of its declared type."""
    try:
        length = await media.byte_length()
        if length is not None and length > media_support.max_bytes:
            return None
        data = await media.as_base64()
        is_what_it_claims = (await media.check()).matches
    except Exception:  # noqa: BLE001  unreadable media must not discard the other results
        return None
    too_large = len(data) * 3 // 4 > media_support.max_bytes
    return MediaPart(media, media.safe_mime_type, data) if is_what_it_claims and data and not too_large else None


def _describe_media(media: Media, media_support: MediaSupport, *, tool: str) -> str:
    facts = {"tool": tool, "modality": media.kind, "hazard": media.modality_hazard}
    derived = next((media.stash[key] for key in _DERIVED_TEXT_KEYS if key in media.stash), None)
    is_trusted = media_label(media) == "trusted"
    kind = "trusted-tool-result" if is_trusted else "tool-result"
    if derived is not None and media_support.unsupported != "synthetic-description":
        believed = is_trusted and derived.trust_tier == "first-party"
        return fence_with_facts(derived.value, trusted=believed, kind=kind, facts=facts)
    words = f"{media.kind} {media.safe_filename} ({media.safe_mime_type}); it cannot be shown here"
    return fence_with_facts(words, trusted=is_trusted, kind=kind, facts=facts)
