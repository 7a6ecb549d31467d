"""Approval of calls by a person, and the dry-run preview that shows a call without running it."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from pydantic_core import to_json

from spindle.calls import Err, Ok
from spindle.errors import UnshowableRequestError
from spindle.execution.call_state import AdmittedCall
from spindle.execution.cancellation import external_cancellation
from spindle.execution.failures import to_err
from spindle.execution.results import HandlerResult, build_invalid_result
from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple, is_mapping
from spindle.tools.arguments import build_redactor, copy_masked, mask_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.invocation import is_awaitable
from spindle.trust.envelope import to_one_line

if TYPE_CHECKING:
    from spindle.artifacts.spool import Spool

_MAX_REASON = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequest:
    """The call to approve, exactly as it will run."""

    tool: Tool
    args: JsonValue
    """A copy of the arguments that the handler will receive, with secrets masked; show it by `render_approval`."""
    checksum: str
    ctx: ToolContext
    caller: JsonObject | None = None
    """Who asked for the turn, as passed to `TurnRunner.run`."""
    reasons: tuple[str, ...] = ()
    """Why a person is asked, in sentences; empty if the tool always requires approval."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalAnswer:
    """An answer to a request that also says who gave it, for the journal."""

    approved: bool
    by: str | None = None
    reason: str | None = None
    """Why it was denied; the model sees it."""


Approve: TypeAlias = Callable[[ApprovalRequest], Awaitable[bool | str | ApprovalAnswer] | bool | str | ApprovalAnswer]
"""Sync or async; returns `True` to approve, `False`, or a text with the reason, to deny, or an `ApprovalAnswer`."""


def name_answers(approve: Approve, by: str) -> Approve:
    """Return an approver that also says who answers."""

    async def ask_named(request: ApprovalRequest) -> ApprovalAnswer:
        said: Any = approve(request)
        answer: object = await said if is_awaitable(said) else said
        if isinstance(answer, ApprovalAnswer):
            return answer
        return ApprovalAnswer(approved=answer is True, by=by, reason=answer if isinstance(answer, str) else None)

    return ask_named


class Asked(NamedTuple):
    """What became of a request for approval."""

    refused: Err | None
    by: str | None = None
    is_answered: bool = True
    """Whether the approver has answered; it may have failed."""


class Approvals(Protocol):
    """What a batch offers to ask a person."""

    @property
    def approve(self) -> "Approve | None":
        """The approver, if there is one."""

    @property
    def spool(self) -> "Spool | None":
        """Where results are kept."""

    def stop_clock(self, state: AdmittedCall, /) -> AbstractContextManager[None]:
        """Stop the clock of a call while it waits for a person."""
        ...


async def request_approval(state: AdmittedCall, approve: Approve | None) -> HandlerResult | None:
    """Ask for approval; return the rejection, or `None` if the call may run."""
    refused = build_approval_needed(state.entry.tool.name) if approve is None else (await ask(state, approve)).refused
    return None if refused is None else HandlerResult(refused)


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierApproval:
    """Approves every call: for one that a person has approved before."""

    asked_at: int
    """In microseconds since 1970, as in its ticket."""
    answered_at: int
    by: str | None = None

    def __call__(self, _: ApprovalRequest) -> bool:
        """Approve."""
        return True

    def record(self, state: AdmittedCall) -> None:
        """Keep with the call when a person was asked and answered, before this batch began."""
        now = time.time()
        for said, at, text in (("asked", self.asked_at, ""), ("approved", self.answered_at, _name_person(self.by))):
            record_event(state, "approval", text, said, seconds_ago=now - at / 1e6)


def build_approval_needed(tool: str, *, ticket: str | None = None) -> Err:
    """Build the result of a call that no person can approve now; with a ticket, it may still be approved later."""
    if ticket is None:
        text = f"The tool {tool!r} needs a person's approval, and no approver is configured. It was not run."
    else:
        text = f"The tool {tool!r} needs a person's approval. It was not run; it runs once a person has approved it."
    return Err("needs_approval", text, by="spindle", ticket=ticket)


def build_denied(tool: str, reason: object = None) -> Err:
    """Build the result of a call that a person denied."""
    note = f" The reason: {to_one_line(reason, _MAX_REASON)}" if isinstance(reason, str) and reason else ""
    return Err("denied", f"The tool {tool!r} was not approved, so it was not run.{note}", by="spindle")


async def ask(state: AdmittedCall, approve: Approve) -> Asked:
    """Ask the approver; one that raises denies the call."""
    tool = state.entry.tool
    try:
        args = state.ctx.redact_value(copy_masked(state.value, tool.secret_fields))
        request = build_request(state, args)
        record_event(state, "approval", "; ".join(request.reasons), "asked")
        said: Any = approve(request)
        answer: object = await said if is_awaitable(said) else said
    except UnshowableRequestError as error:
        return Asked(Err("denied", f"{error} It was not run.", cause=error, by="spindle"), is_answered=False)
    except BaseException as error:  # noqa: BLE001  an approver that raises denies the call
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        state.warn(f"the approval callback of {tool.name!r} failed", source="approve", error=error)
        text = f"The tool {tool.name!r} was not approved: the approval request failed. It was not run."
        return Asked(Err("denied", text, cause=error, by="spindle"), is_answered=False)
    if isinstance(answer, ApprovalAnswer):
        refused = None if answer.approved is True else build_denied(tool.name, answer.reason)
        asked = Asked(refused, answer.by if isinstance(answer.by, str) else None)
    else:
        asked = Asked(None if answer is True else build_denied(tool.name, answer))
    record_event(state, "approval", _name_person(asked.by), "approved" if asked.refused is None else "denied")
    return asked


def record_event(state: AdmittedCall, kind: str, text: str, detail: str, *, seconds_ago: float = 0.0) -> None:
    """Keep an event with the outcome of a call in the journal, if there is one."""
    if state.trace is not None:
        state.trace.record(kind, text, detail, seconds_ago=seconds_ago)


def _name_person(by: str | None) -> str:
    return "" if by is None else f"by {by}"


def build_request(state: AdmittedCall, args: JsonValue) -> ApprovalRequest:
    """Build the request for a person; `args` are the arguments with secrets masked."""
    ctx, reasons = state.ctx, redact_reasons(state)
    return ApprovalRequest(
        tool=state.entry.tool, args=args, checksum=state.checksum, ctx=ctx, caller=ctx.caller, reasons=reasons
    )


def redact_reasons(state: AdmittedCall) -> tuple[str, ...]:
    """Return why a person is asked about a call, with secrets masked."""
    secrets = build_redactor(state.arguments, state.entry.tool.secret_fields)
    return tuple(state.ctx.redact(secrets.redact(reason)) for reason in state.reasons)


_MAX_TEXT = 500


async def dry_run_preview(state: AdmittedCall) -> Ok | Err:
    """Return the tool's own preview, or a text with the call as it would be made."""
    tool = state.entry.tool
    if tool.preview is not None:
        return await _call_preview(state, tool.preview)
    shown = _shorten(mask_arguments(state.arguments, tool.secret_fields))
    return Ok(f"[dry-run] {tool.name} would be called with: {to_json(shown).decode()}{_approval_note(state)}")


def _approval_note(state: AdmittedCall) -> str:
    return "\n[dry-run] Approval would be needed: a person has to approve this call." if state.needs_approval else ""


async def _call_preview(state: AdmittedCall, preview: Callable[..., object]) -> Ok | Err:
    tool = state.entry.tool
    secrets = build_redactor(state.arguments, tool.secret_fields)
    try:
        said: Any = preview(state.value, state.ctx)
        text: object = await said if is_awaitable(said) else said
    except BaseException as error:  # noqa: BLE001  every exception of a tool becomes its result
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        return to_err(error, tool=tool.name, expose=tool.expose_errors, secrets=secrets)
    if not isinstance(text, str):
        return build_invalid_result(tool.name, f"its preview returned {type(text).__name__}, not text")
    return Ok(f"[dry-run] {secrets.redact(text)}{_approval_note(state)}")


def _shorten(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"{value[:_MAX_TEXT]}...[truncated, {len(value)} chars]"
    if is_mapping(value):
        return {key: _shorten(part) for key, part in value.items()}
    if is_list_or_tuple(value):
        return [_shorten(part) for part in value]
    return value
