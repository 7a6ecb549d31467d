"""A call that needs approval: asked and recorded here, or kept in the journal where no person can be asked."""

from typing import TYPE_CHECKING, Final

from spindle.calls import Err
from spindle.errors import SpindleError, UnshowableRequestError
from spindle.execution.approval import (
    Approvals,
    EarlierApproval,
    ask,
    build_approval_needed,
    build_denied,
    record_event,
    redact_reasons,
    request_approval,
)
from spindle.execution.call_state import AdmittedCall
from spindle.execution.journal_media import Warn, build_interrupted, restore_result
from spindle.execution.results import HandlerResult
from spindle.execution.ticket_settings import TicketSettings
from spindle.extras import needs_extra
from spindle.tools.context import ToolContext

with needs_extra("tickets", purpose="a call that waits for approval in the journal"):
    from spindle.execution.tickets import Answer, get_key, open_office

if TYPE_CHECKING:
    from spindle.artifacts.spool import Spool
    from spindle.execution.tickets import Approval, ApprovalStatus
    from spindle.journal.journal import Journal

DENIED: Final = Answer(approved=False, checksum=None, key=None)


async def request_recorded_approval(
    state: AdmittedCall, settings: TicketSettings, batch: Approvals
) -> HandlerResult | None:
    """Ask for approval and record the answer; without an approver, let the call wait in the journal.

    Returns the rejection, or `None` if the call may run. Only the time of a person is not counted.
    """
    approve = batch.approve
    if approve is None:
        return await _request_ticket(state, settings, batch.spool)
    if isinstance(approve, EarlierApproval):  # `resume` has recorded the answer
        approve.record(state)
        return None
    office = open_office(settings)
    if office is None:
        return await request_approval(state, approve)
    try:
        last = await office.find_last(state, settings.policy)
        if last is not None and last.answer is not None and last.is_answered_elsewhere:
            return await _apply_earlier_answer(state, last.answer, settings, batch.spool)
        with batch.stop_clock(state):
            asked = await ask(state, approve)
        if asked.is_answered:
            is_approved = asked.refused is None
            answer = Answer(is_approved, state.checksum, get_key(state)) if is_approved else DENIED
            recorded = await office.record(state, settings.policy, answer, asked.by)
            if recorded.answer is not None and recorded.answer != answer:  # it was answered elsewhere meanwhile
                return await _apply_earlier_answer(state, recorded.answer, settings, batch.spool)
    except SpindleError as error:
        state.warn(f"an approval of {state.entry.tool.name!r} was not recorded", source="approve", error=error)
        text = f"The tool {state.entry.tool.name!r} was not run: its approval could not be written to the journal."
        return HandlerResult(Err("not_available", text, retryable=True, cause=error, by="spindle"))
    return None if asked.refused is None else HandlerResult(asked.refused)


async def _request_ticket(state: AdmittedCall, settings: TicketSettings, spool: "Spool | None") -> HandlerResult | None:
    """Let a call wait for approval in the journal; return `None` if it was approved there before."""
    name = state.entry.tool.name
    try:
        office = open_office(settings)
        if office is None:
            return HandlerResult(build_approval_needed(name))
        last = await office.find_last(state, settings.policy)
        if last is not None and last.answer is not None:
            return await _apply_earlier_answer(state, last.answer, settings, spool)
        ticket = await office.issue(state, settings.policy)
    except UnshowableRequestError as error:
        return HandlerResult(Err("denied", f"{error} It was not run.", cause=error, by="spindle"))
    except SpindleError as error:
        state.warn(f"a call of {name!r} cannot wait for approval", source="approve", error=error)
        return HandlerResult(build_approval_needed(name))
    record_event(state, "approval", "; ".join(redact_reasons(state)), "asked")
    return HandlerResult(build_approval_needed(name, ticket=ticket))


async def _apply_earlier_answer(
    state: AdmittedCall, answer: "Answer", settings: TicketSettings, spool: "Spool | None"
) -> HandlerResult | None:
    """Answer a call that is made again, as after a crash, by what a person said of it."""
    tool = state.entry.tool
    record_event(state, "approval", "before this batch", "approved" if answer.approved else "denied")
    if not answer.approved:
        return HandlerResult(build_denied(tool.name))
    if answer.checksum == state.checksum:
        return None  # the journal knows whether it ran
    entry = None if answer.key is None else await settings.journal.find(answer.key)
    if entry is None or entry.state == "started":
        text = f"The call of {tool.name!r} was approved with other arguments and is running; wait for its result."
        return HandlerResult(Err("not_available", text, retryable=True, by="spindle"))
    if entry.state == "interrupted":
        return HandlerResult(build_interrupted(tool.name))
    return HandlerResult(await restore_result(entry, tool, spool, build_warn(state.ctx)))


async def list_approvals(
    journal: "Journal", *, status: "ApprovalStatus | None" = None, limit: int | None = 100
) -> "list[Approval]":
    """Return the approvals of a journal, newest first: who answered, when, what was shown, and what ran.

    Raises:
        JournalError: The journal cannot be read.
    """
    office = open_office(TicketSettings(journal, None, ttl_seconds=1, policy=None))
    return [] if office is None else await office.list(status, limit)


def build_warn(context: ToolContext) -> Warn:
    """Return a function that emits warnings about approvals to the observers of a context."""
    return lambda message, error: context.events.warn(message, source="journal", error=error)
