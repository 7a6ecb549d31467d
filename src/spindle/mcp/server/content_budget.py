"""Fits the contents of resources and prompts into the budget; a long one is shown in part and kept as an artifact."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final, TypeAlias

import mcp_types as types
from mcp.shared.exceptions import MCPError

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.queries import get_class_queries
from spindle.artifacts.spool import Spool
from spindle.calls import CallOutcome, Ok
from spindle.errors import SpindleError
from spindle.execution.budget import Budget, allot, first_chars, spool_note, truncation_marker
from spindle.json_types import JsonObject
from spindle.mcp.server.sessions import McpSession
from spindle.trust.sanitise import break_markers

MAX_WHOLE_BYTES: Final = 5_000_000
"""Blobs and resources of apps up to this size are sent whole."""
ARTIFACT_KEY: Final = "spindle/artifact"
"""The key of `_meta` with the id under which the artifact readers find the whole content."""
_NOT_NAMED: Final = frozenset(("artifact_byte_length", "artifact_line_count", "artifact_estimate_tokens"))

Keep: TypeAlias = Callable[[McpSession, CallOutcome], Awaitable[None]]
Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents


@dataclass(frozen=True, slots=True)
class _Shortened:
    """What is shown of a content, and where the whole is kept."""

    text: str
    artifact_id: str | None

    def build_meta(self, meta: JsonObject | None, mime_type: str | None) -> JsonObject:
        added: JsonObject = {} if self.artifact_id is None else {ARTIFACT_KEY: self.artifact_id}
        if mime_type is not None:
            added["spindle/mimeType"] = mime_type
        return {**(meta or {}), "spindle/truncated": True, **added}


class ContentBudget:
    """Fits contents into a budget; `keep` makes an artifact readable for its client."""

    def __init__(self, budget: Budget, spool: Spool, keep: Keep) -> None:
        self._budget, self._spool, self._keep = budget, spool, keep

    async def fit_contents(
        self, contents: Sequence[Contents], session: McpSession, *, max_chars: int | None, is_app: bool = False
    ) -> list[Contents]:
        """Fit the contents of a resource; those of an app, by the URI that was asked for, are sent whole.

        Raises:
            MCPError: A resource of an app is too large.
        """
        if is_app:
            return [_check_app(each) for each in contents]
        rooms = self._allot([_get_resource_text(each) for each in contents], max_chars)
        return [await self._fit_one(each, session, room, max_chars) for each, room in zip(contents, rooms, strict=True)]

    async def fit_messages(
        self, messages: Sequence[types.PromptMessage], session: McpSession, *, max_chars: int | None
    ) -> list[types.PromptMessage]:
        """Fit the messages of a prompt."""
        rooms = self._allot([_get_text(each.content) for each in messages], max_chars)
        fitted: list[types.PromptMessage] = []
        for message, room in zip(messages, rooms, strict=True):
            block: Any = message.content
            if isinstance(block, types.TextContent):
                short = await self._shorten(block.text, session, room, max_chars)
                if short is not None:
                    meta = short.build_meta(block.meta, None)
                    block = block.model_copy(update={"text": short.text, "meta": meta})
            elif isinstance(block, types.EmbeddedResource):
                inner = await self._fit_one(block.resource, session, room, max_chars)
                block = block.model_copy(update={"resource": inner})
            fitted.append(message.model_copy(update={"content": block}))
        return fitted

    def _allot(self, texts: Sequence[str], max_chars: int | None) -> list[int]:
        wants = [self._budget.size(text if max_chars is None else first_chars(text, max_chars)) for text in texts]
        return allot(self._budget.total, wants)

    async def _fit_one(self, contents: Contents, session: McpSession, room: int, max_chars: int | None) -> Contents:
        if isinstance(contents, types.TextResourceContents):
            short = await self._shorten(contents.text, session, room, max_chars, is_json=_is_json(contents))
            text = None if short is None else short.text
        else:
            short = await self._store_blob(contents, session)
            text = None if short is None else short.text
        if short is None or text is None:
            return contents
        meta = short.build_meta(contents.meta, contents.mime_type)
        return types.TextResourceContents(uri=contents.uri, mime_type="text/plain", text=text, _meta=meta)

    async def _shorten(
        self, text: str, session: McpSession, room: int, max_chars: int | None, *, is_json: bool = False
    ) -> _Shortened | None:
        """Return what is shown of a text that is too long; `None` if it fits."""
        capped = text if max_chars is None else first_chars(text, max_chars)
        if len(capped) == len(text) and self._budget.size(text) <= room:
            return None
        marker = truncation_marker(len(text))
        kind = JsonArtifact if is_json else Artifact
        call_id = await self._store(text, session, kind)
        if call_id is not None:
            marker += _note(call_id, kind)
        shown = self._budget.cut_preview(break_markers(self._budget.cut_preview(capped, room)), room)
        return _Shortened(shown + marker, call_id)

    async def _store_blob(self, contents: types.BlobResourceContents, session: McpSession) -> _Shortened | None:
        if len(contents.blob) * 3 // 4 <= MAX_WHOLE_BYTES:
            return None
        try:
            data = base64.b64decode(contents.blob, validate=True)
        except (binascii.Error, ValueError):
            data = b""
        call_id = await self._store(data, session, Artifact)
        text = f"[{contents.mime_type or 'binary content'} of {len(data)} bytes, which is too large to be sent]"
        return _Shortened(text if call_id is None else text + _note(call_id, Artifact), call_id)

    async def _store(self, content: str | bytes, session: McpSession, kind: type[Artifact]) -> str | None:
        """Spool a content whole, for the client's artifact readers; return its id, or `None` if that failed."""
        call_id = f"c_{token_hex(8)}"
        session.unanswered.add(call_id)
        try:
            reader = await self._spool.write(f"{session.key}/{call_id}/{call_id}", content, turn_id=call_id)
            await self._keep(session, CallOutcome(call_id, "read_resource", "", Ok("", artifact=kind(reader))))
        except SpindleError:  # a full disk must not lose what is shown
            return None
        finally:
            session.unanswered.discard(call_id)
        return call_id


def _get_text(block: Any) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    return _get_resource_text(block.resource) if isinstance(block, types.EmbeddedResource) else ""


def _get_resource_text(contents: Contents) -> str:
    return contents.text if isinstance(contents, types.TextResourceContents) else ""


def _is_json(contents: Contents) -> bool:
    mime_type = (contents.mime_type or "").partition(";")[0].strip().lower()
    return mime_type == "application/json" or mime_type.endswith("+json")


def _check_app(contents: Contents) -> Contents:
    size = len(contents.text if isinstance(contents, types.TextResourceContents) else contents.blob)
    if size > MAX_WHOLE_BYTES:
        text = f"The resource of an app is larger than {MAX_WHOLE_BYTES} characters, which is the limit."
        raise MCPError(types.INTERNAL_ERROR, text, {"uri": contents.uri})
    return contents


def _note(call_id: str, kind: type[Artifact]) -> str:
    return spool_note(call_id, [name for name in get_class_queries(kind) if name not in _NOT_NAMED])
