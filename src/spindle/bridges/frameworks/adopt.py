"""Shared code for turning tools of other frameworks into Spindle tools."""

import asyncio
import base64
import binascii
import json
from collections.abc import Callable, Mapping

from pydantic_core import to_json

from spindle.calls import Err, Ok
from spindle.errors import InvalidToolError
from spindle.json_types import JsonObject
from spindle.media.labels import Kind
from spindle.media.media import Media
from spindle.tools.declaration import Tool
from spindle.tools.schema.role_paths import remove_roles
from spindle.trust.flow.roles import Role

_KINDS: tuple[Kind, ...] = ("image", "audio", "video")


def adopt(
    *,
    name: str,
    description: str | None,
    schema: JsonObject,
    handler: Callable[..., object],
    requires_approval: bool = False,
    return_direct: bool = False,
    timeout_seconds: float | None = None,
    roles: Mapping[str, Role] | None = None,
) -> Tool:
    """Return a Spindle tool for a foreign one: its schema is enforced as written, and its results are untrusted.

    Raises:
        InvalidToolError: It has no name, or its schema is not valid.
    """
    described: JsonObject = json.loads(to_json(schema))
    remove_roles(described)  # a framework made it from annotated types; a server may have written it, so none counts
    return Tool(
        name=name,
        description=description or f"The tool {name}.",
        input_schema=described,
        handler=handler,
        requires_approval=requires_approval,
        return_direct=return_direct,
        timeout_seconds=timeout_seconds,
        roles=roles,
    )


def build_adoption_error(name: str, why: str) -> InvalidToolError:
    """Return the error for a foreign tool that cannot be used."""
    return InvalidToolError(f"Tool {name!r} cannot be adopted: {why}.", tool=name)


def check_asyncio(tool: str) -> Err | None:
    """Return an error for a call that requires asyncio if another library runs the event loop; otherwise `None`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return Err("not_available", f"Tool {tool!r} requires asyncio, and this program runs another event loop.")
    return None


class ResultBuilder:
    """Collects the parts of a tool's output into one result."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._media: list[Media] = []

    def add_text(self, text: str) -> None:
        """Append text."""
        self._texts.append(text)

    def add_json(self, value: object) -> None:
        """Append a value as JSON."""
        self._texts.append(to_json(value, inf_nan_mode="strings", fallback=str).decode())

    def add_data(self, data: bytes, mime_type: str | None, filename: str | None = None) -> None:
        """Append bytes as media; their origin is unknown, so they get the most restrictive trust tier."""
        family, _, subtype = (mime_type or "application/octet-stream").partition("/")
        kind: Kind = family if family in _KINDS else "document"
        name = filename or f"{kind}.{subtype.partition(';')[0] or 'bin'}"
        media = Media.retrieved_private(
            data, kind=kind, mime_type=mime_type or "application/octet-stream", filename=name
        )
        self._media.append(media)
        self._texts.append(f"[media id: {media.id} | {media.safe_filename}]")

    def add_base64(self, text: str, mime_type: str | None, filename: str | None = None) -> None:
        """Append base64-encoded bytes; invalid base64 is reported as text."""
        try:
            self.add_data(base64.b64decode(text, validate=True), mime_type, filename)
        except (binascii.Error, ValueError):
            self.add_text(f"[{mime_type or 'media'} with invalid base64]")

    def add_url(self, url: str, mime_type: str | None = None) -> None:
        """Append the content of a data URL as media; any other URL is appended as text."""
        head, comma, body = url.partition(",")
        if head.startswith("data:") and head.endswith(";base64") and comma:
            self.add_base64(body, head[len("data:") : -len(";base64")] or mime_type)
        else:
            self.add_text(url)

    def build(self) -> Ok:
        """Return the result."""
        return Ok("\n\n".join(self._texts), media=tuple(self._media))


def to_result(value: object) -> str | bytes | Ok | Err | None:
    """Return a value in a form the executor accepts: text unchanged, everything else as JSON."""
    if value is None or isinstance(value, (str, bytes, Ok, Err)):
        return value
    builder = ResultBuilder()
    builder.add_json(value)
    text = builder.build().value
    return Ok(text, structured=json.loads(text))
