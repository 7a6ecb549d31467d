"""Fences around tool output: tags that show a model whether the enclosed text is trusted, and artifact handles.

The nonce in the tags is random for each render, and anything in the body that resembles such a tag is broken up, so
content can neither close its own fence nor forge another one.
"""

import re
import secrets
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, Literal, Protocol, TypeAlias, get_args

from spindle.calls import ArtifactLike, CallOutcome, Err, Ok, build_media_markers
from spindle.errors import InvalidTrustError
from spindle.json_types import is_list_or_tuple, untyped
from spindle.media import Media
from spindle.text import INVISIBLE, shorten, to_line
from spindle.trust.labels import label_of, media_label
from spindle.trust.sanitise import add_break_after, rewrite, sanitise

_LEAD: Final = "This result is kept whole and is not shown here. Read the part you need with the tools named below."
_MAX_LINE_CHARS: Final = 512
_MARK: Final = "__spindle_query__"
"""The attribute that marks an artifact method as available to the model; its `name` is the reader tool's name."""


def describe_artifact(
    address: str, artifact: object, *, byte_length: str | None = None, line_count: str | None = None
) -> str:
    """Describe an artifact without reading it; sizes are included if passed."""
    facts = {
        "call_id": address,
        "kind": type(artifact).__name__,
        "byte_length": byte_length,
        "line_count": line_count,
        "readers": ", ".join(_readers(type(artifact))) or None,
    }
    lines = (f"{name}: {_line(value)}" for name, value in facts.items() if value is not None)
    return "\n".join((_LEAD, *lines))


async def describe_artifact_with_sizes(address: str, artifact: ArtifactLike) -> str:
    """Describe an artifact with its sizes; state it in the text if the artifact can no longer be read."""
    try:
        sizes = str(await artifact.byte_length()), str(await artifact.line_count())
    except Exception as error:  # noqa: BLE001  one unreadable result must not lose the other results of the turn
        sizes = (f"unknown, it cannot be read now ({type(error).__name__})", None)
    return describe_artifact(address, artifact, byte_length=sizes[0], line_count=sizes[1])


def _readers(kind: type) -> list[str]:
    return list(dict.fromkeys(_iter_marked(kind)))


def _iter_marked(kind: type) -> Iterator[str]:
    for ancestor in reversed(kind.__mro__):
        for member in vars(ancestor).values():
            name = getattr(getattr(member, _MARK, None), "name", None)
            if isinstance(name, str):
                yield name


def _line(text: str) -> str:
    return shorten(to_line(text), _MAX_LINE_CHARS)


EnvelopeKind: TypeAlias = Literal[
    "tool-result",
    "trusted-tool-result",
    "tool-error",
    "artifact-handle",
    "retrieved-third-party-public",
    "retrieved-third-party-private",
]

MAX_ATTRIBUTE_CHARS: Final = 256
_NONCE_BYTES: Final = 8
# Hexadecimal digits as frequent letters: tokenizers split 16 of them into about 8 tokens, and digits into up to 16.
_NONCE_LETTERS: Final = str.maketrans("0123456789abcdef", "etaoinsrdlucmpgb")
_KINDS: Final[tuple[EnvelopeKind, ...]] = get_args(EnvelopeKind)
_NEVER_TRUSTED: Final = tuple(kind for kind in _KINDS if kind not in {"tool-result", "trusted-tool-result"})
_GAP: Final = rf"[\s{INVISIBLE}]*+"
# Also matches with gaps between the letters, without a separator between the words, and with `-` for `_`.
_OUR_TAG: Final = (
    rf"(<){_GAP}(?:[/\\]{_GAP})*+(?:u{_GAP}n{_GAP})?+{_GAP.join('trusted')}{_GAP}[_-]?+{_GAP}{_GAP.join('content')}"
)
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


class RecordedCall(Protocol):
    """The attributes of a call's record that rendering uses."""

    @property
    def id(self) -> str:
        """The id of the call."""
        ...

    @property
    def tool(self) -> str:
        """The name of the tool."""
        ...

    @property
    def results(self) -> object:
        """Text, an artifact, media, or a sequence of one of these kinds."""
        ...

    @property
    def is_error(self) -> bool:
        """Whether the call failed; the results are then its error text."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether the result was trusted when the call was recorded."""
        ...

    @property
    def inline(self) -> bool:
        """Whether an artifact is shown in full."""
        ...


def fence(text: str, *, trusted: bool, kind: EnvelopeKind, tool: str | None = None) -> str:
    """Enclose a text in tags that mark it as trusted or untrusted; untrusted text is sanitised first.

    Errors, handles and third-party texts are never trusted, even with `trusted=True`.

    Raises:
        InvalidTrustError: `kind` is unknown, or `text` is not a str.
    """
    return fence_with_facts(text, trusted=trusted, kind=kind, facts={} if tool is None else {"tool": tool})


def fence_with_facts(text: str, *, trusted: bool, kind: EnvelopeKind, facts: Mapping[str, str]) -> str:
    """Fence a text with further facts as attributes; their names must be trusted, their values are sanitised."""
    if kind not in _KINDS:
        raise InvalidTrustError(f"Unknown envelope kind {kind!r}. Use one of {', '.join(_KINDS)}.", field="kind")
    if not isinstance(untyped(text), str):
        raise InvalidTrustError(
            f"Expected the envelope's text as str, got {type(text).__name__}. Convert it to text.", field="text"
        )
    is_trusted = trusted is True and kind not in _NEVER_TRUSTED
    shown_kind = "tool-result" if kind == "trusted-tool-result" and not is_trusted else kind
    tag = f"{'trusted' if is_trusted else 'untrusted'}_content_{make_nonce()}"
    attributes = {"kind": shown_kind, **{name: to_one_line(value) for name, value in facts.items()}}
    written = "".join(f' {name}="{escape_attribute(value)}"' for name, value in attributes.items())
    body = break_tags(text if is_trusted else sanitise(text))
    return f"<{tag}{written}>\n{body}\n</{tag}>"


def make_nonce() -> str:
    """Return 64 random bits as 16 letters, for the names of a pair of tags."""
    return secrets.token_hex(_NONCE_BYTES).translate(_NONCE_LETTERS)


def break_tags(text: str) -> str:
    """Break up everything that resembles an opening or closing tag of any envelope."""
    return rewrite(text, _our_tag, add_break_after, needs="<")


@cache
def _our_tag() -> re.Pattern[str]:
    return re.compile(_OUR_TAG, re.IGNORECASE)  # takes 8 ms


def to_one_line(text: str, max_chars: int = MAX_ATTRIBUTE_CHARS) -> str:
    """Reduce an untrusted name to one short, sanitised line."""
    # Normalized first: a later normalization elsewhere must not produce a quotation mark.
    harmless = break_tags(sanitise(unicodedata.normalize("NFKC", text[: 4 * max_chars])))
    return shorten(to_line(harmless), max_chars)


def render_error(text: str, *, by: str | None, tool: str) -> str:
    """Render an error text: Spindle's own as plain text, sanitised because it may quote; any other fenced."""
    if by == "spindle":
        return break_tags(sanitise(text))
    return fence(text, trusted=False, kind="tool-error", tool=tool)


def render_outcome(outcome: CallOutcome) -> str:
    """Fence the outcome of a call: its result, its error, or the handle of an artifact that is not shown.

    An error that Spindle wrote is not fenced.

    Raises:
        InvalidTrustError: The outcome holds neither an `Ok` nor an `Err`.
    """
    result = outcome.result
    if isinstance(result, Err):
        return render_error(result.error, by=result.by, tool=outcome.name)
    if not isinstance(untyped(result), Ok):
        raise InvalidTrustError(f"Expected an Ok or an Err as result, got {type(result).__name__}.", field="result")
    if result.artifact is not None and not result.value:
        handle = describe_artifact(outcome.tool_call_id, result.artifact)
        return fence(handle, trusted=False, kind="artifact-handle", tool=outcome.name)
    is_trusted = label_of(result, tool_trusted=result.trusted) == "trusted"
    if result.media and result.value == build_media_markers(result.media):
        is_trusted = all(media_label(each) == "trusted" for each in result.media)
    return _fence_result(result.value, trusted=is_trusted, tool=outcome.name)


async def render_record(record: RecordedCall) -> str:
    """Fence the results of a recorded call with the trust it was recorded with.

    Media are labelled one by one; artifacts that are not `inline` are each shown by a handle.

    Raises:
        InvalidTrustError: The results are neither text nor artifacts nor media.
    """
    results = record.results
    several = is_list_or_tuple(results)
    items: Sequence[object] = tuple(results) if several else (results,)
    media = [each for each in items if isinstance(each, Media)]
    if media and len(media) == len(items):
        return "\n\n".join(_fence_media(each, record) for each in media)
    if not record.inline and any(isinstance(item, ArtifactLike) for item in items):
        addresses = [f"{record.id}#{n}" for n in range(len(items))] if several else [record.id]
        handles = [await _describe(each, address) for each, address in zip(items, addresses, strict=True)]
        return fence("\n\n".join(handles), trusted=False, kind="artifact-handle", tool=record.tool)
    return await _fence_text(items, record)


async def _describe(item: object, address: str) -> str:
    return await describe_artifact_with_sizes(address, item) if isinstance(item, ArtifactLike) else await _text_of(item)


async def _fence_text(items: Sequence[object], record: RecordedCall) -> str:
    try:
        text = "\n\n".join([await _text_of(each) for each in items])
    except InvalidTrustError:
        raise
    except Exception as error:  # noqa: BLE001  one unreadable result must not lose the other results of the turn
        lost = f"The result of {record.id} can no longer be read ({type(error).__name__})."
        return fence(lost, trusted=False, kind="tool-error", tool=record.tool)
    if record.is_error:
        return render_error(text, by=getattr(record, "by", None), tool=record.tool)
    return _fence_result(text, trusted=record.trusted, tool=record.tool)


async def _text_of(item: object) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, ArtifactLike):
        return await item.as_text()
    raise InvalidTrustError(
        f"Expected recorded results as text, artifacts or media, got {type(item).__name__}.", field="results"
    )


def _fence_media(media: Media, record: RecordedCall) -> str:
    trusted = not record.is_error and media_label(media) == "trusted"
    kind: EnvelopeKind = "trusted-tool-result" if trusted else "tool-error" if record.is_error else "tool-result"
    facts = {"tool": record.tool, "modality": media.kind, "hazard": media.modality_hazard}
    # The id may be untrusted; a line break in it could make the rest look like text of Spindle.
    marker = f"[media id: {to_one_line(media.id)} | {media.safe_filename}]"
    return fence_with_facts(marker, trusted=trusted, kind=kind, facts=facts)


def _fence_result(text: str, *, trusted: bool, tool: str) -> str:
    return fence(text, trusted=trusted, kind="trusted-tool-result" if trusted else "tool-result", tool=tool)


def escape_attribute(value: str) -> str:
    """Return a value as it is written between the quotation marks of an attribute."""
    return value.translate(_ESCAPES)
