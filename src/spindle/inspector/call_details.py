"""What the page shows of one call: its arguments, outcome, labels and reasons, bounded and safe to send."""

import json
from datetime import datetime
from typing import Final

from pydantic import JsonValue as SentJson

from spindle.concurrency import storage_threads
from spindle.execution.tickets import KIND, TicketOffice, read_ticket
from spindle.inspector.call_rows import CallRow, to_name, to_row
from spindle.inspector.endpoints import ApiModel
from spindle.inspector.replays import find_problem
from spindle.inspector.workbench import Workbench
from spindle.journal.entries import JournalEntry
from spindle.journal.states import StateQuery
from spindle.journal.summaries import CallQuery, CallSummary
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import shorten, to_encodable
from spindle.trust.labels import read_label

MAX_TEXT_CHARS: Final = 100_000
"""Of the arguments, the result and the structured result each."""
_MAX_ERROR_CHARS: Final = 20_000
_MAX_SMALL_CHARS: Final = 4_000
_MAX_TRACE_CHARS: Final = 200_000
_MAX_REASONS: Final = 50
_MAX_MEDIA: Final = 50
_MAX_APPROVALS: Final = 20
_MAX_PREVIOUS_ROWS: Final = 4_000


class ShownText(ApiModel):
    """A text, or its beginning."""

    text: str
    chars: int
    """The length of the whole text."""
    is_cut: bool


class CallFlow(ApiModel):
    """How the information flow policy judged a call."""

    asked: bool
    reasons: list[str]


class CallApproval(ApiModel):
    """An approval of a call."""

    id: str
    status: str
    created_at: datetime
    answered_at: datetime | None
    answered_by: str | None
    reasons: list[str]


class CallDetail(ApiModel):
    """Everything about one call."""

    call: CallRow
    checksum: str
    fingerprint: str | None
    """Of the tool as it was declared."""
    args: dict[str, SentJson] | None
    """With secrets masked; `None` if they are large."""
    args_text: ShownText
    caller: ShownText | None
    error: ShownText | None
    error_by: str | None
    """Who wrote the error: the tool, or Spindle."""
    error_field: str | None
    is_retryable: bool
    result: ShownText | None
    """As the model saw it."""
    is_partial: bool
    """Whether the model saw only a part of the result."""
    structured: ShownText | None
    media: list[str]
    label: str | None
    """The trust label of the result."""
    flow: CallFlow | None
    timing: SentJson
    events: SentJson
    approvals: list[CallApproval]
    previous: CallRow | None
    """The call of the same tool before."""
    is_tool_known: bool
    replay_problem: str | None
    """Why the call cannot be made again as it was; `None` if it can."""


async def read_detail(bench: Workbench, entry: JournalEntry) -> CallDetail:
    """Collect what is known about a call."""
    [summary] = await bench.journal.summarize([entry.idempotency_key])
    previous = await _find_previous(bench, summary)
    approvals = [] if bench.tickets is None else await _read_approvals(bench, bench.tickets, entry)
    problem = find_problem(bench, entry)
    is_known = bench.registry.entry(entry.tool) is not None

    def build() -> CallDetail:
        record = entry.result or {}
        return CallDetail(
            call=to_row(summary),
            checksum=to_name(entry.checksum),
            fingerprint=None if entry.fingerprint is None else to_name(entry.fingerprint),
            args=to_sendable(entry.args, MAX_TEXT_CHARS),
            args_text=show(write_json(entry.args), MAX_TEXT_CHARS),
            caller=None if entry.caller is None else show(write_json(entry.caller), _MAX_SMALL_CHARS),
            error=None if entry.error is None else show(entry.error, _MAX_ERROR_CHARS),
            error_by=_read_text(record, "by"),
            error_field=_read_text(record, "field"),
            is_retryable=record.get("retryable") is True,
            result=show(value, MAX_TEXT_CHARS) if isinstance(value := record.get("value"), str) else None,
            is_partial=record.get("is_partial") is True,
            structured=_show_structured(record),
            media=_list_media(record),
            label=_get_label(entry),
            flow=_read_flow(record),
            timing=to_sendable(record.get("timing"), _MAX_TRACE_CHARS),
            events=to_sendable(record.get("events"), _MAX_TRACE_CHARS),
            approvals=approvals,
            previous=None if previous is None else to_row(previous),
            is_tool_known=is_known,
            replay_problem=problem,
        )

    return await storage_threads.run(build)


def show(text: str, max_chars: int) -> ShownText:
    """Return a text that can be sent, or its beginning."""
    return ShownText(text=to_encodable(text[:max_chars]), chars=len(text), is_cut=len(text) > max_chars)


def write_json(value: JsonValue) -> str:
    """Return a value as JSON to be read by people."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def to_sendable(value: JsonValue, max_chars: int) -> JsonValue:
    """Return a value without text that cannot be sent; `None` if it is large."""
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(to_encodable(text)) if len(text) <= max_chars else None


def _read_text(record: JsonObject, name: str) -> str | None:
    value = record.get(name)
    return to_name(value) if isinstance(value, str) else None


def _show_structured(record: JsonObject) -> ShownText | None:
    structured = record.get("structured")
    return None if structured is None else show(write_json(structured), MAX_TEXT_CHARS)


def _list_media(record: JsonObject) -> list[str]:
    found = record.get("media")
    items = found if is_array(found) else []
    return [
        to_encodable(", ".join(f"{name}: {value}"[:200] for name, value in item.items() if value is not None)[:500])
        for item in items[:_MAX_MEDIA]
        if is_object(item)
    ]


def _get_label(entry: JournalEntry) -> str | None:
    if entry.state != "finished" or entry.code is not None:
        return None
    return read_label((entry.result or {}).get("label"), trusted=entry.trusted)


def _read_flow(record: JsonObject) -> CallFlow | None:
    flow = record.get("flow")
    if not is_object(flow):
        return None
    reasons = flow.get("reasons")
    texts = [shorten(to_encodable(str(each)), 1_000) for each in (reasons if is_array(reasons) else [])[:_MAX_REASONS]]
    return CallFlow(asked=flow.get("asked") is True, reasons=texts)


async def _find_previous(bench: Workbench, call: CallSummary) -> CallSummary | None:
    page = await bench.journal.search(
        CallQuery(tool=call.tool), limit=1, cursor=call.cursor, max_scanned=_MAX_PREVIOUS_ROWS
    )
    return next(iter(page.calls), None)


async def _read_approvals(bench: Workbench, office: TicketOffice, entry: JournalEntry) -> list[CallApproval]:
    if bench.journal.states is None:
        return []
    query = StateQuery(KIND, group=entry.idempotency_key, limit=_MAX_APPROVALS)
    tickets = [read_ticket(record) for record in await bench.journal.states.select(query)]
    return [
        CallApproval(
            id=each.id,
            status=each.status,
            created_at=each.created_at,
            answered_at=each.answered_at,
            answered_by=None if each.answered_by is None else to_name(each.answered_by),
            reasons=[shorten(to_encodable(reason), 1_000) for reason in each.reasons[:_MAX_REASONS]],
        )
        for each in await office.describe(tickets)
    ]
