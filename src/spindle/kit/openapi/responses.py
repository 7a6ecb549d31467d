"""Turns the response of an API into the result of a call."""

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from spindle.calls import Err, Ok
from spindle.capabilities.network.handle import Response
from spindle.json_types import JsonValue
from spindle.kit.openapi.document import is_json_type
from spindle.media import Media
from spindle.text import to_line, to_printable

DescribeNextPage: TypeAlias = Callable[[Mapping[str, str], JsonValue], str | None]
_RETRYABLE: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
_EXCERPT_CHARS: Final = 1_000


async def read_response(response: Response, describe_next: DescribeNextPage) -> Ok | Err | bytes | Media:
    """Return JSON as text and as structured data, other text as text, and anything else as bytes or media."""
    data = await response.bytes()
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status >= 300:
        return _build_error(response, data)
    if not data:
        return Ok(f"HTTP {response.status}, without a body.", structured=None)
    if media_type.startswith(("image/", "audio/")) and media_type != "image/svg+xml":
        return _build_media(data, media_type)
    text = await _decode(response, data, media_type)
    if text is None:
        return data
    value: JsonValue = None
    if is_json_type(media_type):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
    hint = describe_next(response.headers, value)
    return Ok(text if hint is None else f"{text}\n\n[{hint}]", structured=value)


async def _decode(response: Response, data: bytes, media_type: str) -> str | None:
    if "charset=" in response.headers.get("content-type", "").lower():
        return await response.text()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return await response.text() if media_type.startswith("text/") else None


def _build_media(data: bytes, media_type: str) -> Media:
    kind, _, subtype = media_type.partition("/")
    return Media.retrieved_public(
        data, kind="image" if kind == "image" else "audio", mime_type=media_type, filename=f"response.{subtype[:20]}"
    )


def _build_error(response: Response, data: bytes) -> Err:
    said = to_printable(to_line(data[: 8 * _EXCERPT_CHARS].decode("utf-8", "replace")), _EXCERPT_CHARS)
    moved = (
        f" It redirects to {to_printable(response.headers.get('location', ''), 200)}, which is not followed."
        if (response.status < 400)
        else ""
    )
    return Err(
        "execution_failed",
        f"The API answered with HTTP {response.status}.{moved}" + (f" The body says: {said}" if said.strip() else ""),
        retryable=response.status in _RETRYABLE,
    )
