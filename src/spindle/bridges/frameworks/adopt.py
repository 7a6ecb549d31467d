"""What the tools of every other framework have in common when they become ours."""

import asyncio
import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic_core import to_json

from spindle.calls import Err, Ok
from spindle.errors import InvalidToolError
from spindle.media.labels import Kind
from spindle.media.media import Media
from spindle.tools.declaration import Tool

_KINDS: tuple[Kind, ...] = ("image", "audio", "video")


def adopt(
    *,
    name: str,
    description: str | None,
    schema: Mapping[str, Any],
    handler: Callable[..., Any],
    requires_approval: bool = False,
    return_direct: bool = False,
    timeout_seconds: float | None = None,
) -> Tool:
    """Make a tool of somebody else's: its schema is enforced as written, and nothing it says is trusted.

    Raises:
        InvalidToolError: It has no name, or its schema is none.
    """
    return Tool(
        name=name,
        description=description or f"The tool {name}.",
        input_schema=json.loads(to_json(schema)),
        handler=handler,
        requires_approval=requires_approval,
        return_direct=return_direct,
        timeout_seconds=timeout_seconds,
    )


def refused(name: str, why: str) -> InvalidToolError:
    """Say why a tool of another framework cannot be one of ours."""
    return InvalidToolError(f"the tool {name!r} cannot be run here: {why}", tool=name)


def outside_asyncio(tool: str) -> Err | None:
    """Refuse a call that only asyncio can run, where another library runs the event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return Err("not_available", f"The tool {tool!r} runs on asyncio only, and this program does not.")
    return None


class ResultBuilder:
    """Gathers what a tool gave, piece by piece, into one result."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._media: list[Media] = []

    def text(self, text: str) -> None:
        """Add words."""
        self._texts.append(text)

    def json(self, value: Any) -> None:
        """Add a value, as JSON."""
        self._texts.append(to_json(value, inf_nan_mode="strings", fallback=str).decode())

    def data(self, data: bytes, mime_type: str | None, filename: str | None = None) -> None:
        """Add bytes of a kind; where they come from nobody knows, so they are guarded most."""
        family, _, subtype = (mime_type or "application/octet-stream").partition("/")
        kind: Kind = family if family in _KINDS else "document"
        name = filename or f"{kind}.{subtype.partition(';')[0] or 'bin'}"
        media = Media.retrieved_private(
            data, kind=kind, mime_type=mime_type or "application/octet-stream", filename=name
        )
        self._media.append(media)
        self._texts.append(f"[media id: {media.id} | {media.safe_filename}]")

    def base64(self, text: str, mime_type: str | None, filename: str | None = None) -> None:
        """Add bytes written as base64; what is none is told as such."""
        try:
            self.data(base64.b64decode(text, validate=True), mime_type, filename)
        except (binascii.Error, ValueError):
            self.text(f"[{mime_type or 'media'} that is no valid base64]")

    def url(self, url: str, mime_type: str | None = None) -> None:
        """Add what an address holds: its bytes if it carries them itself, otherwise only the address."""
        head, comma, body = url.partition(",")
        if head.startswith("data:") and head.endswith(";base64") and comma:
            self.base64(body, head[len("data:") : -len(";base64")] or mime_type)
        else:
            self.text(url)

    def ok(self) -> Ok:
        """Give the result."""
        return Ok("\n\n".join(self._texts), media=tuple(self._media))


def plain(value: Any) -> Any:
    """Give a value that is text or JSON as our executor takes it; what is neither becomes text."""
    if value is None or isinstance(value, (str, bytes, Ok, Err)):
        return cast("object", value)
    said = ResultBuilder()
    said.json(value)
    text = said.ok().value
    return Ok(text, structured=json.loads(text))
