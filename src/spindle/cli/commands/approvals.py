"""`spindle approvals …`: list, show and answer calls that wait for a person's approval."""

import dataclasses
import json as json_format
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import anyio
from cyclopts import App, Parameter

from spindle.cli.approval_sources import ApprovalDesk, open_approvals
from spindle.cli.commands.call import print_report
from spindle.cli.main import OK, to_report_exit_code
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json
from spindle.cli.output import Output, print_message
from spindle.errors import UsageError
from spindle.execution.tickets import Approval, ApprovalStatus
from spindle.json_types import JsonObject

Id = Annotated[str, Parameter(help="The id of the approval, the start of it, or the ticket.")]
By = Annotated[str | None, Parameter(name="--by", help="Who answers; by default the user of this terminal.")]

Local = Annotated[bool, Parameter(negative="", help="Use the journal itself, even if a server runs with this state.")]

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
    local: Local = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """List the calls that wait, newest first."""
    status: ApprovalStatus | None = only or (None if everything else "pending")
    source, out = open_approvals(where.load(), is_local=local), Output()
    found = anyio.run(source.list, status)
    if json:
        out.json({"approvals": [_to_json(each) for each in found]})
    elif found:
        rows = [[each.id, _describe_status(each), each.tool, each.shown] for each in found]
        out.table(["id", "status", "tool", "call"], rows, ["cyan", "", "bold"])
    else:
        print_message("no call waits for approval" if status == "pending" else "no matching approvals")
    return OK


@approvals.command
def show(id: Id, /, *, json: Json = False, local: Local = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """Show one call that waits, or was answered, in full."""
    source, out = open_approvals(where.load(), is_local=local), Output()
    approval = anyio.run(source.show, id)
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
def approve(
    id: Id,
    /,
    *,
    by: By = None,
    json: Json = False,
    local: Local = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Approve a call, run it and print its outcome."""
    return _approve(open_approvals(where.load_for_tools(), by=by, is_local=local), id, (), json=json)


@approvals.command
def deny(
    id: Id,
    /,
    *,
    by: By = None,
    json: Json = False,
    local: Local = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Deny a call; its tool need not be there any more."""
    report = anyio.run(open_approvals(where.load(), by=by, is_local=local).deny, id)
    _print(report, json=json)
    is_denied = report["code"] is not None and report["reason"] is None
    return OK if is_denied else to_report_exit_code(report)


@approvals.command
def edit(
    id: Id,
    /,
    *arguments: Annotated[str, Parameter(help="key=value or key:=JSON; the other arguments stay as they are.")],
    by: By = None,
    json: Json = False,
    local: Local = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Change arguments of a call, then approve it, run it and print its outcome."""
    if not arguments:
        raise UsageError("name at least one argument to change, such as amount=3", field="arguments")
    return _approve(open_approvals(where.load_for_tools(), by=by, is_local=local), id, arguments, json=json)


def _approve(source: ApprovalDesk, id: str, changes: tuple[str, ...], *, json: bool) -> int:
    report = anyio.run(source.approve, id, changes)
    _print(report, json=json)
    return to_report_exit_code(report)


def _print(report: JsonObject, *, json: bool) -> None:
    if json:
        Output().json(report)
    else:
        print_report(Output(), report)


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
