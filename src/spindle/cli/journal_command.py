"""`spindle journal …`: which calls were made, and what became of them."""

import dataclasses
import json as json_format
import time
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from spindle.cli.cells import duration
from spindle.cli.exits import INTERRUPTED, OK
from spindle.cli.journal_reader import Journals, Wanted
from spindle.cli.lookup import unknown
from spindle.cli.options import NOWHERE, Json, Where
from spindle.cli.output import Output, complain
from spindle.cli.terminal_text import one_line
from spindle.errors import UsageError
from spindle.journal.entries import JournalEntry

POLL_SECONDS = 0.3
State = Literal["started", "finished", "interrupted"]
ToolName = Annotated[str | None, Parameter(help="Only calls of this tool.")]

journal = App(name="journal", help="See which calls were made, and what became of them.")


@journal.command(name="list")
def list_calls(
    *,
    limit: Annotated[int, Parameter(name=("--limit", "-n"), help="At most so many; 20 unless said.")] = 20,
    only: Annotated[State | None, Parameter(help="Only calls in this state.")] = None,
    tool: ToolName = None,
    session: Annotated[str | None, Parameter(help="Only calls of this session.")] = None,
    failed: Annotated[bool, Parameter(negative="", help="Only calls that ended with an error.")] = False,
    json: Json = False,
    where: Where = NOWHERE,
) -> int:
    """List the calls, newest first."""
    journals = _journals(where)
    wanted = Wanted(limit=max(limit, 0), state=only, tool=tool, session=session, failed=failed)
    entries, out = journals.read(wanted), Output()
    if json:
        out.json({"calls": [facts_of(entry) for entry in entries]})
    elif entries:
        rows = [_row(entry) for entry in entries]
        out.table(["when", "call", "became", "took", "arguments"], rows, ["dim", "cyan", "", "dim"])
    else:
        complain("no such call is written down here", f"the journal is {journals.path}")
    return OK


@journal.command
def show(
    id: Annotated[str, Parameter(help="The call's id, or the beginning of it.")],
    /,
    *,
    json: Json = False,
    where: Where = NOWHERE,
) -> int:
    """Show all that is written down about one call."""
    journals = _journals(where)
    found = journals.read(Wanted(id=id))
    exact = [entry for entry in found if entry.tool_call_id == id] or found
    if not exact:
        known = [entry.tool_call_id for entry in journals.read(Wanted(limit=200))]
        raise unknown("call", id, known, "`spindle journal list` has the newest")
    others = {entry.tool_call_id for entry in exact}
    if len(others) > 1:
        raise UsageError(f"{id!r} fits {len(others)} calls: {', '.join(sorted(others)[:3])} …", field="id")
    entry, out = exact[0], Output()
    if json:
        out.json(facts_of(entry))
        return OK
    _print(out, entry)
    return OK


@journal.command
def follow(*, tool: ToolName = None, json: Json = False, where: Where = NOWHERE) -> int:
    """Print each call when it begins and when it ends, until Ctrl-C; with --json, one object a line."""
    journals, out = _journals(where), Output()
    journals.skip()
    try:
        while True:
            for entry in journals.news():
                if tool is None or entry.tool == tool:
                    out.ndjson(facts_of(entry)) if json else _follow_line(out, entry)
            out.stream.flush()
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return INTERRUPTED  # that is how one stops following; nothing needs to be said


def facts_of(entry: JournalEntry) -> dict[str, Any]:
    """What programs are told of a call; these keys stay."""
    facts = {each.name: getattr(entry, each.name) for each in dataclasses.fields(entry)}
    seconds = _seconds(entry)
    return facts | {"duration_ms": None if seconds is None else round(seconds * 1000, 3)}


def _journals(where: Where) -> Journals:
    config = where.load()
    if config.journal is None:
        raise config.error(("journal", "path"), "this journal is kept in memory, so there is none to read; give a path")
    return Journals(config.journal)


def _row(entry: JournalEntry) -> list[str]:
    when = entry.started_at.astimezone().strftime("%m-%d %H:%M:%S")
    # Ids that this command made begin with the tool; those of MCP clients and models do not say it.
    named, tool = entry.tool_call_id, entry.tool
    call = named if named.startswith(tool) else f"{tool} {named}"
    return [when, call, became(entry), _took(entry), json_format.dumps(entry.args, ensure_ascii=False)]


def became(entry: JournalEntry) -> str:
    """What became of a call, in a word."""
    return entry.code or "ok" if entry.state == "finished" else "running" if entry.state == "started" else entry.state


def _took(entry: JournalEntry) -> str:
    seconds = _seconds(entry)
    return "" if seconds is None else duration(seconds)


def _seconds(entry: JournalEntry) -> float | None:
    # A call that never ran is written down as begun a moment after it ended.
    if entry.ended_at is None or not entry.attempts:
        return None
    return max(0.0, (entry.ended_at - entry.started_at).total_seconds())


def _follow_line(out: Output, entry: JournalEntry) -> None:
    when, call, what, took, args = _row(entry)
    line = f"{when}  {call}  {what}  {took}  {one_line(args)}"
    out.text(line if out.width is None else line[: out.width])


def _print(out: Output, entry: JournalEntry) -> None:
    ended = "" if entry.ended_at is None else f", took {_took(entry)}"
    facts = [
        f"{became(entry)}{ended}, started {entry.started_at.astimezone().isoformat(sep=' ', timespec='seconds')}",
        f"session {entry.session_id}, turn {entry.turn_id}",
        f"attempts: {entry.attempts}",
        f"checksum: {entry.checksum}",
    ]
    if entry.artifact_id is not None:
        facts.append(f"kept whole: spindle spool cat {entry.artifact_id}")
    out.tree(f"{entry.tool_call_id}  {entry.tool}", [(fact, ()) for fact in facts])
    out.line(out.styled("arguments:", "dim"))
    out.text(json_format.dumps(entry.args, indent=2, ensure_ascii=False))
    out.line(out.styled("error:" if entry.error else "result:", "dim"))
    result = entry.error or str((entry.result or {}).get("value", ""))
    out.text(result or "(nothing)")
