"""Two calls compared by lines: their arguments, and their results, from the spool where they are large."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.readers import decode_text
from spindle.concurrency import spool_threads, storage_threads
from spindle.errors import UnknownItemError
from spindle.inspector.call_details import write_json
from spindle.inspector.endpoints import ApiModel, PageUser
from spindle.inspector.line_diff import LineKind, TextDiff, compare_texts
from spindle.inspector.reading_slots import queries
from spindle.inspector.visibility import may_see_artifact
from spindle.inspector.workbench import Workbench
from spindle.journal.entries import JournalEntry
from spindle.text import escape_surrogates, to_encodable

MAX_COMPARED_CHARS: Final = 2_000_000
"""Of each text, or bytes of an artifact."""
_between_items: Final = re.compile(r"(?<=[}\]]),(?=[{\[\"])")


class DiffRow(ApiModel):
    """One line of a difference; a folded one stands for `count` unchanged lines."""

    kind: LineKind
    text: str
    left: int | None
    right: int | None
    count: int


class DiffPart(ApiModel):
    """The difference of one part of two calls."""

    name: Literal["arguments", "result"]
    lines: list[DiffRow]
    is_same: bool
    """Whether the whole texts are known to be equal."""
    is_cut: bool
    """Whether the texts are longer than what was compared and is shown."""
    is_aligned: bool
    """Whether the texts are similar enough to find all changes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _ComparedText:
    text: str
    is_whole: bool = True


async def compare_entries(
    bench: Workbench, user: PageUser, left: JournalEntry, right: JournalEntry
) -> tuple[DiffPart, DiffPart]:
    """Compare the arguments and the results of two calls."""

    def compare(results: Sequence[_ComparedText]) -> tuple[DiffPart, DiffPart]:
        arguments = [_cut(write_json(entry.args)) for entry in (left, right)]
        return _compare("arguments", *arguments), _compare("result", *map(_format, results))

    async with queries.get().take(user):
        return await storage_threads.run(compare, [await _read_result(bench, user, entry) for entry in (left, right)])


async def _read_result(bench: Workbench, user: PageUser, entry: JournalEntry) -> _ComparedText:
    """Return what a call returned, also what the model did not see of it, or its error."""
    record = entry.result or {}
    if entry.code is not None:
        return _cut(f"{entry.code}: {entry.error or ''}")
    if entry.artifact_id is not None and (content := await _open(bench, user, entry.artifact_id)) is not None:
        size = content.index.byte_length
        data = await spool_threads.run(content.read_range, 0, min(size, MAX_COMPARED_CHARS))
        return _ComparedText(text=decode_text(data, at_start=True), is_whole=size <= MAX_COMPARED_CHARS)
    if record.get("structured") is not None:
        return _cut(write_json(record["structured"]))
    value = record.get("value")
    return _cut(value if isinstance(value, str) else "", is_whole=record.get("is_partial") is not True)


async def _open(bench: Workbench, user: PageUser, artifact_id: str) -> BlockReader | None:
    """Return the content of an artifact; `None` if it was deleted, or this user may not see it."""
    shelf = bench.artifacts
    entry = await shelf.listing.find(artifact_id)
    if entry is None or not await may_see_artifact(bench, user, entry):
        return None
    try:
        return (await shelf.open(escape_surrogates(artifact_id))).content
    except UnknownItemError:
        return None


def _cut(text: str, *, is_whole: bool = True) -> _ComparedText:
    return _ComparedText(text=text[:MAX_COMPARED_CHARS], is_whole=is_whole and len(text) <= MAX_COMPARED_CHARS)


def _format(result: _ComparedText) -> _ComparedText:
    """Return JSON with a line for each value, so that a change inside of it is one line."""
    text = result.text
    if text[:1] not in {"{", "["}:
        return result
    try:
        return _ComparedText(text=write_json(json.loads(text)), is_whole=result.is_whole)
    except (ValueError, RecursionError):  # such as a part of JSON
        return _ComparedText(text=_between_items.sub(",\n", text), is_whole=result.is_whole)


def _compare(name: Literal["arguments", "result"], left: _ComparedText, right: _ComparedText) -> DiffPart:
    diff: TextDiff = compare_texts(left.text, right.text)
    is_whole = left.is_whole and right.is_whole
    return DiffPart(
        name=name,
        lines=[
            DiffRow(kind=line.kind, text=to_encodable(line.text), left=line.left, right=line.right, count=line.count)
            for line in diff.lines
        ],
        is_same=diff.is_same and is_whole,
        is_cut=diff.is_cut or not is_whole,
        is_aligned=diff.is_aligned,
    )
