"""Converts an MCP tool result into an `Ok` or `Err`: text, media and structured data, each shown once."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spindle.calls import Err, Ok
from spindle.errors import InvalidMediaError, MissingExtraError, NotCanonicalError
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.media import Media
from spindle.media.labels import UNKNOWN_MIME_TYPE, Kind, safe_mime_type
from spindle.media.mime import HEAD_BYTES, check, sniff
from spindle.text import to_printable
from spindle.tools.identity import canonical_json

if TYPE_CHECKING:
    # For types only: it takes half a second to import and is an extra.
    from mcp_types import CallToolResult, ContentBlock

_NOTHING = "(no output)"
_FAILED = "Tool returned an error"
_STRUCTURED = "\n\n--- Structured Data ---\n"
_MAX_NAME = 200
_MAX_WRAPPERS = 4
_CODE_BLOCK = re.compile(r"```\w*\n(.*?)\n?```", re.DOTALL)
_PYTHON_CONSTANTS = {"True": True, "False": False, "None": None}
"""What servers in Python send as the text of a boolean or of no value."""
_KINDS: tuple[Kind, ...] = ("image", "audio", "video")

_HINTS = ("annotations", "_meta")
_RESERVED = ("spindle/", "io.modelcontextprotocol/")
"""Prefixes of keys in a result's `_meta` that belong to the connection with its server."""

Check = Callable[[JsonValue, bool], str | None]
"""Returns the problem with structured content, or `None`; takes the content and whether it was sent."""


@dataclass
class _Parts:
    """The converted content blocks, in order."""

    lines: list[str] = field(default_factory=list[str])
    texts: list[str] = field(default_factory=list[str])
    """Only the plain text blocks, which may repeat the structured data."""
    media: list[Media] = field(default_factory=list[Media])
    links: list[JsonObject] = field(default_factory=list[JsonObject])
    blocks: "Sequence[ContentBlock]" = ()
    """The blocks as received; some servers repeat them as structured data."""
    entries: list[JsonObject] = field(default_factory=list[JsonObject])
    """The blocks for MCP clients, each with the line that it adds to the text."""

    def dump(self) -> list[JsonObject]:
        """Return the blocks as plain data, as they were on the wire."""
        return [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in self.blocks]


def to_result(result: "CallToolResult", *, check_output: Check | None = None) -> Ok | Err:
    """Convert a server's result into an `Ok` or an `Err`; malformed content never raises."""
    parts = _Parts(blocks=result.content)
    for block in result.content:
        _add(block, parts)
    structured: JsonValue = result.structured_content
    if result.is_error:
        return Err("execution_failed", _render(parts, structured) or _FAILED)
    if check_output is not None:
        problem = check_output(structured, "structured_content" in result.model_fields_set)
        if problem is not None:
            return Err("execution_failed", problem)
    text = _render(parts, structured) or _NOTHING
    if structured is None and parts.links:
        structured = {"resource_links": parts.links}
    return Ok(text, structured=structured, media=tuple(parts.media), wire=_build_wire(parts, result.meta))


def _build_wire(parts: _Parts, meta: Mapping[str, Any] | None) -> JsonObject | None:
    """Return what text and media do not express; `None` for plain texts and media without annotations."""
    wire: JsonObject = {}
    is_plain = all(entry["kind"] in {"text", "media"} and not entry["has_hints"] for entry in parts.entries)
    if not is_plain:
        wire["content"] = parts.entries
    kept = {key: value for key, value in (meta or {}).items() if not key.startswith(_RESERVED)}
    if kept:
        wire["_meta"] = kept
    return wire or None


def _render(parts: _Parts, structured: JsonValue) -> str:
    text = "\n".join(parts.lines)
    if structured is None or _repeats(parts, structured):
        return text
    data = json.dumps(structured, indent=2, ensure_ascii=False)
    return f"{text}{_STRUCTURED}{data}" if text.strip() else data


def _repeats(parts: _Parts, structured: JsonValue) -> bool:
    """Return whether the content says the same as the structured data and differs only in form."""
    forms = _unwrap(structured)
    if any(_same(parts.dump(), form) for form in forms if isinstance(form, list)):
        return True
    texts = parts.texts
    if not texts:
        return False
    parsed = [_parse_json(text) for text in texts]
    found: list[JsonValue] = ["\n".join(texts), texts, parsed[0] if len(texts) == 1 else parsed]
    return any(_same(said, form) for said in found for form in forms)


def _unwrap(structured: JsonValue) -> list[JsonValue]:
    """Return the data, and what is left of it without the objects of one member around it, such as `{"content": …}`."""
    forms = [structured]
    while is_object(structured) and len(structured) == 1 and len(forms) <= _MAX_WRAPPERS:
        (structured,) = structured.values()
        forms.append(structured)
    return forms


def _parse_json(text: str) -> JsonValue:
    fenced = _CODE_BLOCK.fullmatch(text.strip())
    bare = fenced[1] if fenced else text
    if bare in _PYTHON_CONSTANTS:
        return _PYTHON_CONSTANTS[bare]
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return text


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Return whether two values are equal as JSON, where `true` is not 1; texts may differ in line ends."""
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _normalize_lines(one) == _normalize_lines(other)
    if type(one) is not type(other) and not (isinstance(one, (int, float)) and isinstance(other, (int, float))):
        return False
    try:
        return canonical_json(one) == canonical_json(other)
    except (NotCanonicalError, RecursionError):
        return False


def _normalize_lines(text: str) -> str:
    return text.replace("\r\n", "\n").strip("\n")


def _add(block: Any, parts: _Parts) -> None:
    """Add a block to the text, and keep it as it was sent."""
    lines, media = len(parts.lines), len(parts.media)
    _add_line(block, parts)
    dumped: JsonObject = block.model_dump(mode="json", by_alias=True, exclude_none=True)
    kind = "media" if len(parts.media) > media else "text"
    if kind == "media":
        inner = dumped.get("resource")
        uri = inner["uri"] if is_object(inner) else None
        dumped = {name: dumped[name] for name in _HINTS if name in dumped}
        dumped |= {} if uri is None else {"uri": str(uri)}
    elif block.type == "resource" and hasattr(block.resource, "text"):
        kind = "resource"
    elif block.type == "resource_link":
        kind = "resource_link"
    elif block.type != "text":
        dumped = {}
    if kind == "text":
        dumped.pop("text", None)
    has_hints = "uri" in dumped or any(name in dumped for name in _HINTS)
    entry: JsonObject = {"kind": kind, "block": dumped, "line": parts.lines[lines], "has_hints": has_hints}
    parts.entries.append(entry | ({"media": media} if kind == "media" else {}))


def _add_line(block: Any, parts: _Parts) -> None:
    match block.type:
        case "text":
            parts.lines.append(block.text)
            parts.texts.append(block.text)
        case "image" | "audio":
            _add_media(block.data, block.mime_type, block.type, None, parts)
        case "resource":
            _add_resource(block.resource, parts)
        case "resource_link":
            _add_link(block, parts)
        case other:
            parts.lines.append(f"[content of an unknown type: {_to_printable(other)}]")


def _add_resource(resource: Any, parts: _Parts) -> None:
    uri = _to_printable(resource.uri)
    if hasattr(resource, "text"):
        parts.lines.append(f"[resource: {uri}]\n{resource.text}")
        return
    mime_type = safe_mime_type(resource.mime_type or UNKNOWN_MIME_TYPE)
    kind = mime_type.partition("/")[0]
    _add_media(resource.blob, mime_type, kind if kind in _KINDS else "document", uri, parts)


def _add_link(link: Any, parts: _Parts) -> None:
    known = {"uri": str(link.uri), "name": link.name, "title": link.title, "description": link.description}
    known |= {"mime_type": link.mime_type, "size": link.size}
    parts.links.append({key: value for key, value in known.items() if value is not None})
    details = [_to_printable(each) for each in (link.mime_type, link.description) if each]
    parts.lines.append(
        f"[resource link: {_to_printable(link.name)} | {' | '.join([_to_printable(link.uri), *details])}]"
    )


def _add_media(data: str, mime_type: str, kind: Kind, uri: str | None, parts: _Parts) -> None:
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        parts.lines.append(f"[{kind} that cannot be decoded: {_to_printable(mime_type)}]")
        return
    declared = safe_mime_type(mime_type)
    judged, judged_kind = _detect_type(raw, declared, kind)
    filename = _filename(uri, judged_kind, judged)
    try:
        media = Media.retrieved_public(raw, kind=judged_kind, mime_type=judged, filename=filename, source=uri or None)
    except InvalidMediaError:
        media = Media.retrieved_public(
            raw, kind="document", mime_type=UNKNOWN_MIME_TYPE, filename=filename, source=uri or None
        )
    parts.media.append(media)
    lie = "" if judged == declared else f" | declared as {declared}, but the content is {judged}"
    parts.lines.append(
        f"[media id: {media.id} | {media.safe_filename} | {media.safe_mime_type}, {len(raw)} bytes{lie}]"
    )


def _detect_type(raw: bytes, declared: str, kind: Kind) -> tuple[str, Kind]:
    """Return the MIME type and kind found in the content where they differ from the untrusted declaration."""
    try:
        found = sniff(raw[:HEAD_BYTES], is_whole=len(raw) <= HEAD_BYTES)
    except MissingExtraError:
        return declared, kind
    if check(declared, found).matches:
        return declared, kind
    judged = safe_mime_type(found or UNKNOWN_MIME_TYPE)
    top = judged.partition("/")[0]
    return judged, top if top in _KINDS else "document"


def _filename(uri: str | None, kind: str, mime_type: str) -> str:
    try:
        name = PurePosixPath(urlsplit(uri or "").path).name
    except ValueError:
        name = ""
    subtype = mime_type.partition("/")[2].partition("+")[0]
    return name or f"{kind}.{subtype.rpartition('.')[2].rpartition('-')[2] or 'bin'}"


def _to_printable(value: object) -> str:
    return to_printable(str(value), _MAX_NAME)
