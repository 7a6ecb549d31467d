"""Endpoints of approvals: calls that wait for a person, what exactly each would run, and the answers."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, JsonValue, StringConstraints

from spindle.calls import CallOutcome, Err, RawArgs
from spindle.errors import InvalidRequestError, InvalidToolArgsError, RequestConflictError, UnknownItemError
from spindle.execution.outcome_report import report_outcome
from spindle.execution.ticket_edits import change_arguments, replace_arguments
from spindle.inspector.approval_feeds import count_waiting, list_visible, may_see, watch_approvals, watch_waiting
from spindle.inspector.approval_values import ApprovalValue, show_values
from spindle.inspector.call_details import write_json
from spindle.inspector.endpoints import ApiModel, ApiRequest, Endpoint, NoInput, PageUser, change, read
from spindle.inspector.live import Feed
from spindle.inspector.request_bodies import check_values
from spindle.inspector.tool_facts import is_showable
from spindle.inspector.workbench import Workbench
from spindle.journal.entries import JournalEntry
from spindle.json_types import JsonObject
from spindle.text import shorten
from spindle.tools.arguments import read_arguments

if TYPE_CHECKING:  # they need the extra `tickets`
    from spindle.execution.tickets import Approval, StoredTicket, TicketOffice

MAX_PAGE_BYTES: Final = 2 << 20
"""A page of approvals ends before it is larger."""
_MAX_SHOWN_CHARS: Final = 400
_MAX_REASONS: Final = 20
_MAX_RESULT_CHARS: Final = 100_000
_MAX_SCHEMA_CHARS: Final = 200_000
_MAX_STRUCTURED_CHARS: Final = 1 << 20
_CONFLICTS: Final = frozenset({"already_answered", "expired", "unknown", "tampered", "foreign", "tool_changed"})

ApprovalId = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class ApprovalsQuery(ApiModel):
    """Which approvals to list."""

    status: Literal["pending", "answered", "all"] = "pending"
    cursor: ApprovalId | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 50
    full: bool = False
    """With the arguments and the whole text of each."""


class ApprovalPath(ApiModel):
    """One approval."""

    id: ApprovalId


class ApprovalItem(ApiModel):
    """A call that waits, or waited, for a person's approval."""

    id: str
    status: Literal["pending", "executing", "interrupted", "finished", "denied", "expired"]
    tool: str
    tool_call_id: str
    args: dict[str, JsonValue] | None = None
    """As the model sent them, with secrets masked; left out of lists."""
    shown: str
    """What a person is asked; shortened in lists."""
    reasons: list[str]
    session_id: str | None
    turn_id: str | None
    caller: dict[str, JsonValue] | None
    created_at: datetime
    expires_at: datetime
    answered_at: datetime | None
    answered_by: str | None
    ran: dict[str, JsonValue] | None = None
    """The arguments with which it was approved; they differ from `args` if they were edited."""
    is_edited: bool


class ApprovalList(ApiModel):
    """Approvals, newest first."""

    approvals: list[ApprovalItem]
    next_cursor: str | None
    waiting: int
    """How many wait in all; 1000 means that or more."""


class ApprovedCall(ApiModel):
    """What the journal has of an approved call."""

    key: str
    """The idempotency key, by which the call is found."""
    state: str
    code: str | None
    error: str | None
    text: str | None
    artifact_id: str | None


class ApprovalDetail(ApiModel):
    """One approval, and exactly what it would run."""

    approval: ApprovalItem
    args_text: str
    """The masked arguments as JSON text: a browser would change the digits of large numbers in `approval.args`."""
    ran_text: str | None
    """The arguments with which it was approved, likewise."""
    values: list[ApprovalValue]
    more_values: int
    origins: Literal["known", "unknown"]
    tainted: bool
    """Whether the session had read untrusted content before."""
    tool_state: Literal["same", "changed", "gone"]
    """Whether the tool is still the one that was asked about; else the call cannot be approved."""
    input_schema: dict[str, JsonValue] | None
    call: ApprovedCall | None


class ApproveBody(ApiModel):
    """How a call is approved: as it is, with other arguments, or with some changed ones."""

    args: dict[str, JsonValue] | str | None = None
    """All arguments, or their JSON text; a masked value that is left where it was keeps its secret."""
    changes: dict[str, JsonValue] | None = None
    """Arguments to change; the others stay as they are."""
    ticket: Annotated[str, StringConstraints(max_length=500)] | None = None
    """The text of the ticket, which is then checked."""
    conflict: Literal["error", "outcome"] = "error"
    """What the answer is, if the call was answered before: an error, or an outcome that says so."""


class DenyBody(ApiModel):
    """How a call is denied."""

    ticket: Annotated[str, StringConstraints(max_length=500)] | None = None
    conflict: Literal["error", "outcome"] = "error"


class AnsweredApproval(ApiModel):
    """An approval after its answer."""

    approval: ApprovalItem
    ran_text: str | None
    """The arguments with which it was approved, as JSON text."""
    outcome: dict[str, JsonValue]
    """As `spindle call --output json` prints it."""
    call: ApprovedCall | None


async def list_approvals(request: ApiRequest[ApprovalsQuery, NoInput]) -> ApprovalList:
    """Return a page of approvals."""
    office, query = _get_office(request.bench), request.params
    is_pending = {"pending": True, "answered": False, "all": None}[query.status]
    found, following = await list_visible(
        request.bench, office, request.user, is_pending=is_pending, before=query.cursor, limit=query.limit
    )
    items: list[ApprovalItem] = []
    used = 0
    for each in found:
        item = _to_item(each, is_full=query.full)
        used += len(item.model_dump_json())
        if used > MAX_PAGE_BYTES and items:
            following = items[-1].id
            break
        items.append(item)
    waiting = await count_waiting(request.bench, office, request.user)
    return ApprovalList(approvals=items, next_cursor=following, waiting=waiting)


async def show_approval(request: ApiRequest[ApprovalPath, NoInput]) -> ApprovalDetail:
    """Return one approval in full."""
    bench, office = request.bench, _get_office(request.bench)
    ticket = await _find(bench, office, request.user, request.params.id)
    [approval] = await office.describe([ticket])
    shown = await show_values(bench, ticket)
    tool = bench.registry.get(ticket.facts["tool"])
    schema = None if tool is None else tool.describe()["input_schema"]
    is_same = tool is not None and tool.fingerprint == ticket.facts["fingerprint"]
    return ApprovalDetail(
        approval=_to_item(approval, is_full=True),
        args_text=write_json(approval.args),
        ran_text=None if approval.ran is None else write_json(approval.ran),
        values=shown.values,
        more_values=shown.more,
        origins=shown.origins,
        tainted=bool(ticket.facts.get("tainted")),
        tool_state="gone" if tool is None else "same" if is_same else "changed",
        input_schema=schema if len(json.dumps(schema)) <= _MAX_SCHEMA_CHARS else None,
        call=await _find_call(bench, ticket),
    )


async def approve(request: ApiRequest[ApprovalPath, ApproveBody]) -> AnsweredApproval:
    """Approve a call and run it; the answer is its outcome."""
    body, office = request.body, _get_office(request.bench)
    if body.args is not None and body.changes is not None:
        raise InvalidRequestError("give args or changes, not both", field="args")
    ticket = await _find(request.bench, office, request.user, request.params.id)
    _refuse_answered(ticket, body.conflict)
    args: RawArgs = None
    if body.changes is not None:
        args = change_arguments(office, ticket, body.changes)
    elif body.args is not None:
        args = replace_arguments(office, ticket, _read_args(body.args, ticket))
    outcome = await request.bench.executor.resume(
        _choose_text(office, ticket, body.ticket), approved=True, args=args, by=request.user.by
    )
    return await _build_answer(request.bench, office, ticket, outcome, conflict=body.conflict)


async def deny(request: ApiRequest[ApprovalPath, DenyBody]) -> AnsweredApproval:
    """Deny a call."""
    body, office = request.body, _get_office(request.bench)
    ticket = await _find(request.bench, office, request.user, request.params.id)
    _refuse_answered(ticket, body.conflict)
    outcome = await request.bench.executor.resume(
        _choose_text(office, ticket, body.ticket), approved=False, by=request.user.by
    )
    return await _build_answer(request.bench, office, ticket, outcome, conflict=body.conflict)


def _get_office(bench: Workbench) -> "TicketOffice":
    if bench.tickets is None:
        raise InvalidRequestError("calls cannot wait here: install spindle[tickets], and set [journal] path")
    return bench.tickets


async def _find(bench: Workbench, office: "TicketOffice", user: PageUser, id: str) -> "StoredTicket":
    ticket = await office.get(id)
    if ticket is None or not may_see(bench, user, ticket.facts["tool"]):
        raise UnknownItemError("this journal has no approval with that id", field="id")
    return await office.expire(ticket)


def _choose_text(office: "TicketOffice", ticket: "StoredTicket", given: str | None) -> str:
    """Return the text of a ticket; the one of another call would be answered without its own checks."""
    if given is not None and given.partition("-")[0] != ticket.record.id:
        raise InvalidRequestError("this ticket is not the one of this approval", field="ticket")
    return given or office.sign(ticket)


def _read_args(given: JsonObject | str, ticket: "StoredTicket") -> JsonObject:
    if isinstance(given, str):
        check_values(given, field="args")
    try:
        return read_arguments(given, tool=ticket.facts["tool"], empty_ok=True)
    except InvalidToolArgsError as error:
        raise InvalidRequestError(str(error), field="args") from None


def _refuse_answered(ticket: "StoredTicket", conflict: str) -> None:
    """Refuse to answer a call again, so that a person does not take the answer of another one for their own."""
    if conflict == "outcome" or ticket.record.status == "pending":
        return
    if ticket.record.status == "expired":
        raise RequestConflictError("this call has expired; it must be made again")
    said: JsonObject = ticket.facts.get("answer") or {}
    who = f" by {said['by']}" if said.get("by") else ""
    raise RequestConflictError(f"this call was {'approved' if said.get('approved') else 'denied'} meanwhile{who}")


async def _build_answer(
    bench: Workbench, office: "TicketOffice", ticket: "StoredTicket", outcome: CallOutcome, *, conflict: str
) -> AnsweredApproval:
    result = outcome.result
    if conflict == "error" and isinstance(result, Err) and result.by == "spindle" and result.reason in _CONFLICTS:
        raise RequestConflictError(result.error)
    now = await office.get(ticket.record.id) or ticket
    call = await _find_call(bench, now)
    report = await report_outcome(outcome, None if call is None else call.artifact_id)
    report["structured"] = _bound(report["structured"])
    [approval] = await office.describe([now])
    ran = None if approval.ran is None else write_json(approval.ran)
    return AnsweredApproval(approval=_to_item(approval, is_full=True), ran_text=ran, outcome=report, call=call)


def _bound(value: JsonValue) -> JsonValue:
    """Return a structured result, unless it is so large that it is rather read from the artifact."""
    return value if is_showable(value, max_chars=_MAX_STRUCTURED_CHARS) else None


async def _find_call(bench: Workbench, ticket: "StoredTicket") -> ApprovedCall | None:
    answer = ticket.answer
    key = ticket.record.group if answer is None or answer.key is None else answer.key
    entry = None if key is None else await bench.journal.find(key)
    return None if entry is None else _to_call(entry)


def _to_call(entry: JournalEntry) -> ApprovedCall:
    text = (entry.result or {}).get("value")
    return ApprovedCall(
        key=entry.idempotency_key,
        state=entry.state,
        code=entry.code,
        error=None if entry.error is None else shorten(entry.error, _MAX_RESULT_CHARS),
        text=shorten(text, _MAX_RESULT_CHARS) if isinstance(text, str) else None,
        artifact_id=entry.artifact_id,
    )


def _to_item(approval: "Approval", *, is_full: bool) -> ApprovalItem:
    return ApprovalItem(
        id=approval.id,
        status=approval.status,
        tool=approval.tool,
        tool_call_id=approval.tool_call_id,
        args=approval.args if is_full else None,
        shown=approval.shown if is_full else shorten(approval.shown, _MAX_SHOWN_CHARS),
        reasons=[
            reason if is_full else shorten(reason, _MAX_SHOWN_CHARS) for reason in approval.reasons[:_MAX_REASONS]
        ],
        session_id=approval.session_id,
        turn_id=approval.turn_id,
        caller=approval.caller if is_full else None,
        created_at=approval.created_at,
        expires_at=approval.expires_at,
        answered_at=approval.answered_at,
        answered_by=approval.answered_by,
        ran=approval.ran if is_full else None,
        is_edited=approval.ran is not None and write_json(approval.ran) != write_json(approval.args),
    )


ENDPOINTS: Final[Sequence[Endpoint[Any, Any]]] = (
    read(
        "/approvals",
        list_approvals,
        summary="List the calls that wait for approval, or that were answered.",
        params=ApprovalsQuery,
        answer=ApprovalList,
    ),
    read(
        "/approvals/{id}",
        show_approval,
        summary="Show one approval: exactly what would run, and which values untrusted content wrote.",
        params=ApprovalPath,
        answer=ApprovalDetail,
    ),
    change(
        "/approvals/{id}/approve",
        approve,
        summary="Approve a call, with changed arguments if there are any, and run it.",
        params=ApprovalPath,
        body=ApproveBody,
        answer=AnsweredApproval,
    ),
    change(
        "/approvals/{id}/deny",
        deny,
        summary="Deny a call.",
        params=ApprovalPath,
        body=DenyBody,
        answer=AnsweredApproval,
    ),
)
FEEDS: Final[Mapping[str, Feed]] = {"waiting": watch_waiting, "approvals": watch_approvals}
