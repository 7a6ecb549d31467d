"""Where the context of a model went: how much of it each kind of content fills, as far as the turn knows it.

A provider adds a little around each part, and a callback of one's own may show less. Tokens are estimated.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from spindle.artifacts.tokens import estimate_from_text
from spindle.calls import ToolCallRecord
from spindle.json_types import JsonObject, is_mapping
from spindle.tools.filters import find_refusing_rule
from spindle.turns.record_list import RecordCursor
from spindle.turns.record_types import Message, Retrievable

if TYPE_CHECKING:
    from spindle.turns.context import DispatchContext
    from spindle.turns.record_list import TurnRecords
    from spindle.turns.story import ContextKind

_MAX_COUNTED_CHARS = 1 << 20
"""Of one text; the tokens of the rest are extrapolated."""
_MAX_PARTS = 40
"""Further tools are counted together."""

_Key: TypeAlias = "tuple[ContextKind, str | None]"


@dataclass(frozen=True, slots=True)
class _Size:
    chars: int = 0
    tokens: int = 0
    count: int = 0

    def add(self, other: "_Size") -> "_Size":
        return _Size(self.chars + other.chars, self.tokens + other.tokens, self.count + other.count)


class ContextMeter:
    """Measures the context of one turn; records are read once, when they are new."""

    def __init__(self, records: "TurnRecords") -> None:
        self._records = records
        self._messages, self._calls = RecordCursor(records.message), RecordCursor(records.tool_call)
        self._found = RecordCursor(records.retrievable)
        self._sizes: dict[_Key, _Size] = defaultdict(_Size)

    def measure(self, ctx: "DispatchContext") -> list[JsonObject]:
        """Return what fills the context now, the largest part first."""
        sizes = self._read_records()
        if ctx.system_prompt:
            sizes["system_prompt", None] = _measure(ctx.system_prompt)
        for each in ctx.turn.records.memory:
            sizes["memories", None] = sizes.get(("memories", None), _Size()).add(_measure(each.content))
        if (definitions := _measure_definitions(ctx)).count:
            sizes["tool_definitions", None] = definitions
        return _join_small(sizes)

    def _read_records(self) -> dict[_Key, _Size]:
        messages, calls, found = self._messages.read(), self._calls.read(), self._found.read()
        new: list[object] = [*messages[1], *calls[1], *found[1]]
        if messages[0] or calls[0] or found[0]:  # earlier records were changed or deleted
            self._sizes = defaultdict(_Size)
            new = [*self._records.message, *self._records.tool_call, *self._records.retrievable]
        for each in new:
            self._add(each)
        return dict(self._sizes)

    def _add(self, record: object) -> None:
        if isinstance(record, ToolCallRecord):
            self._put(("calls", record.tool), _measure(_write_json(record.args)))
            self._put(("results", record.tool), _measure_result(record))
        elif isinstance(record, Retrievable):
            shown = record.content if isinstance(record.content, str) else ""
            self._put(("retrieved", None), _measure(shown))
        else:
            role, text = read_message(record)
            kind: ContextKind = "assistant" if role == "assistant" else "system_prompt" if role == "system" else "user"
            self._put((kind, None), _measure(text))

    def _put(self, key: _Key, size: _Size) -> None:
        self._sizes[key] = self._sizes[key].add(size)


def read_message(message: object) -> tuple[str, str]:
    """Return the role and the text of a message of a conversation, whatever its shape is."""
    if isinstance(message, Message):
        return message.role, message.content
    if isinstance(message, str):
        return "user", message
    if not is_mapping(message):
        return "user", ""
    role, content = message.get("role"), message.get("content")
    return str(role), content if isinstance(content, str) else ""


def _measure(text: str) -> _Size:
    counted = text[:_MAX_COUNTED_CHARS]
    tokens = estimate_from_text(counted.encode("utf-8", "replace")) if counted else 0
    if len(counted) < len(text):
        tokens = tokens * len(text) // len(counted)
    return _Size(len(text), tokens, 1)


def _measure_result(record: ToolCallRecord) -> _Size:
    if record.shown is not None:
        return _measure(record.shown)
    if isinstance(record.results, str):
        return _measure(record.results)
    size: Any = getattr(getattr(record.results, "reader", None), "size", None) if record.inline else None
    length: int = size[0] if size else 0
    return _Size(length, length // 4, 1)


def _measure_definitions(ctx: "DispatchContext") -> _Size:
    """Measure the definitions that were written for a model; others have not been shown."""
    allowed, total = ctx.filter, _Size()
    for entry in ctx.tools.entries():
        written = None if entry.hidden else entry.definition.written
        if written is not None and (allowed is None or find_refusing_rule(entry, allowed) is None):
            total = total.add(_measure_definition(written))
    return total


@lru_cache(maxsize=4096)
def _measure_definition(written: bytes) -> _Size:
    return _Size(len(written), estimate_from_text(written), 1)


def _join_small(sizes: dict[_Key, _Size]) -> list[JsonObject]:
    """Return the parts, the largest first; the smallest tools are counted together."""
    ranked = sorted(sizes.items(), key=lambda item: -item[1].tokens)
    kept = dict(ranked[:_MAX_PARTS])
    for (kind, _), size in ranked[_MAX_PARTS:]:
        kept[kind, None] = kept.get((kind, None), _Size()).add(size)
    return [
        {"kind": kind, "name": name, "chars": size.chars, "tokens": size.tokens, "count": size.count}
        for (kind, name), size in kept.items()
        if size.chars
    ]


def _write_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return ""
