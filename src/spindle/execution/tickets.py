"""Tickets: calls that wait for a person's approval, in the journal, so that any process may answer them.

A ticket is a signed text. It is bound to the tool's fingerprint, the exact arguments, what a person is shown of them,
the session, the turn, the caller, the working folder and the policy of its call. The arguments are kept sealed under
the state key until the ticket is answered. The answer is signed too: write access to the database approves nothing.
"""

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from spindle.execution.call_state import AdmittedCall, compute_identity
from spindle.execution.flow import Policy
from spindle.execution.state_key import StateKey, get_process_key
from spindle.execution.ticket_facts import collect_facts, describe_policy
from spindle.execution.ticket_settings import TicketSettings
from spindle.journal.states import StateQuery, StateRecord, StateStore
from spindle.json_types import JsonObject, is_object
from spindle.tools.context import ToolContext
from spindle.tools.identity import canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spindle.journal.entries import JournalEntry
    from spindle.journal.journal import Journal

KIND = "approval"

ApprovalStatus: TypeAlias = Literal["pending", "executing", "interrupted", "finished", "denied", "expired"]
"""Waiting for an answer; approved and running, or about to; approved, begun and interrupted by a crash; approved and
ended; denied; too old to be answered."""

TicketProblem: TypeAlias = Literal["tampered", "already_answered", "expired", "foreign", "tool_changed", "unknown"]
"""Why a ticket was refused."""

_CALL = ("tool", "fingerprint", "checksum", "session_id", "turn_id", "tool_call_id", "caller", "policy", "working_dir")
"""What a call asked again must have in common with a ticket to be answered by it."""
_BOUND = (*_CALL, "tainted", "args", "shown")
_PURPOSE = "spindle approval ticket"
_ANSWER_PURPOSE = "spindle approval answer"
_PREFIX = "ap_"
_BOUND_CHARS = 16
_KEY_ID_CHARS = 4
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """A call that waits, or waited, for a person's approval."""

    id: str
    status: ApprovalStatus
    tool: str
    tool_call_id: str
    args: JsonObject
    """As the model sent them, with secrets masked."""
    shown: str
    """What a person is asked."""
    reasons: tuple[str, ...] = ()
    """Why a person is asked; empty if the tool always requires approval."""
    session_id: str | None
    turn_id: str | None
    caller: JsonObject | None
    created_at: datetime
    expires_at: datetime
    answered_at: datetime | None = None
    answered_by: str | None = None
    ran: JsonObject | None = None
    """The arguments with which it was approved, with secrets masked; they differ from `args` if they were edited."""


class Answer(NamedTuple):
    """What a person answered; two answers are the same if they approve the same arguments, or both deny."""

    approved: bool
    checksum: str | None
    """Of the call as it runs; `None` if it was denied."""
    key: str | None
    """The idempotency key of the call as it runs."""


class StoredTicket(NamedTuple):
    """A stored ticket."""

    record: StateRecord
    facts: JsonObject

    @property
    def answer(self) -> Answer | None:
        """The answer, if there is one."""
        answer = self.facts.get("answer")
        return None if answer is None else Answer(answer["approved"], answer["checksum"], answer["key"])

    @property
    def is_answered_elsewhere(self) -> bool:
        """Whether it was answered by its ticket, and not by an approver beside the call."""
        answer = self.facts.get("answer")
        return answer is not None and not answer.get("here")

    @property
    def place(self) -> tuple[str | None, str | None]:
        """The session and the turn of the call."""
        return self.facts["session_id"], self.facts["turn_id"]

    def bind(self) -> str:
        """Return the text that the signature covers besides the id."""
        facts = {name: self.facts.get(name) for name in _BOUND}
        return sha256(canonical_json([KIND, facts, self.record.expires_at])).hexdigest()


class TicketOffice:
    """Issues, finds and changes the tickets of one journal."""

    def __init__(self, journal: "Journal", states: StateStore, key: StateKey, *, ttl_seconds: float) -> None:
        self.journal = journal
        self._states = states
        self._key = key
        self._ttl = timedelta(seconds=ttl_seconds)

    async def issue(self, state: AdmittedCall, policy: Policy | None) -> str:
        """Store a call that waits for approval and return its ticket; the same call gets the same one again."""
        group, now = get_key(state), datetime.now(UTC)
        facts = collect_facts(state, policy=describe_policy(state.entry.tool, policy), must_show=True)
        known = await self._find_all(group, facts)
        for ticket in known:
            if ticket.record.status == "pending" and ticket.answer is None and not _is_expired(ticket.record, now):
                return self.sign(ticket)
        record = self._build_record(group, facts, len(known), status="pending", now=now)
        ticket = StoredTicket(record, facts)
        # Not canonical JSON, in which 2.0 is 2.
        sealed = self._key.seal(json.dumps(state.arguments).encode(), bound=f"{record.id} {ticket.bind()}")
        existing = await self._states.insert(record._replace(data=json.dumps(facts), sealed=sealed))
        await self.expire_all(now)
        return self.sign(ticket if existing is None else read_ticket(existing))

    def sign(self, ticket: StoredTicket) -> str:
        """Return the text of a ticket: its id, the start of what it is bound to, the key's id, and the signature."""
        named = f"{ticket.record.id}-{ticket.bind()[:_BOUND_CHARS]}-{self._key.id[:_KEY_ID_CHARS]}"
        return self._key.sign(f"{named}{_check_digits(named)}", bound=_PURPOSE)

    async def find(self, text: str) -> StoredTicket | TicketProblem:
        """Look up a ticket by its text; return the problem if the text is not a valid one."""
        signed, dot, _ = text.rpartition(".")
        if not dot:
            return "tampered" if text.startswith(_PREFIX) else "unknown"
        ticket_id, _, rest = signed.partition("-")
        bound, _, key_id = rest.partition("-")
        named, digits = signed[:-_KEY_ID_CHARS], key_id[_KEY_ID_CHARS:]
        if not self._key.knows(key_id[:_KEY_ID_CHARS]) and digits == _check_digits(named):
            return "foreign"
        if not self._key.verify(text, bound=_PURPOSE):
            return "tampered"
        ticket = await self.get(ticket_id)
        if ticket is None:
            return "unknown"
        is_same = ticket.bind()[:_BOUND_CHARS] == bound and self.is_genuine(ticket)
        return ticket if is_same else "tampered"

    def is_genuine(self, ticket: StoredTicket) -> bool:
        """Return whether a ticket has no answer, or one that was signed with an accepted key."""
        answer = ticket.facts.get("answer")
        if answer is None:
            return True
        proof, rest = str(answer.get("proof")), {name: answer[name] for name in answer if name != "proof"}
        return self._key.verify(f"{_describe_answer(ticket, rest)}.{proof}", bound=_ANSWER_PURPOSE)

    async def find_last(self, state: AdmittedCall, policy: Policy | None) -> StoredTicket | None:
        """Return the newest ticket of a call; one of another tool, caller or policy is not a ticket of this call."""
        facts = collect_facts(state, policy=describe_policy(state.entry.tool, policy))
        known = await self._find_all(get_key(state), facts)
        return next((ticket for ticket in known if self.is_genuine(ticket)), None)

    async def _find_all(self, group: str, facts: JsonObject) -> "list[StoredTicket]":
        """Return all tickets of a call, newest first."""
        found = [read_ticket(record) for record in await self._states.select(StateQuery(KIND, group=group))]
        return [ticket for ticket in found if all(ticket.facts.get(name) == facts[name] for name in _CALL)]

    async def get(self, id: str) -> StoredTicket | None:
        """Look up a ticket by its id."""
        record = await self._states.get(KIND, id)
        return None if record is None else read_ticket(record)

    async def list(self, status: ApprovalStatus | None = None, limit: int | None = 100) -> "list[Approval]":
        """Return approvals, newest first, and mark those as expired that are too old to be answered."""
        if status in {"pending", "denied"}:  # the others also depend on the journal's calls, or change by being read
            await self.expire_all(datetime.now(UTC))
            found = await self._states.select(StateQuery(KIND, status=status, limit=limit))
            return await self.describe([read_ticket(record) for record in found])
        known = [await self.expire(read_ticket(record)) for record in await self._states.select(StateQuery(KIND))]
        shown = await self.describe(known)
        return [approval for approval in shown if status in {None, approval.status}][:limit]

    async def list_page(
        self, *, is_pending: bool | None = None, before: str | None = None, limit: int = 100
    ) -> "list[Approval]":
        """Return some approvals, newest first: those that wait, those that do not, or all of them.

        `before` is the id of the last one of the page before.
        """
        await self.expire_all(datetime.now(UTC))
        query = StateQuery(
            KIND,
            status="pending" if is_pending else None,
            except_status="pending" if is_pending is False else None,
            before=before,
            limit=limit,
        )
        return await self.describe([read_ticket(record) for record in await self._states.select(query)])

    async def read_heads(self, *, is_pending: bool, limit: int) -> "list[StateRecord]":
        """Return the newest records of approvals without their content, to count them and to see changes."""
        query = StateQuery(
            KIND,
            status="pending" if is_pending else None,
            except_status=None if is_pending else "pending",
            limit=limit,
            is_brief=True,
        )
        now, found = datetime.now(UTC), await self._states.select(query)
        return [record for record in found if not is_pending or not _is_expired(record, now)]

    async def describe(self, tickets: "Sequence[StoredTicket]") -> "list[Approval]":
        """Return what may be shown of tickets; what became of approved calls is read from the journal."""
        keys = [ticket.answer.key or "" for ticket in tickets if ticket.answer and ticket.record.status == "executing"]
        entries = await self.journal.find_many(keys)
        return [_to_approval(ticket, entries) for ticket in tickets]

    def read_arguments(self, ticket: StoredTicket) -> JsonObject:
        """Return the exact arguments of a ticket that is not finished.

        Raises:
            SecretError: They were changed, or sealed with another key.
        """
        sealed = ticket.record.sealed or b""
        return json.loads(self._key.unseal(sealed, bound=f"{ticket.record.id} {ticket.bind()}"))

    async def expire(self, ticket: StoredTicket) -> StoredTicket:
        """Mark a pending ticket that is too old as expired, and erase its arguments."""
        if ticket.record.status != "pending" or not _is_expired(ticket.record, datetime.now(UTC)):
            return ticket
        return await self._change(ticket, "expired", ticket.facts, sealed=None)

    async def expire_all(self, now: datetime) -> None:
        """Erase the arguments of all calls that are too old to be answered."""
        query = StateQuery(KIND, status="pending", expired_at=_to_microseconds(now))
        for record in await self._states.select(query):
            await self.expire(read_ticket(record))

    async def answer(
        self, ticket: StoredTicket, answer: Answer, *, by: str | None, ran: JsonObject | None
    ) -> StoredTicket:
        """Record the answer of a pending ticket; return the ticket as it is now, with the answer that came first."""
        facts = self._add_answer(ticket, answer, {"by": by, "ran": ran})
        if not answer.approved:
            return await self._change(ticket, "denied", facts, sealed=None)
        return await self._change(ticket, "executing", facts, sealed=ticket.record.sealed)

    async def record(self, state: AdmittedCall, policy: Policy | None, answer: Answer, by: str | None) -> StoredTicket:
        """Record the answer of an approver in this process; return the record, with the answer that came first.

        It answers the ticket of the call, if one is pending: no other process needs its arguments any more.
        """
        group, now = get_key(state), datetime.now(UTC)
        facts = collect_facts(state, policy=describe_policy(state.entry.tool, policy))
        known = await self._find_all(group, facts)
        status: ApprovalStatus = "executing" if answer.approved else "denied"
        details: JsonObject = {"by": by, "ran": facts["args"] if answer.approved else None, "here": True}
        for ticket in known:
            if ticket.record.status == "pending" and ticket.answer is None:
                return await self._change(ticket, status, self._add_answer(ticket, answer, details), sealed=None)
            if ticket.is_answered_elsewhere and self.is_genuine(ticket):
                return ticket
        record = self._build_record(group, facts, len(known), status=status, now=now)
        record = record._replace(data=json.dumps(self._add_answer(StoredTicket(record, facts), answer, details)))
        existing = await self._states.insert(record)
        return read_ticket(record if existing is None else existing)

    def _build_record(
        self, group: str, facts: JsonObject, number: int, *, status: ApprovalStatus, now: datetime
    ) -> StateRecord:
        """Build the nth record of a call; its id is the same in every process, so that concurrent ones agree."""
        digest = sha256(canonical_json([group, {name: facts[name] for name in _CALL}, number])).digest()[:10]
        return StateRecord(
            KIND,
            f"{_PREFIX}{base64.b32encode(digest).decode().lower()}",
            status,
            "",
            created_at=_to_microseconds(now),
            group=group,
            expires_at=_to_microseconds(now + self._ttl),
        )

    def _add_answer(self, ticket: StoredTicket, answer: Answer, details: JsonObject) -> JsonObject:
        said: JsonObject = {**answer._asdict(), "at": _to_microseconds(datetime.now(UTC)), **details}
        signed = self._key.sign(_describe_answer(ticket, said), bound=_ANSWER_PURPOSE)
        return {**ticket.facts, "answer": {**said, "proof": signed.rpartition(".")[2]}}

    async def finish(self, ticket: StoredTicket) -> None:
        """Mark an approved call as run, and erase its arguments."""
        await self._change(ticket, "finished", ticket.facts, sealed=None)

    async def _change(
        self, ticket: StoredTicket, status: ApprovalStatus, facts: JsonObject, *, sealed: bytes | None
    ) -> StoredTicket:
        old = ticket.record
        record = old._replace(status=status, data=json.dumps(facts), sealed=sealed, version=old.version + 1)
        current = await self._states.replace(record)
        return read_ticket(record if current is None else current)


def open_office(settings: TicketSettings) -> TicketOffice | None:
    """Return the ticket office of an executor; `None` if its journal has no room for tickets."""
    states = settings.journal.states
    if states is None:
        return None
    key = get_process_key() if settings.key is None else StateKey(settings.key)
    return TicketOffice(settings.journal, states, key, ttl_seconds=settings.ttl_seconds)


def get_key(state: AdmittedCall) -> str:
    """Return the idempotency key of a call, without beginning it in the journal."""
    return compute_identity(state.call, state.arguments, state.ctx)[1]


def read_ticket(record: StateRecord) -> StoredTicket:
    """Return the ticket of a record."""
    return StoredTicket(record, json.loads(record.data))


def restore_context(ticket: StoredTicket) -> ToolContext:
    """Build the context in which the call of a ticket was made; without its stash, attachments, events and gates."""
    facts = ticket.facts
    folder = facts["working_dir"]
    context = ToolContext(
        facts["session_id"],
        turn_id=facts["turn_id"],
        caller=facts["caller"],
        working_dir=Path(folder["path"]) if is_object(folder) else folder,
    )
    context.tainted = facts["tainted"]
    return context


def _to_approval(ticket: StoredTicket, entries: "Mapping[str, JournalEntry]") -> Approval:
    record, facts = ticket
    answer: JsonObject = facts.get("answer") or {}
    status = cast("ApprovalStatus", record.status)
    entry = entries.get(answer.get("key") or "") if status == "executing" else None
    if entry is not None and entry.state == "interrupted":
        status = "interrupted"
    elif entry is not None and entry.state == "finished" and entry.attempts:
        status = "finished"
    return Approval(
        id=record.id,
        status=status,
        tool=facts["tool"],
        tool_call_id=facts["tool_call_id"],
        args=facts["args"],
        shown=facts["shown"],
        reasons=tuple(facts.get("reasons", ())),
        session_id=facts["session_id"],
        turn_id=facts["turn_id"],
        caller=facts["caller"],
        created_at=_to_moment(record.created_at),
        expires_at=_to_moment(record.expires_at or 0),
        answered_at=_to_moment(answer["at"]) if answer else None,
        answered_by=answer.get("by"),
        ran=answer.get("ran"),
    )


def _check_digits(text: str) -> str:
    """Return digits that tell a ticket of an unknown key from one whose key id was changed."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_ID_CHARS]


def _describe_answer(ticket: StoredTicket, answer: JsonObject) -> str:
    return sha256(canonical_json([ticket.record.id, ticket.bind(), answer])).hexdigest()


def _is_expired(record: StateRecord, now: datetime) -> bool:
    return record.expires_at is not None and record.expires_at <= _to_microseconds(now)


def _to_microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _to_moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
