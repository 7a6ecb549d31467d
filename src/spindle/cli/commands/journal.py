"""`spindle journal …`: list, show and follow recorded calls."""

import dataclasses
import json as json_format
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import anyio
from cyclopts import App, Parameter

from spindle.cli.call_timings import describe_timing
from spindle.cli.config.loader import Config
from spindle.cli.main import INTERRUPTED, OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json, build_unknown_error
from spindle.cli.output import Output, format_duration, print_message
from spindle.cli.runtime_stores import build_journal
from spindle.errors import JournalError, UsageError
from spindle.journal.entries import EntryState, JournalEntry
from spindle.journal.journal import Journal

_PAGE = 256
_SQLITE = b"SQLite format 3\0"


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

    def matches(self, entry: JournalEntry) -> bool:
        """Return whether a call passes the filter, apart from its state and the limit."""
        return (
            (self.tool is None or entry.tool == self.tool)
            and (self.session is None or entry.session_id == self.session)
            and (not self.failed or entry.code is not None)
            and (self.id is None or entry.tool_call_id.startswith(self.id))
        )


JournalSource: TypeAlias = Path | Callable[[], Journal]
"""A SQLite file, or a function that builds a journal elsewhere."""


async def read_calls(source: JournalSource, wanted: CallFilter) -> list[JournalEntry]:
    """Return the matching calls of a journal, newest first.

    Raises:
        JournalError: A file is not a journal, or cannot be read.
    """
    found: list[JournalEntry] = []
    places = (
        [file for file in [source, *_list_numbered_files(source)] if file.is_file()]
        if isinstance(source, Path)
        else [source]
    )
    for place in places:
        async with open_existing(place) as journal:
            found += await _find_calls(journal, wanted)
    return sorted(found, key=lambda entry: entry.started_at, reverse=True)[: wanted.limit]


async def find_call(source: JournalSource, id: str) -> JournalEntry:
    """Return the newest call with an id, or the one whose id starts with it.

    Raises:
        CommandError: There is no such call.
        UsageError: Several ids start with it.
        JournalError: The journal cannot be read.
    """
    found = await read_calls(source, CallFilter(id=id))
    exact = [entry for entry in found if entry.tool_call_id == id] or found
    if not exact:
        known = [entry.tool_call_id for entry in await read_calls(source, CallFilter(limit=200))]
        raise build_unknown_error("call", id, known, "`spindle journal list` shows the newest")
    others = {entry.tool_call_id for entry in exact}
    if len(others) > 1:
        raise UsageError(f"{id!r} matches {len(others)} calls: {', '.join(sorted(others)[:3])} …", field="id")
    return exact[0]


def _list_numbered_files(path: Path) -> list[Path]:
    """Return the files `journal-2.sqlite` … that older versions wrote for concurrent processes."""
    name = re.compile(rf"{re.escape(path.stem)}-[0-9]{{1,2}}{re.escape(path.suffix)}")
    near = path.parent.iterdir() if path.parent.is_dir() else ()
    return sorted(file for file in near if name.fullmatch(file.name))


@asynccontextmanager
async def open_existing(path: JournalSource) -> AsyncGenerator[Journal]:
    """Open a journal; a file of another format is rejected without being renamed.

    Raises:
        JournalError: The file is not a journal, or the journal cannot be read.
    """
    if not isinstance(path, Path):
        async with path() as journal:
            yield journal
        return
    try:
        with path.open("rb") as file:
            is_database = file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise JournalError(f"cannot read the journal {path}: {error.strerror}") from error
    if not is_database:
        raise JournalError(f"cannot read the journal {path}: the file is not a Spindle journal")
    async with Journal.sqlite(path) as journal:
        yield journal


async def _find_calls(journal: Journal, wanted: CallFilter) -> list[JournalEntry]:
    if wanted.id is not None and (exact := await journal.get(wanted.id)) is not None:
        return [exact]
    size = _PAGE
    while True:
        page = await journal.list(wanted.state, limit=size, session_id=wanted.session)
        found = [entry for entry in page if wanted.matches(entry)]
        if len(page) < size or (wanted.limit is not None and len(found) >= wanted.limit):
            return found
        size *= 4


class CallFollower:
    """Reads the calls that started or finished since the last time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seen: set[tuple[str, datetime]] = set()
        self._running: set[str] = set()

    async def skip_existing(self) -> None:
        """Mark all current calls as seen."""
        self._seen = set(map(_identity, await self._journal.list(limit=_PAGE)))
        self._running = {entry.idempotency_key for entry in await self._journal.list("started", limit=None)}

    async def read_changes(self) -> list[JournalEntry]:
        """Return the changed calls, oldest first."""
        known = await self._journal.find_many(list(self._running))
        changed = {key: entry for key, entry in known.items() if entry.state != "started"}
        changed |= {entry.idempotency_key: entry for entry in await self._read_new()}
        self._running -= changed.keys()
        self._running |= {key for key, entry in changed.items() if entry.state == "started"}
        return sorted(changed.values(), key=lambda entry: entry.ended_at or entry.started_at)

    async def _read_new(self) -> list[JournalEntry]:
        size = _PAGE
        while True:
            page = await self._journal.list(limit=size)
            new = list(takewhile(lambda entry: _identity(entry) not in self._seen, page))
            if len(new) < size:
                break
            size *= 4
        self._seen = set(map(_identity, page[:_PAGE]))
        return new


def _identity(entry: JournalEntry) -> tuple[str, datetime]:
    return entry.idempotency_key, entry.started_at


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
    path, shown = get_source(where.load())
    wanted = CallFilter(limit=max(limit, 0), state=only, tool=tool, session=session, failed=failed)
    entries, out = anyio.run(read_calls, path, wanted), Output()
    if json:
        out.json({"calls": [entry_to_json(entry) for entry in entries]})
    elif entries:
        rows = [_row(entry) for entry in entries]
        head = ["time", "call", "outcome", "duration", "arguments"]
        out.entries(head, rows, ["dim", "cyan", "", "dim"], droppable=(3, 0))
    else:
        print_message("no matching calls in the journal", f"the journal is {shown}")
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
    path, _ = get_source(where.load())
    entry, out = anyio.run(find_call, path, id), Output()
    if json:
        out.json(entry_to_json(entry))
        return OK
    _print(out, entry)
    return OK


@journal.command
def follow(*, tool: ToolName = None, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """Print each call when it starts and when it finishes, until Ctrl-C; with --json, one object per line."""
    with suppress(KeyboardInterrupt):  # the normal way to stop; not an error to report
        path, _ = get_source(where.load())
        is_new = isinstance(path, Path) and not _wait_for_file(path)
        anyio.run(partial(_print_changes, path, is_new=is_new, tool=tool, json=json))
    return INTERRUPTED


def _wait_for_file(path: Path) -> bool:
    """Wait until a file exists; return whether it did from the beginning."""
    existed = path.is_file()
    while not path.is_file():
        time.sleep(POLL_SECONDS)
    return existed


async def _print_changes(path: JournalSource, *, is_new: bool, tool: str | None, json: bool) -> None:
    out = Output()
    async with open_existing(path) as opened:
        follower = CallFollower(opened)
        if not is_new:
            await follower.skip_existing()
        while True:
            for entry in await follower.read_changes():
                if tool is None or entry.tool == tool:
                    out.ndjson(entry_to_json(entry)) if json else _follow_line(out, entry)
            out.stream.flush()
            await anyio.sleep(POLL_SECONDS)


def entry_to_json(entry: JournalEntry) -> dict[str, Any]:
    """Return the call as JSON data; the keys are stable."""
    facts = {each.name: getattr(entry, each.name) for each in dataclasses.fields(entry)}
    seconds = _seconds(entry)
    return facts | {"duration_ms": None if seconds is None else round(seconds * 1000, 3)}


def get_source(config: Config) -> tuple[JournalSource, str]:
    """Return the configured journal, and how to show it.

    Raises:
        InvalidConfigError: The journal is kept in memory.
    """
    if config.journal is None:
        raise config.error(("journal", "path"), "the journal is kept in memory and cannot be read; set a path")
    return config.journal if isinstance(config.journal, Path) else partial(build_journal, config), str(config.journal)


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
    out.row(f"{when}  {call}  {what}  {took}  {args}")


def _print(out: Output, entry: JournalEntry) -> None:
    ended = "" if entry.ended_at is None else f", took {_format_took(entry)}"
    started = entry.started_at.astimezone().isoformat(sep=" ", timespec="seconds")
    facts = [
        f"{describe_outcome(entry)}{ended}, started {started}",
        f"session {entry.session_id}, turn {entry.turn_id}",
        f"attempts: {entry.attempts}",
        f"checksum: {entry.checksum}",
    ]
    facts += describe_timing(entry)
    if entry.artifact_id is not None:
        facts.append(f"stored in full: spindle spool cat {entry.artifact_id}")
    out.tree(f"{entry.tool_call_id}  {entry.tool}", [(fact, ()) for fact in facts])
    out.line(("arguments:", "dim"))
    out.text(json_format.dumps(entry.args, indent=2, ensure_ascii=False))
    out.line(("error:" if entry.error else "result:", "dim"))
    result = entry.error or str((entry.result or {}).get("value", ""))
    out.text(result or "(nothing)")
