"""The journal of a run: a SQLite file has one writer, so each process that runs at the same time takes a file."""

from contextlib import AsyncExitStack
from pathlib import Path

from spindle.errors import JournalLockedError
from spindle.journal.journal import Journal

MAX_FILES = 64


def journal_files(path: Path) -> list[Path]:
    """The files a journal may consist of: `journal.sqlite`, and `journal-2.sqlite` … for those who came beside."""
    return [path, *(path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, MAX_FILES + 1))]


async def enter_journal(path: Path | None, stack: AsyncExitStack) -> Journal:
    """Open the first file that nobody else writes.

    Raises:
        JournalLockedError: All of them are in use.
        JournalError: A file cannot be used.
    """
    if path is None:
        return await stack.enter_async_context(Journal.memory())
    *most, last = journal_files(path)
    for each in most:
        try:
            return await stack.enter_async_context(Journal.sqlite(each))
        except JournalLockedError:
            continue
    return await stack.enter_async_context(Journal.sqlite(last))
