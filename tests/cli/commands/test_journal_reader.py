"""Looking into journals that others write."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spindle import Journal
from spindle.cli.commands.journal import CallFilter, JournalFiles
from spindle.errors import JournalError
from spindle.journal import Finished, Intent

pytestmark = pytest.mark.anyio

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def intent(number: int, tool: str = "t") -> Intent:
    return Intent(
        tool_call_id=f"call-{number}",
        tool=tool,
        checksum=f"c{number}",
        idempotency_key=f"k{number}",
        args={"n": number},
        started_at=BEGIN + timedelta(seconds=number),
        session_id="s",
    )


def finished(number: int, code: str | None = None) -> Finished:
    return Finished(idempotency_key=f"k{number}", ended_at=BEGIN + timedelta(seconds=number, milliseconds=5), code=code)


def ids(journals: JournalFiles, wanted: CallFilter) -> list[str]:
    return [entry.tool_call_id for entry in journals.read(wanted)]


async def test_all_files_are_read_as_one_while_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    async with Journal.sqlite(path) as first, Journal.sqlite(tmp_path / "journal-2.sqlite") as second:
        await first.begin([intent(1), intent(3, "other")])
        await second.begin([intent(2)])
        await first.finish([finished(1), finished(3, "timed_out")])
        journals = JournalFiles(path)

        assert ids(journals, CallFilter()) == ["call-3", "call-2", "call-1"]
        assert ids(journals, CallFilter(limit=2)) == ["call-3", "call-2"]
        assert ids(journals, CallFilter(state="started")) == ["call-2"]
        assert ids(journals, CallFilter(state="finished")) == ["call-3", "call-1"]
        assert ids(journals, CallFilter(tool="other")) == ["call-3"]
        assert ids(journals, CallFilter(session="nobody")) == []
        assert ids(journals, CallFilter(failed=True)) == ["call-3"]
        assert ids(journals, CallFilter(id="call-2")) == ["call-2"]
        assert ids(journals, CallFilter(id="call-")) == ["call-3", "call-2", "call-1"]
        assert ids(journals, CallFilter(id="call%")) == []


async def test_a_call_whose_writer_is_gone_is_interrupted_though_nobody_wrote_so(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent(1)])
        assert [entry.state for entry in JournalFiles(path).read(CallFilter())] == ["started"]
    (tmp_path / "journal.sqlite.lock").write_text(f"{2**22 + 7}\n")  # no system gives a process this number

    assert ids(JournalFiles(path), CallFilter(state="interrupted")) == ["call-1"]
    assert ids(JournalFiles(path), CallFilter(state="started")) == []


async def test_news_are_told_once_when_a_call_begins_and_once_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journals = JournalFiles(path)
    assert journals.read_changes() == []
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent(1)])
        await journal.finish([finished(1)])
        journals.skip_existing()
        await journal.begin([intent(2)])
        begun = journals.read_changes()
        nothing = journals.read_changes()
        await journal.begin([intent(3)])
        await journal.finish([finished(2), finished(3, "denied")])
        ended = journals.read_changes()
        over = journals.read_changes()

    assert [(entry.tool_call_id, entry.state) for entry in begun] == [("call-2", "started")]
    assert nothing == over == []
    assert [(entry.tool_call_id, entry.code) for entry in ended] == [("call-2", None), ("call-3", "denied")]


async def test_nothing_is_there_before_anything_is_written(tmp_path: Path) -> None:
    assert JournalFiles(tmp_path / "none.sqlite").read(CallFilter()) == []


async def test_a_file_that_is_no_journal_says_so(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"not a database at all" * 100)

    with pytest.raises(JournalError):
        JournalFiles(path).read(CallFilter())


async def test_looking_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent(1)])
    before = path.read_bytes()

    JournalFiles(path).read(CallFilter())

    assert path.read_bytes() == before
