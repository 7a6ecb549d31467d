"""`spindle journal …`: list, show and follow recorded calls."""

import dataclasses
import json as json_format
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from cyclopts import App, Parameter

from spindle.cli.main import INTERRUPTED, OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json, build_unknown_error
from spindle.cli.output import Output, flatten, format_duration, print_message
from spindle.cli.runtime import list_journal_files
from spindle.errors import JournalError, UsageError
from spindle.journal.entries import EntryState, JournalEntry, Row, to_entry

_COLUMNS = ", ".join(Row._fields)
_BUSY_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CallFilter:
    """A filter for recorded calls."""

    limit: int | None = None
    state: EntryState | None = None
    tool: str | None = None
    session: str | None = None
    failed: bool = False
    id: str | None = None
    """A `tool_call_id` or a prefix of one."""


@dataclass(slots=True)
class JournalFiles:
    """A read-only view of all files of one journal."""

    path: Path
    _last_seq: dict[Path, int] = field(default_factory=dict[Path, int])
    _running: dict[Path, set[str]] = field(default_factory=dict[Path, set[str]])

    def read(self, wanted: CallFilter) -> list[JournalEntry]:
        """Return the matching calls, newest first.

        Raises:
            JournalError: A file is not a journal, or cannot be read.
        """
        terms, values = _terms(wanted)
        where = f"WHERE {' AND '.join(terms)}" if terms else ""
        # The stored state may be outdated: started calls of an exited process count as interrupted.
        limit = -1 if wanted.limit is None or wanted.state in {"started", "interrupted"} else wanted.limit
        found: list[JournalEntry] = []
        for file in self._files():
            found += (entry for _, entry in _select(file, f"{where} ORDER BY seq DESC LIMIT ?", [*values, limit]))
        if wanted.state is not None:
            found = [entry for entry in found if entry.state == wanted.state]
        return sorted(found, key=lambda entry: entry.started_at, reverse=True)[: wanted.limit]

    def read_changes(self) -> list[JournalEntry]:
        """Return the calls that started or finished since the last time, oldest first."""
        found: list[JournalEntry] = []
        for file in self._files():
            found += self._read_file_changes(file)
        return sorted(found, key=lambda entry: entry.ended_at or entry.started_at)

    def skip_existing(self) -> None:
        """Mark all current calls as seen."""
        self.read_changes()

    def _read_file_changes(self, file: Path) -> Iterator[JournalEntry]:
        last, running = self._last_seq.get(file, 0), self._running.setdefault(file, set())
        marks = ", ".join("?" * len(running))
        clause = f"WHERE seq > ? OR idempotency_key IN ({marks}) ORDER BY seq"
        for seq, entry in _select(file, clause, [last, *running]):
            key = entry.idempotency_key
            if entry.state == "started":
                is_new = key not in running
                running.add(key)
            else:
                is_new = seq > last or key in running
                running.discard(key)
            self._last_seq[file] = max(self._last_seq.get(file, 0), seq)
            if is_new:
                yield entry

    def _files(self) -> list[Path]:
        return [file for file in list_journal_files(self.path) if file.is_file()]


def _terms(wanted: CallFilter) -> tuple[list[str], list[Any]]:
    pairs: list[tuple[str, Any]] = []
    if wanted.state == "finished":
        pairs.append(("state = ?", "finished"))
    elif wanted.state is not None:
        pairs.append(("ended_at IS NULL AND 1 = ?", 1))
    if wanted.tool is not None:
        pairs.append(("tool = ?", wanted.tool))
    if wanted.session is not None:
        pairs.append(("session_id = ?", wanted.session))
    if wanted.failed:
        pairs.append(("code IS NOT NULL AND 1 = ?", 1))
    if wanted.id is not None:
        pairs.append(("substr(tool_call_id, 1, ?) = ", len(wanted.id)))
    terms = [f"{term}?" if term.endswith("= ") else term for term, _ in pairs]
    values = [value for _, value in pairs]
    return terms, [*values, wanted.id] if wanted.id is not None else values


def _select(file: Path, clause: str, values: Sequence[Any]) -> list[tuple[int, JournalEntry]]:
    is_alive = _has_living_writer(file)
    query = f"SELECT seq, {_COLUMNS} FROM calls {clause}"  # noqa: S608 - constants only
    try:
        with closing(_connect(file)) as connection:
            rows = connection.execute(query, values).fetchall()
    except sqlite3.Error as error:
        raise JournalError(
            f"cannot read the journal {file}: {error}; check that it is a Spindle journal and that the disk is not full"
        ) from error
    return [(row[0], _entry(row[1:], is_alive=is_alive)) for row in rows]


def _connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=_BUSY_SECONDS)


def _entry(values: Sequence[Any], *, is_alive: bool) -> JournalEntry:
    texts = (value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value for value in values)
    row = Row._make(texts)
    is_lost = row.state == "started" and row.ended_at is None and not is_alive
    return to_entry(row._replace(state="interrupted") if is_lost else row)


def _has_living_writer(file: Path) -> bool:
    """Return whether the last lock holder still runs; trying the lock itself could block a writer."""
    try:
        pid = int(Path(f"{file}.lock").read_text(encoding="ascii").strip())
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


POLL_SECONDS = 0.3
State = Literal["started", "finished", "interrupted"]
ToolName = Annotated[str | None, Parameter(help="Only calls of this tool.")]

journal = App(name="journal", help="Inspect recorded calls and their outcomes.")


@journal.command(name="list")
def list_calls(
    *,
    limit: Annotated[int, Parameter(name=("--limit", "-n"), help="Maximum number of calls, 20 by default.")] = 20,
    only: Annotated[State | None, Parameter(help="Only calls in this state.")] = None,
    tool: ToolName = None,
    session: Annotated[str | None, Parameter(help="Only calls of this session.")] = None,
    failed: Annotated[bool, Parameter(negative="", help="Only calls that ended with an error.")] = False,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """List the calls, newest first."""
    journals = _journals(where)
    wanted = CallFilter(limit=max(limit, 0), state=only, tool=tool, session=session, failed=failed)
    entries, out = journals.read(wanted), Output()
    if json:
        out.json({"calls": [entry_to_json(entry) for entry in entries]})
    elif entries:
        rows = [_row(entry) for entry in entries]
        out.table(["time", "call", "outcome", "duration", "arguments"], rows, ["dim", "cyan", "", "dim"])
    else:
        print_message("no matching calls in the journal", f"the journal is {journals.path}")
    return OK


@journal.command
def show(
    id: Annotated[str, Parameter(help="The id of the call, or the start of it.")],
    /,
    *,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Show everything recorded about one call."""
    journals = _journals(where)
    found = journals.read(CallFilter(id=id))
    exact = [entry for entry in found if entry.tool_call_id == id] or found
    if not exact:
        known = [entry.tool_call_id for entry in journals.read(CallFilter(limit=200))]
        raise build_unknown_error("call", id, known, "`spindle journal list` shows the newest")
    others = {entry.tool_call_id for entry in exact}
    if len(others) > 1:
        raise UsageError(f"{id!r} matches {len(others)} calls: {', '.join(sorted(others)[:3])} …", field="id")
    entry, out = exact[0], Output()
    if json:
        out.json(entry_to_json(entry))
        return OK
    _print(out, entry)
    return OK


@journal.command
def follow(*, tool: ToolName = None, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """Print each call when it starts and when it finishes, until Ctrl-C; with --json, one object per line."""
    journals, out = _journals(where), Output()
    journals.skip_existing()
    try:
        while True:
            for entry in journals.read_changes():
                if tool is None or entry.tool == tool:
                    out.ndjson(entry_to_json(entry)) if json else _follow_line(out, entry)
            out.stream.flush()
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return INTERRUPTED  # the normal way to stop; not an error to report


def entry_to_json(entry: JournalEntry) -> dict[str, Any]:
    """Return the call as JSON data; the keys are stable."""
    facts = {each.name: getattr(entry, each.name) for each in dataclasses.fields(entry)}
    seconds = _seconds(entry)
    return facts | {"duration_ms": None if seconds is None else round(seconds * 1000, 3)}


def _journals(where: ConfigOptions) -> JournalFiles:
    config = where.load()
    if config.journal is None:
        raise config.error(("journal", "path"), "the journal is kept in memory and cannot be read; set a path")
    return JournalFiles(config.journal)


def _row(entry: JournalEntry) -> list[str]:
    when = entry.started_at.astimezone().strftime("%m-%d %H:%M:%S")
    # Ids made by `spindle call` start with the tool name; those of MCP clients and models do not.
    named, tool = entry.tool_call_id, entry.tool
    call = named if named.startswith(tool) else f"{tool} {named}"
    return [when, call, describe_outcome(entry), _format_took(entry), json_format.dumps(entry.args, ensure_ascii=False)]


def describe_outcome(entry: JournalEntry) -> str:
    """Return the outcome of a call as one word."""
    return entry.code or "ok" if entry.state == "finished" else "running" if entry.state == "started" else entry.state


def _format_took(entry: JournalEntry) -> str:
    seconds = _seconds(entry)
    return "" if seconds is None else format_duration(seconds)


def _seconds(entry: JournalEntry) -> float | None:
    # A call that never ran is recorded with a start slightly after its end.
    if entry.ended_at is None or not entry.attempts:
        return None
    return max(0.0, (entry.ended_at - entry.started_at).total_seconds())


def _follow_line(out: Output, entry: JournalEntry) -> None:
    when, call, what, took, args = _row(entry)
    line = f"{when}  {call}  {what}  {took}  {flatten(args)}"
    out.text(line if out.width is None else line[: out.width])


def _print(out: Output, entry: JournalEntry) -> None:
    ended = "" if entry.ended_at is None else f", took {_format_took(entry)}"
    started = entry.started_at.astimezone().isoformat(sep=" ", timespec="seconds")
    facts = [
        f"{describe_outcome(entry)}{ended}, started {started}",
        f"session {entry.session_id}, turn {entry.turn_id}",
        f"attempts: {entry.attempts}",
        f"checksum: {entry.checksum}",
    ]
    if entry.artifact_id is not None:
        facts.append(f"stored in full: spindle spool cat {entry.artifact_id}")
    out.tree(f"{entry.tool_call_id}  {entry.tool}", [(fact, ()) for fact in facts])
    out.line(out.style("arguments:", "dim"))
    out.text(json_format.dumps(entry.args, indent=2, ensure_ascii=False))
    out.line(out.style("error:" if entry.error else "result:", "dim"))
    result = entry.error or str((entry.result or {}).get("value", ""))
    out.text(result or "(nothing)")
