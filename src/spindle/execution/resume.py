"""`Executor.resume`: answers the ticket of a call that waits for approval, and runs the call.

The answer is written to the ticket first, by compare-and-set; then the call runs under its idempotency key. So a call
runs once however many answers race, and a process that dies between the two leaves it to the next equal answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from spindle.calls import Call, CallOutcome, Err, Ok, RawArgs
from spindle.errors import JournalError, SecretError, UsageError
from spindle.execution.admission import run_tool_checks
from spindle.execution.approval import EarlierApproval, build_denied
from spindle.execution.call_state import AdmittedCall, CallState, compute_call_checksum
from spindle.execution.cancellation import build_timeout
from spindle.execution.failures import is_suspended
from spindle.execution.journal_media import build_interrupted, restore_result
from spindle.execution.results import HandlerResult
from spindle.execution.ticket_facts import describe_policy
from spindle.execution.ticket_requests import DENIED, build_warn
from spindle.execution.ticket_settings import TicketSettings
from spindle.extras import needs_extra
from spindle.journal.entries import JournalEntry
from spindle.json_types import JsonObject
from spindle.tools.arguments import mask_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry

with needs_extra("tickets", purpose="a call that waits for approval in the journal"):
    from spindle.execution.tickets import (
        Answer,
        StoredTicket,
        TicketOffice,
        TicketProblem,
        get_key,
        open_office,
        restore_context,
    )

if TYPE_CHECKING:
    from spindle.artifacts.spool import Spool

_REFUSALS: Final[Mapping[str, str]] = {
    "tampered": "it was changed, or the stored call was changed",
    "already_answered": "it was answered before, with another answer",
    "expired": "it has expired; the call must be made again",
    "foreign": "it was issued with another state key or under another policy",
    "tool_changed": "the tool has changed since, or is gone; the call must be made again",
    "unknown": "there is no such ticket in this journal",
}
_LAST_SECONDS: Final = 2.0
"""How long a cancelled answer may take to mark its call as ended."""
_FIRST_WAIT_SECONDS: Final = 0.02
_MAX_WAIT_SECONDS: Final = 1.0


class ResumptionParts(NamedTuple):
    """The parts of an executor that answer a ticket."""

    registry: ToolRegistry
    spool: "Spool | None"
    admit: Callable[[Call, ToolContext], CallState]
    """Checks whether the tool may be used, and validates the arguments."""
    run_approved: Callable[[Call, ToolContext, EarlierApproval], Awaitable[CallOutcome]]
    """Runs a call that a person has approved."""
    get_timeout: Callable[[AdmittedCall], float]
    """Returns how many seconds the call may take."""

    def find_tool(self, name: str) -> Tool | None:
        """Look up a tool."""
        entry = self.registry.entry(name)
        return None if entry is None else entry.tool


async def resume_ticket(
    executor: ResumptionParts,
    settings: TicketSettings | None,
    ticket: str,
    *,
    approved: bool,
    args: RawArgs,
    by: str | None,
    context: ToolContext | None,
) -> CallOutcome:
    """Answer a ticket, and run its call if it is approved; see `Executor.resume`."""
    _check_answer(ticket, approved=approved, args=args, by=by)
    office = None if settings is None else open_office(settings)
    if settings is None or office is None:
        return _refuse({}, "unknown")
    found = await office.find(ticket)
    if not isinstance(found, StoredTicket):
        return _refuse({}, found)
    if context is not None and (context.session_id, context.turn_id) != found.place:
        return _refuse(found.facts, "foreign")
    return await _Resumption(executor, settings, office, await office.expire(found), context).answer(
        approved=approved, args=args, by=by
    )


def _check_answer(ticket: object, *, approved: object, args: object, by: object) -> None:
    if not isinstance(ticket, str):
        raise UsageError(f"ticket must be the text of a ticket, got {type(ticket).__name__}", field="ticket")
    if not isinstance(approved, bool):
        raise UsageError(f"approved must be True or False, got {type(approved).__name__}", field="approved")
    if by is not None and not isinstance(by, str):
        raise UsageError(f"by must be a text or None, got {type(by).__name__}", field="by")
    if not approved and args is not None:
        raise UsageError("args can only be given with approved=True", field="args")


class _Resumption:
    """The answering of one ticket."""

    def __init__(
        self,
        executor: ResumptionParts,
        settings: TicketSettings,
        office: "TicketOffice",
        ticket: "StoredTicket",
        context: ToolContext | None,
    ) -> None:
        self._executor = executor
        self._settings = settings
        self._office = office
        self._ticket = ticket
        self._context = context or restore_context(ticket)
        self._context.tainted = self._context.tainted or ticket.facts["tainted"]

    async def answer(self, *, approved: bool, args: RawArgs, by: str | None) -> CallOutcome:
        facts, status = self._ticket.facts, self._ticket.record.status
        if status == "expired":
            return _refuse(facts, "expired")
        if not approved:
            return await self._deny(by)
        wanted = facts["checksum"] if args is None else compute_call_checksum(self._build_call(args))
        if status == "finished" and self._is_answer(wanted):
            return await self._repeat_outcome(wanted)
        if status in {"finished", "denied"} and args is None:
            return _refuse(facts, "already_answered")
        problem = self._find_change()
        if problem is not None:
            return await self._repeat_begun(wanted) or _refuse(facts, problem)
        try:
            arguments = self._office.read_arguments(self._ticket) if args is None else args
        except SecretError:
            # The answer of an approver beside the call erases them at once.
            return await self._repeat_begun(wanted) or _refuse(
                facts, "already_answered" if self._ticket.answer else "tampered"
            )
        call = self._build_call(arguments)
        state = self._executor.admit(call, self._context)
        refused = await self._check(state)
        if refused is not None or not isinstance(state, AdmittedCall):
            return refused or state.outcome()  # the ticket stays valid: the answer was not
        answer = Answer(approved=True, checksum=state.checksum, key=get_key(state))
        if self._ticket.answer is None:
            ran: JsonObject = state.ctx.redact_value(mask_arguments(state.arguments, state.entry.tool.secret_fields))
            self._ticket = await self._office.answer(self._ticket, answer, by=by, ran=ran)
        if self._ticket.answer != answer:
            return _refuse(facts, "already_answered")
        return await self._run(call, answer)

    def _build_call(self, arguments: RawArgs) -> Call:
        return Call(self._ticket.facts["tool_call_id"], self._ticket.facts["tool"], arguments)

    def _is_answer(self, checksum: str) -> bool:
        return self._ticket.answer is not None and self._ticket.answer.checksum == checksum

    async def _check(self, state: CallState) -> CallOutcome | None:
        """Run the tool's own checks before the answer is recorded; return the rejection, or `None`."""
        if not isinstance(state, AdmittedCall) or not state.entry.tool.checks or self._ticket.answer is not None:
            return None
        refused: Err | None = None
        with anyio.move_on_after(self._executor.get_timeout(state)) as scope:
            refused = await run_tool_checks(state)
        if scope.cancelled_caught:
            state.finish(build_timeout(state))
        elif refused is None:
            return None
        else:
            state.finish(HandlerResult(refused))
        return state.outcome()

    async def _deny(self, by: str | None) -> CallOutcome:
        if self._ticket.answer is None:
            self._ticket = await self._office.answer(self._ticket, DENIED, by=by, ran=None)
        facts = self._ticket.facts
        if self._ticket.answer != DENIED:
            return _refuse(facts, "already_answered")
        return _build_outcome(facts, build_denied(facts["tool"]))

    def _find_change(self) -> "TicketProblem | None":
        facts = self._ticket.facts
        tool = self._executor.find_tool(facts["tool"])
        if tool is None or tool.fingerprint != facts["fingerprint"]:
            return "tool_changed"
        return None if describe_policy(tool, self._settings.policy) == facts["policy"] else "foreign"

    async def _run(self, call: Call, answer: "Answer") -> CallOutcome:
        """Run the call, or wait for the process that runs it."""
        key, journal = answer.key or "", self._settings.journal
        while self._ticket.record.status == "executing":
            try:
                outcome = await self._executor.run_approved(call, self._context, _describe_approval(self._ticket))
            except BaseException:
                with anyio.move_on_after(_LAST_SECONDS, shield=True):
                    if _has_ended(await journal.find(key)):
                        await self._finish()
                raise
            if not _is_unavailable(outcome):
                if not is_suspended(outcome.result):  # else the same answer runs it again
                    await self._finish()
                return outcome
            entry = await journal.find(key)
            if entry is None or (entry.state == "finished" and not entry.attempts):
                return outcome  # it was not begun: the same answer may be given again
            if entry.state == "finished":
                await self._finish()
                break
            await self._wait_for_end(key)  # then an interrupted call is reconciled, or run again if it is idempotent
        return await self._repeat_outcome(answer.checksum or "")

    async def _repeat_begun(self, checksum: str) -> CallOutcome | None:
        """Return the outcome of a call that began before its tool was changed or removed, if this is its answer."""
        answer = self._ticket.answer
        if answer is None or answer.key is None or answer.checksum != checksum:
            return None
        await self._wait_for_end(answer.key)
        entry = await self._settings.journal.find(answer.key)
        if entry is None or (entry.state == "finished" and not entry.attempts):
            return None
        await self._finish()
        return await self._repeat_outcome(checksum)

    async def _finish(self) -> None:
        if self._ticket.record.status != "executing":
            return
        try:
            await self._office.finish(self._ticket)
        except JournalError as error:  # the call has run, and its outcome must be returned
            self._context.events.warn("an approval could not be marked as finished", source="journal", error=error)

    async def _wait_for_end(self, key: str) -> None:
        wait = _FIRST_WAIT_SECONDS
        while (entry := await self._settings.journal.find(key)) is not None and entry.state == "started":
            await anyio.sleep(wait)
            wait = min(wait * 2, _MAX_WAIT_SECONDS)

    async def _repeat_outcome(self, checksum: str) -> CallOutcome:
        """Return the recorded outcome to an answer that is the same as the recorded one."""
        facts, answer = self._ticket.facts, self._ticket.answer
        if answer is None or answer.checksum != checksum:
            return _refuse(facts, "already_answered")
        entry = None if answer.key is None else await self._settings.journal.find(answer.key)
        if entry is None or entry.state != "finished":
            return _build_outcome(facts, build_interrupted(facts["tool"]), checksum=checksum)
        tool = self._executor.find_tool(facts["tool"])
        result = await restore_result(entry, tool, self._executor.spool, build_warn(self._context))
        return _build_outcome(facts, result, checksum=checksum, attempts=entry.attempts, args=entry.args)


def _describe_approval(ticket: "StoredTicket") -> EarlierApproval:
    answer: JsonObject = ticket.facts.get("answer") or {}
    asked_at = ticket.record.created_at
    return EarlierApproval(asked_at=asked_at, answered_at=answer.get("at", asked_at), by=answer.get("by"))


def _is_unavailable(outcome: CallOutcome) -> bool:
    """Return whether a call was not begun, because another process runs it or the journal failed."""
    result = outcome.result
    if not isinstance(result, Err) or result.by != "spindle" or outcome.attempts:
        return False
    return result.code == "not_available" and result.retryable


def _has_ended(entry: JournalEntry | None) -> bool:
    return entry is not None and entry.state == "finished" and bool(entry.attempts)


def _refuse(facts: JsonObject, problem: "TicketProblem") -> CallOutcome:
    text = f"The ticket was refused: {_REFUSALS[problem]}. Nothing was run."
    return _build_outcome(facts, Err("denied", text, "ticket", by="spindle", reason=problem))


def _build_outcome(
    facts: JsonObject,
    result: Ok | Err,
    *,
    checksum: str | None = None,
    attempts: int = 0,
    args: JsonObject | None = None,
) -> CallOutcome:
    return CallOutcome(
        facts.get("tool_call_id", ""),
        facts.get("tool", ""),
        checksum or facts.get("checksum", ""),
        result,
        attempts=attempts,
        args=facts.get("args", {}) if args is None else args,
    )
