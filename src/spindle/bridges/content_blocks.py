"""The content blocks of an upstream MCP server as clients receive them: in order, with annotations, text fenced.

`to_result` of the MCP client keeps the blocks of a server in `Ok.wire`, each with the line that it added to the text.
They are used only while that text is unchanged: a text that was cut, reduced or changed otherwise is shown instead.
"""

import json
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from spindle.bridges.rendering import MediaPart, MediaSupport, TextPart, render_media
from spindle.bridges.structured_content import map_strings
from spindle.calls import CallOutcome, Ok
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.trust.envelope import fence
from spindle.trust.labels import label_of
from spindle.trust.sanitise import break_markers, sanitise

MAX_EXTRA_CHARS: Final = 50_000
"""Limit of what is sent beside the text, such as links and a result's `_meta`, where the call has no budget."""
MAX_HINT_CHARS: Final = 10_000
"""Limit of the annotations and metadata of one block."""
_RESERVED: Final = ("spindle/", "io.modelcontextprotocol/")
_UI: Final = "ui:"
_HINTS: Final = ("annotations", "_meta")


async def render_blocks(outcome: CallOutcome, media_support: MediaSupport, *, fenced: bool) -> list[JsonObject] | None:
    """Return the blocks of an outcome as its server sent them; `None` if they are not known or not shown whole."""
    result = outcome.result
    entries = _get_entries(result) if isinstance(result, Ok) else None
    if not isinstance(result, Ok) or entries is None or result.artifact is not None:
        return None
    rest = _find_rest(result.value, entries)
    if rest is None:
        return None
    writer = _BlockWriter(outcome, result, media_support, fenced=fenced)
    for entry in entries:
        await writer.add(entry)
    if rest.strip():
        writer.add_text(rest.lstrip("\n"), {})
    return writer.finish()


def find_links(outcome: CallOutcome, *, fenced: bool, max_chars: int | None) -> list[JsonObject]:
    """Return the resource links of a result whose text was cut or changed; its text names them, too."""
    result = outcome.result
    entries = _get_entries(result) if isinstance(result, Ok) else None
    links = [_harmless(entry["block"], fenced=fenced) for entry in entries or () if entry["kind"] == "resource_link"]
    found = [each for each in links if each is not None]
    limit = MAX_EXTRA_CHARS if max_chars is None else max_chars
    return found if found and len(json.dumps(found)) <= limit else []


def get_result_meta(outcome: CallOutcome, *, fenced: bool, max_chars: int | None) -> JsonObject:
    """Return the `_meta` of an upstream server's result; empty if it is larger than the budget."""
    result = outcome.result
    wire = result.wire if isinstance(result, Ok) else None
    meta = None if wire is None else wire.get("_meta")
    if not is_object(meta) or len(json.dumps(meta)) > (MAX_EXTRA_CHARS if max_chars is None else max_chars):
        return {}
    is_clean = not fenced or (isinstance(result, Ok) and result.trusted)
    try:
        shown = meta if is_clean else map_strings(meta, sanitise)
    except ValueError:
        return {}
    # Again: a hidden character may have kept a key from being recognised.
    return {key: value for key, value in shown.items() if not key.startswith(_RESERVED)}


def _get_entries(result: Ok) -> list[JsonObject] | None:
    content = None if result.wire is None else result.wire.get("content")
    return [each for each in content if is_object(each)] if is_array(content) else None


def _find_rest(value: str, entries: Sequence[JsonObject]) -> str | None:
    """Return what follows the lines of the blocks in a result's text; `None` if the text is another one."""
    lines = "\n".join(str(entry["line"]) for entry in entries)
    for text in (lines, break_markers(lines)):
        if value.startswith(text):
            return value[len(text) :]
    return None


class _BlockWriter:
    """Writes blocks; texts without annotations that follow each other become one."""

    def __init__(self, outcome: CallOutcome, result: Ok, media_support: MediaSupport, *, fenced: bool) -> None:
        self._outcome, self._result, self._media_support, self._fenced = outcome, result, media_support, fenced
        self._trusted = label_of(result, tool_trusted=result.trusted) == "trusted"
        self._blocks: list[JsonObject] = []
        self._plain: list[str] = []

    async def add(self, entry: JsonObject) -> None:
        """Add one block."""
        block, kind = entry["block"], entry["kind"]
        hints = self._clean_hints(block)
        if kind == "text":
            self.add_text(str(entry["line"]), hints)
        elif kind == "media":
            await self._add_media(int(entry["media"]), block, hints)
        elif kind == "resource":
            self._add_resource(block["resource"], str(entry["line"]), hints)
        else:
            shown = _harmless(block, fenced=self._fenced and not self._trusted)
            if shown is None:
                self.add_text(str(entry["line"]), {})
            else:
                self._flush()
                self._blocks.append(shown)

    def _add_resource(self, resource: JsonObject, line: str, hints: JsonObject) -> None:
        """Add a text resource; only its text, if its address cannot be shown."""
        shown = self._clean_about({name: value for name, value in resource.items() if name not in {"text", "_meta"}})
        if shown is None:
            self.add_text(line, hints)
            return
        self._flush()
        own = self._clean_hints(resource)
        text = self._fence(str(resource["text"]))
        self._blocks.append({"type": "resource", "resource": {**shown, "text": text, **own}, **hints})

    def _clean_about(self, about: JsonObject) -> JsonObject | None:
        """Return the address and type of a resource; `None` if they would have to change."""
        if not self._is_cleaned:
            return about
        shown = _harmless(about, fenced=True)
        if shown is not None and str(shown.get("uri", ""))[: len(_UI)].lower() == _UI and "mimeType" in shown:
            # A host must not run it as an app: only pages that are read as resources are limited to their server.
            shown = {**shown, "mimeType": "text/plain"}
        return shown

    @property
    def _is_cleaned(self) -> bool:
        return self._fenced and not self._trusted

    def _clean_hints(self, block: JsonObject) -> JsonObject:
        """Return the annotations and metadata of a block, sanitised and bounded, without keys that only we set."""
        found = {name: block[name] for name in _HINTS if is_object(block.get(name))}
        if "_meta" in found:
            found["_meta"] = {key: each for key, each in found["_meta"].items() if not key.startswith(_RESERVED[0])}
        try:
            if len(json.dumps(found)) > MAX_HINT_CHARS:
                return {}
            clean = map_strings(found, sanitise) if self._is_cleaned else found
        except (ValueError, RecursionError):
            return {}
        if "_meta" in clean:
            clean["_meta"] = {key: each for key, each in clean["_meta"].items() if not key.startswith(_RESERVED[0])}
        return {name: each for name, each in clean.items() if each}

    def add_text(self, text: str, hints: JsonObject) -> None:
        """Add a text."""
        if hints or not self._fenced:
            self._flush()
            self._blocks.append({"type": "text", "text": self._fence(text), **hints})
        else:
            self._plain.append(text)

    def finish(self) -> list[JsonObject]:
        """Return all blocks."""
        self._flush()
        return self._blocks

    async def _add_media(self, place: int, block: JsonObject, hints: JsonObject) -> None:
        self._flush()
        if place >= len(self._result.media):
            return
        for part in await render_media([self._result.media[place]], self._media_support, tool=self._outcome.name):
            if isinstance(part, TextPart):
                self._blocks.append({"type": "text", "text": part.text})
            else:
                self._blocks.append({**self._write_media(part, block.get("uri")), **hints})

    def _write_media(self, part: MediaPart, uri: JsonValue) -> JsonObject:
        kind = part.mime_type.split("/")[0]
        if kind in {"image", "audio"} and uri is None:
            return {"type": kind, "data": part.base64, "mimeType": part.mime_type}
        about = self._clean_about({"uri": uri, "mimeType": part.mime_type})
        if about is None:
            about = {"uri": quote(str(uri), safe="/:?#@&=+,;%"), "mimeType": part.mime_type}
        return {"type": "resource", "resource": {**about, "blob": part.base64}}

    def _flush(self) -> None:
        if self._plain:
            text, self._plain = "\n".join(self._plain), []
            self._blocks.append({"type": "text", "text": self._fence(text)})

    def _fence(self, text: str) -> str:
        text = break_markers(text)
        if not self._fenced:
            return text
        kind = "trusted-tool-result" if self._trusted else "tool-result"
        return fence(text, trusted=self._trusted, kind=kind, tool=self._outcome.name)


def _harmless(link: JsonObject, *, fenced: bool) -> JsonObject | None:
    """Return a link with sanitised texts; `None` if its address would have to change."""
    if not fenced:
        return link
    uri = str(link.get("uri", ""))
    if sanitise(uri) != uri or not uri.isprintable():
        return None
    try:
        return map_strings(link, sanitise)
    except ValueError:
        return None
