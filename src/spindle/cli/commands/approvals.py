"""`spindle approvals …`: list, show and answer calls that wait for a person's approval."""

import dataclasses
import json as json_format
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, NamedTuple

import anyio
from cyclopts import App, Parameter

from spindle.calls import CallOutcome, Err, RawArgs
from spindle.cli.arguments import parse_arguments
from spindle.cli.commands.call import get_user, print_json, print_text
from spindle.cli.config.loader import Config
from spindle.cli.main import OK, to_exit_code
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json, build_unknown_error, restrict_servers
from spindle.cli.output import Output, print_message
from spindle.cli.runtime import open_runtime
from spindle.cli.runtime_stores import build_journal, read_state_key
from spindle.errors import SecretError, UsageError
from spindle.execution.executor import Executor
from spindle.execution.ticket_settings import TicketSettings
from spindle.execution.tickets import Approval, ApprovalStatus, StoredTicket, TicketOffice, open_office
from spindle.json_types import JsonObject
from spindle.tools.registry import ToolRegistry

Id = Annotated[str, Parameter(help="The id of the approval, the start of it, or the ticket.")]
By = Annotated[str | None, Parameter(name="--by", help="Who answers; by default the user of this terminal.")]

_MIN_CHARS = 5
_WORDS = {
    "executing": "approved, running",
    "interrupted": "approved, interrupted by a crash",
    "finished": "approved, ended",
}

approvals = App(name="approvals", help="Answer calls that wait for a person's approval.")


@approvals.command(name="list")
def list_approvals(
    *,
    only: Annotated[ApprovalStatus | None, Parameter(help="Only approvals with this status.")] = None,
    everything: Annotated[
        bool, Parameter(name="--all", negative="", help="Also those that were answered or have expired.")
    ] = False,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """List the calls that wait, newest first."""
    status: ApprovalStatus | None = only or (None if everything else "pending")
    found, out = anyio.run(_read_all, where.load(), status), Output()
    if json:
        out.json({"approvals": [_to_json(each) for each in found]})
    elif found:
        rows = [[each.id, _describe_status(each), each.tool, each.shown] for each in found]
        out.table(["id", "status", "tool", "call"], rows, ["cyan", "", "bold"])
    else:
        print_message("no call waits for approval" if status == "pending" else "no matching approvals")
    return OK


@approvals.command
def show(id: Id, /, *, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """Show one call that waits, or was answered, in full."""
    approval, out = anyio.run(_show, where.load(), id), Output()
    if json:
        out.json(_to_json(approval))
        return OK
    facts = [
        _describe_status(approval),
        f"session {approval.session_id}, turn {approval.turn_id}, call {approval.tool_call_id}",
        f"asked {_format_time(approval.created_at)}, expires {_format_time(approval.expires_at)}",
    ]
    if approval.answered_at is not None:
        who = f" by {approval.answered_by}" if approval.answered_by else ""
        facts.append(f"answered {_format_time(approval.answered_at)}{who}")
    facts += [f"why: {reason}" for reason in approval.reasons]
    if approval.caller is not None:
        facts.append(f"caller: {json_format.dumps(approval.caller, ensure_ascii=False)}")
    out.tree(f"{approval.id}  {approval.tool}", [(fact, ()) for fact in facts])
    out.line(("shown:", "dim"))
    out.text(approval.shown)
    out.line(("arguments:", "dim"))
    out.text(json_format.dumps(approval.args, indent=2, ensure_ascii=False))
    if approval.ran is not None and approval.ran != approval.args:
        out.line(("edited to:", "dim"))
        out.text(json_format.dumps(approval.ran, indent=2, ensure_ascii=False))
    return OK


@approvals.command
def approve(id: Id, /, *, by: By = None, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """Approve a call, run it and print its outcome."""
    return anyio.run(partial(_approve, where.load_for_tools(), id, by=by, json=json))


@approvals.command
def deny(id: Id, /, *, by: By = None, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """Deny a call; its tool need not be there any more."""
    return anyio.run(partial(_deny, where.load(), id, by=by, json=json))


@approvals.command
def edit(
    id: Id,
    /,
    *arguments: Annotated[str, Parameter(help="key=value or key:=JSON; the other arguments stay as they are.")],
    by: By = None,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Change arguments of a call, then approve it, run it and print its outcome."""
    if not arguments:
        raise UsageError("name at least one argument to change, such as amount=3", field="arguments")
    config = where.load_for_tools()
    return anyio.run(partial(_approve, config, id, by=by, json=json, changes=arguments))


class _Found(NamedTuple):
    ticket: StoredTicket
    text: str
    """The ticket as it is given to `Executor.resume`."""


async def _approve(config: Config, given: str, *, by: str | None, json: bool, changes: tuple[str, ...] = ()) -> int:
    async with _open_office(config) as office:
        found = await _find(office, given)
    tool = found.ticket.facts["tool"]
    async with open_runtime(restrict_servers(config, tool)) as runtime:
        args: RawArgs = None
        if changes:
            entry = runtime.registry.entry(tool)
            schema: JsonObject = {} if entry is None else entry.tool.describe()["input_schema"]
            args = await _change_arguments(config, found, parse_arguments(changes, None, schema))
        outcome = await runtime.executor.resume(found.text, True, args, by or get_user())  # noqa: FBT003  as published
        await _print(outcome, json=json)
    return to_exit_code(outcome)


async def _deny(config: Config, given: str, *, by: str | None, json: bool) -> int:
    async with _open_office(config) as office:
        found = await _find(office, given)
        executor = Executor(ToolRegistry(), journal=office.journal, state_key=read_state_key(config))
        outcome = await executor.resume(found.text, approved=False, by=by or get_user())
        await _print(outcome, json=json)
    is_denied = isinstance(outcome.result, Err) and outcome.result.reason is None
    return OK if is_denied else to_exit_code(outcome)


async def _change_arguments(config: Config, found: _Found, changes: JsonObject) -> RawArgs:
    """Return the arguments of a call with some changes; `None` if they cannot be read, which `resume` then explains."""
    async with _open_office(config) as office:
        try:
            return office.read_arguments(found.ticket) | changes
        except SecretError:
            # The arguments of an answered call are erased; what was shown of them tells whether it is the same answer.
            return None if found.ticket.answer is None else found.ticket.facts["args"] | changes


async def _print(outcome: CallOutcome, *, json: bool) -> None:
    await (print_json(Output(), outcome, None) if json else print_text(Output(), outcome, None))


async def _show(config: Config, given: str) -> Approval:
    async with _open_office(config) as office:
        [approval] = await office.describe([(await _find(office, given)).ticket])
        return approval


async def _find(office: TicketOffice, given: str) -> _Found:
    wanted = given.partition("-")[0]
    if len(wanted) < _MIN_CHARS:
        raise UsageError(f"{given!r} is too short; use at least {_MIN_CHARS} characters of the id", field="id")
    known = await office.list(limit=None)
    matching = [each for each in known if each.id.startswith(wanted)]
    exact = [each for each in matching if each.id == wanted] or matching
    if len(exact) > 1:
        raise UsageError(f"{given!r} matches {len(exact)} approvals; use more characters of the id", field="id")
    ticket = await office.get(exact[0].id) if exact else None
    if ticket is None:
        hint = "`spindle approvals list --all` shows all"
        raise build_unknown_error("approval", wanted, [each.id for each in known], hint)
    return _Found(ticket, given if "." in given else office.sign(ticket))


async def _read_all(config: Config, status: ApprovalStatus | None) -> list[Approval]:
    async with _open_office(config) as office:
        return await office.list(status, limit=None)


@asynccontextmanager
async def _open_office(config: Config) -> AsyncGenerator[TicketOffice]:
    if config.journal is None:
        raise config.error(("journal", "path"), "the journal is kept in memory, where no call can wait; set a path")
    async with build_journal(config) as journal:
        office = open_office(TicketSettings(journal, read_state_key(config), ttl_seconds=1, policy=None))
        if office is None:  # pragma: no cover - every journal of a configuration can keep approvals
            raise config.error(("journal", "path"), "this journal cannot keep approvals")
        yield office


def _describe_status(approval: Approval) -> str:
    if approval.status == "pending":
        left = max(approval.expires_at - datetime.now(UTC), timedelta())
        return f"pending, expires in {_format_left(left)}"
    who = f" by {approval.answered_by}" if approval.answered_by else ""
    word = _WORDS.get(approval.status, approval.status)
    return f"{word}{who}"


def _format_left(left: timedelta) -> str:
    minutes = int(left.total_seconds() // 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _format_time(moment: datetime) -> str:
    return moment.astimezone().isoformat(sep=" ", timespec="seconds")


def _to_json(approval: Approval) -> dict[str, Any]:
    return {each.name: getattr(approval, each.name) for each in dataclasses.fields(approval)}
