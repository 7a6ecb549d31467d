"""Looking into journals while others write them: nothing is locked, and nothing is changed."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spindle.cli.house_journal import journal_files
from spindle.errors import JournalError
from spindle.journal.entries import EntryState, JournalEntry
from spindle.journal.rows import Row, entry_of

_COLUMNS = ", ".join(Row._fields)
_BUSY_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Which calls somebody asks for."""

    limit: int | None = None
    state: EntryState | None = None
    tool: str | None = None
    session: str | None = None
    failed: bool = False
    id: str | None = None
    """A `tool_call_id`, or its beginning."""


@dataclass(slots=True)
class Journals:
    """All files of one journal."""

    path: Path
    _seen: dict[Path, int] = field(default_factory=dict[Path, int])
    _running: dict[Path, set[str]] = field(default_factory=dict[Path, set[str]])

    def read(self, wanted: Wanted) -> list[JournalEntry]:
        """The calls that are wanted, newest first.

        Raises:
            JournalError: A file is no journal, or cannot be read.
        """
        terms, values = _terms(wanted)
        where = f"WHERE {' AND '.join(terms)}" if terms else ""
        # The state may be another than what is written: whose writer is gone does not run any more.
        limit = -1 if wanted.limit is None or wanted.state in {"started", "interrupted"} else wanted.limit
        found: list[JournalEntry] = []
        for file in self._files():
            found += (entry for _, entry in _select(file, f"{where} ORDER BY seq DESC LIMIT ?", [*values, limit]))
        if wanted.state is not None:
            found = [entry for entry in found if entry.state == wanted.state]
        return sorted(found, key=lambda entry: entry.started_at, reverse=True)[: wanted.limit]

    def news(self) -> list[JournalEntry]:
        """The calls that began or ended since this was last asked; oldest first."""
        found: list[JournalEntry] = []
        for file in self._files():
            found += self._news_of(file)
        return sorted(found, key=lambda entry: entry.ended_at or entry.started_at)

    def skip(self) -> None:
        """Take everything there is now for known."""
        self.news()

    def _news_of(self, file: Path) -> Iterator[JournalEntry]:
        last, running = self._seen.get(file, 0), self._running.setdefault(file, set())
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
            self._seen[file] = max(self._seen.get(file, 0), seq)
            if is_new:
                yield entry

    def _files(self) -> list[Path]:
        return [file for file in journal_files(self.path) if file.is_file()]


def _terms(wanted: Wanted) -> tuple[list[str], list[Any]]:
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
    query = f"SELECT seq, {_COLUMNS} FROM calls {clause}"  # noqa: S608 - our own words only
    try:
        with closing(_connected(file)) as connection:
            rows = connection.execute(query, values).fetchall()
    except sqlite3.Error as error:
        raise JournalError(
            f"the journal {file} cannot be read: {error}; is it a file of Spindle's, and is there space left?"
        ) from error
    return [(row[0], _entry(row[1:], is_alive=is_alive)) for row in rows]


def _connected(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=_BUSY_SECONDS)


def _entry(values: Sequence[Any], *, is_alive: bool) -> JournalEntry:
    texts = (value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value for value in values)
    row = Row._make(texts)
    is_lost = row.state == "started" and row.ended_at is None and not is_alive
    return entry_of(row._replace(state="interrupted") if is_lost else row)


def _has_living_writer(file: Path) -> bool:
    """Whether the process that last took the journal's lock still lives; asking for the lock could keep it out."""
    try:
        pid = int(Path(f"{file}.lock").read_text(encoding="ascii").strip())
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True
