"""Where the command `spindle approvals` reads and answers approvals: in the running server, or in the journal itself.

The running server comes first: its upstream servers are connected, and a client that waits gets the answer there.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple, Protocol

import anyio

from spindle.calls import CallOutcome, RawArgs
from spindle.cli.arguments import parse_arguments
from spindle.cli.config.loader import Config
from spindle.cli.options import build_unknown_error, restrict_servers
from spindle.cli.prompts import get_user
from spindle.cli.running_server import RUN_SECONDS, RunningServer, find_server, quote_part
from spindle.cli.runtime import open_runtime
from spindle.cli.runtime_stores import build_journal, read_state_key
from spindle.errors import CommandError, UsageError
from spindle.execution.executor import Executor
from spindle.execution.outcome_report import report_outcome
from spindle.execution.ticket_edits import change_arguments
from spindle.execution.ticket_settings import TicketSettings
from spindle.execution.tickets import Approval, ApprovalStatus, StoredTicket, TicketOffice, open_office
from spindle.json_types import JsonObject
from spindle.tools.registry import ToolRegistry

_MIN_CHARS = 5
_PAGE = 100


class ApprovalDesk(Protocol):
    """A place with approvals; what it answers is the same everywhere."""

    async def list(self, status: ApprovalStatus | None) -> Sequence[Approval]:
        """Return approvals, newest first."""
        ...

    async def show(self, given: str) -> Approval:
        """Return one approval, by its id, the start of it, or its ticket."""
        ...

    async def approve(self, given: str, changes: Sequence[str]) -> JsonObject:
        """Approve a call with changed arguments, if there are any, and return the report of its outcome."""
        ...

    async def deny(self, given: str) -> JsonObject:
        """Deny a call, and return the report of its outcome."""
        ...


def open_approvals(config: Config, *, by: str | None = None, is_local: bool = False) -> ApprovalDesk:
    """Return the approvals of the running server of this state; without one, those of the journal."""
    server = None if is_local else find_server(config, by)
    return JournalApprovals(config, by) if server is None else ServedApprovals(server)


class _Found(NamedTuple):
    ticket: StoredTicket
    text: str
    """The ticket as it is given to `Executor.resume`."""


@dataclass(frozen=True, slots=True)
class JournalApprovals:
    """The approvals of the journal; an approved call runs in this process."""

    config: Config
    by: str | None = None

    async def list(self, status: ApprovalStatus | None) -> Sequence[Approval]:
        """Return approvals, newest first."""
        async with self._open_office() as office:
            return await office.list(status, limit=None)

    async def show(self, given: str) -> Approval:
        """Return one approval."""
        async with self._open_office() as office:
            [approval] = await office.describe([(await self._find(office, given)).ticket])
            return approval

    async def approve(self, given: str, changes: Sequence[str]) -> JsonObject:
        """Approve a call, run it, and return the report of its outcome."""
        async with self._open_office() as office:
            found = await self._find(office, given)
        tool = found.ticket.facts["tool"]
        async with open_runtime(restrict_servers(self.config, tool)) as runtime:
            args: RawArgs = None
            if changes:
                entry = runtime.registry.entry(tool)
                schema: JsonObject = {} if entry is None else entry.tool.describe()["input_schema"]
                parsed = parse_arguments(tuple(changes), None, schema)
                async with self._open_office() as office:
                    args = change_arguments(office, found.ticket, parsed)
            by = self.by or get_user()
            outcome: CallOutcome = await runtime.executor.resume(found.text, approved=True, args=args, by=by)
            return await report_outcome(outcome, None)

    async def deny(self, given: str) -> JsonObject:
        """Deny a call; its tool need not be there any more."""
        async with self._open_office() as office:
            found = await self._find(office, given)
            executor = Executor(ToolRegistry(), journal=office.journal, state_key=read_state_key(self.config))
            outcome = await executor.resume(found.text, approved=False, by=self.by or get_user())
            return await report_outcome(outcome, None)

    async def _find(self, office: TicketOffice, given: str) -> _Found:
        wanted = get_id_start(given)
        known = [each.id for each in await office.list(limit=None)]
        ticket = await office.get(choose_id(given, wanted, known))
        if ticket is None:
            raise build_unknown_approval(wanted, known)
        return _Found(ticket, given if "." in given else office.sign(ticket))

    @asynccontextmanager
    async def _open_office(self) -> AsyncGenerator[TicketOffice]:
        config = self.config
        if config.journal is None:
            raise config.error(("journal", "path"), "the journal is kept in memory, where no call can wait; set a path")
        async with build_journal(config) as journal:
            office = open_office(TicketSettings(journal, read_state_key(config), ttl_seconds=1, policy=None))
            if office is None:  # pragma: no cover - every journal of a configuration can keep approvals
                raise config.error(("journal", "path"), "this journal cannot keep approvals")
            yield office


@dataclass(frozen=True, slots=True)
class ServedApprovals:
    """The approvals of a running server; an approved call runs there."""

    server: RunningServer

    async def list(self, status: ApprovalStatus | None) -> Sequence[Approval]:
        """Return approvals, newest first."""
        asked = "all" if status is None else "pending" if status == "pending" else "answered"
        found = [_read_approval(each) for each in await self._list(asked, full=True)]
        return [each for each in found if status in {None, each.status}]

    async def show(self, given: str) -> Approval:
        """Return one approval."""
        return _read_approval((await self._find(given))["approval"])

    async def approve(self, given: str, changes: Sequence[str]) -> JsonObject:
        """Approve a call, which runs in the server, and return the report of its outcome."""
        found = await self._find(given)
        body: JsonObject = {"conflict": "outcome", "ticket": given if "." in given else None}
        if changes:
            body["changes"] = parse_arguments(tuple(changes), None, found["input_schema"] or {})
        return await self._answer(found, "approve", body)

    async def deny(self, given: str) -> JsonObject:
        """Deny a call, and return the report of its outcome."""
        found = await self._find(given)
        return await self._answer(found, "deny", {"conflict": "outcome", "ticket": given if "." in given else None})

    async def _answer(self, found: JsonObject, answer: str, body: JsonObject) -> JsonObject:
        path = f"/approvals/{quote_part(found['approval']['id'])}/{answer}"
        send = partial(self.server.post, path, body, timeout_seconds=RUN_SECONDS)
        report: JsonObject = (await _in_thread(send))["outcome"]
        if report["artifact"] is not None:  # the id would be an id of the server's spool
            report["artifact"]["id"] = None
        return report

    async def _find(self, given: str) -> JsonObject:
        wanted = get_id_start(given)
        known = [str(each["id"]) for each in await self._list("all", full=False)]
        path = f"/approvals/{quote_part(choose_id(given, wanted, known))}"
        return await _in_thread(partial(self.server.get, path))

    async def _list(self, status: str, *, full: bool) -> "list[JsonObject]":
        found: list[JsonObject] = []
        cursor: str | None = None
        while True:
            read = partial(
                self.server.get, "/approvals", status=status, full=str(full).lower(), limit=_PAGE, cursor=cursor
            )
            page = await _in_thread(read)
            found += page["approvals"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found


def get_id_start(given: str) -> str:
    """Return the id, or the start of it, of an approval that was named by it or by its ticket.

    Raises:
        UsageError: It is too short to name one.
    """
    wanted = given.partition("-")[0]
    if len(wanted) < _MIN_CHARS:
        raise UsageError(f"{given!r} is too short; use at least {_MIN_CHARS} characters of the id", field="id")
    return wanted


def choose_id(given: str, wanted: str, known: Sequence[str]) -> str:
    """Return the id that starts so.

    Raises:
        UsageError: Several ids start so.
        CommandError: No id starts so.
    """
    matching = [each for each in known if each.startswith(wanted)]
    exact = [each for each in matching if each == wanted] or matching
    if len(exact) > 1:
        raise UsageError(f"{given!r} matches {len(exact)} approvals; use more characters of the id", field="id")
    if not exact:
        raise build_unknown_approval(wanted, known)
    return exact[0]


def build_unknown_approval(wanted: str, known: Sequence[str]) -> CommandError:
    """Build the error for an approval that does not exist."""
    return build_unknown_error("approval", wanted, known, "`spindle approvals list --all` shows all")


async def _in_thread(call: partial[JsonObject]) -> JsonObject:
    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)


def _read_approval(item: JsonObject) -> Approval:
    def read_time(name: str) -> datetime | None:
        return None if item[name] is None else datetime.fromisoformat(item[name])

    created_at, expires_at = read_time("created_at"), read_time("expires_at")
    if created_at is None or expires_at is None:
        raise ValueError("an approval without its times")
    return Approval(
        id=item["id"],
        status=item["status"],
        tool=item["tool"],
        tool_call_id=item["tool_call_id"],
        args=item["args"] or {},
        shown=item["shown"],
        reasons=tuple(item["reasons"]),
        session_id=item["session_id"],
        turn_id=item["turn_id"],
        caller=item["caller"],
        created_at=created_at,
        expires_at=expires_at,
        answered_at=read_time("answered_at"),
        answered_by=item["answered_by"],
        ran=item["ran"],
    )
