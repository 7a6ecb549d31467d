"""`spindle journal …`."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from spindle import Call, Journal, ToolContext
from spindle.cli.commands.journal import CallFilter, CallFollower, read_calls
from spindle.cli.config import load_config
from spindle.cli.main import NOT_FOUND, OK, USAGE
from spindle.cli.runtime import open_runtime
from spindle.errors import JournalError
from spindle.journal import FinishedCall, Intent
from tests.cli.conftest import Command, Place


def test_calls_are_listed_newest_first_and_can_be_chosen(spindle: Command) -> None:
    spindle("call", "calculate", "expression=1+1")
    spindle("call", "time_now")
    spindle("call", "calculate", "expresion=1")

    calls = json.loads(spindle("journal", "list", "--json").out)["calls"]
    failed = json.loads(spindle("journal", "list", "--failed", "--json").out)["calls"]
    some = json.loads(spindle("journal", "list", "--tool", "calculate", "-n", "1", "--json").out)["calls"]

    assert [call["tool"] for call in calls] == ["calculate", "time_now", "calculate"]
    assert [call["code"] for call in calls] == ["input_invalid", None, None]
    assert [call["tool_call_id"] for call in failed] == [calls[0]["tool_call_id"]]
    assert some == [calls[0]]
    assert calls[1]["duration_ms"] >= 0
    assert calls[0]["duration_ms"] is None, "it never ran"
    table = spindle("journal", "list").out
    assert table.splitlines()[0].split() == ["time", "call", "outcome", "duration", "arguments"]
    assert len(table.splitlines()) == 4


def test_one_call_is_shown_by_the_beginning_of_its_id(spindle: Command) -> None:
    spindle("call", "calculate", "expression=6*7")
    spindle("call", "time_now")
    [_, call] = json.loads(spindle("journal", "list", "--json").out)["calls"]

    shown = spindle("journal", "show", call["tool_call_id"][:12])
    reported = json.loads(spindle("journal", "show", call["tool_call_id"], "--json").out)

    assert reported == call
    assert "42" in shown.out
    assert '"expression": "6*7"' in shown.out
    assert spindle("journal", "show", "nothing").code == NOT_FOUND


def test_a_beginning_that_fits_several_is_refused(spindle: Command) -> None:
    spindle("call", "calculate", "expression=1")
    spindle("call", "calculate", "expression=2")

    assert spindle("journal", "show", "calculate-").code == USAGE


def test_an_empty_journal_says_where_it_is(spindle: Command, place: Place) -> None:
    ran = spindle("journal", "list")

    assert (ran.code, ran.out) == (OK, "")
    assert str(place.state) in ran.err


def test_a_journal_in_memory_cannot_be_read_by_others(spindle: Command, place: Place) -> None:
    place.configure('[journal]\npath = "memory"\n')

    ran = spindle("journal", "list")

    assert ran.code == USAGE
    assert "spindle.toml:2: journal.path:" in ran.err


def test_a_call_whose_id_does_not_say_it_is_listed_with_its_tool(spindle: Command, place: Place) -> None:
    async def served() -> None:
        async with open_runtime(load_config(None, state=place.state)) as runtime:
            call = Call("c_12", "calculate", {"expression": "1"})
            await runtime.executor.execute_parallel([call], ToolContext(session_id="somebody"))

    anyio.run(served)
    spindle("call", "time_now")

    [_, first, second] = spindle("journal", "list").out.splitlines()
    assert first.split()[2].startswith("time_now-")
    assert second.split()[2:4] == ["calculate", "c_12"]


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


def finished(number: int, code: str | None = None) -> FinishedCall:
    return FinishedCall(
        idempotency_key=f"k{number}", ended_at=BEGIN + timedelta(seconds=number, milliseconds=5), code=code
    )


async def ids(path: Path, wanted: CallFilter) -> list[str]:
    return [entry.tool_call_id for entry in await read_calls(path, wanted)]


@pytest.mark.anyio
async def test_calls_are_filtered_while_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent(1), intent(2), intent(3, "other")])
        await journal.finish([finished(1), finished(3, "timed_out")])

        assert await ids(path, CallFilter()) == ["call-3", "call-2", "call-1"]
        assert await ids(path, CallFilter(limit=2)) == ["call-3", "call-2"]
        assert await ids(path, CallFilter(state="started")) == ["call-2"]
        assert await ids(path, CallFilter(state="finished")) == ["call-3", "call-1"]
        assert await ids(path, CallFilter(tool="other")) == ["call-3"]
        assert await ids(path, CallFilter(session="nobody")) == []
        assert await ids(path, CallFilter(failed=True)) == ["call-3"]
        assert await ids(path, CallFilter(id="call-2")) == ["call-2"]
        assert await ids(path, CallFilter(id="call-")) == ["call-3", "call-2", "call-1"]
        assert await ids(path, CallFilter(id="call%")) == []


@pytest.mark.anyio
async def test_filter_finds_a_call_behind_many_others(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent(0, "rare"), *(intent(number) for number in range(1, 700))])

    assert await ids(path, CallFilter(limit=1, tool="rare")) == ["call-0"]
    assert len(await ids(path, CallFilter())) == 700


@pytest.mark.anyio
async def test_numbered_files_of_older_versions_are_listed_too(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    for name, number in (("journal-2.sqlite", 2), ("journal-12.sqlite", 3), ("journal-old.sqlite", 4)):
        async with Journal.sqlite(tmp_path / name) as journal:
            await journal.begin([intent(number)])
            await journal.finish([finished(number)])
        set_version(tmp_path / name, 1)
    numbered_only = await ids(path, CallFilter())
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent(1)])

    assert numbered_only == ["call-3", "call-2"]
    assert await ids(path, CallFilter()) == ["call-3", "call-2", "call-1"]
    assert await ids(path, CallFilter(id="call-3")) == ["call-3"]


def set_version(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE states")  # which a later version added, as these indexes and this column
        for index in ("by_session", "by_turn", "failed"):
            other.execute(f"DROP INDEX calls_{index}")
        other.execute("ALTER TABLE calls DROP COLUMN caller")
        other.execute(f"PRAGMA user_version = {version}")


@pytest.mark.anyio
async def test_follower_returns_each_call_once_when_it_starts_and_once_when_it_ends(tmp_path: Path) -> None:
    async with Journal.sqlite(tmp_path / "journal.sqlite") as journal:
        follower = CallFollower(journal)
        assert await follower.read_changes() == []
        await journal.begin([intent(1), intent(4)])
        await journal.finish([finished(1)])
        await follower.skip_existing()
        await journal.begin([intent(2)])
        begun = await follower.read_changes()
        nothing = await follower.read_changes()
        await journal.begin([intent(3)])
        await journal.finish([finished(2), finished(3, "denied"), finished(4)])
        ended = await follower.read_changes()
        over = await follower.read_changes()

    assert [(entry.tool_call_id, entry.state) for entry in begun] == [("call-2", "started")]
    assert nothing == over == []
    assert [(entry.tool_call_id, entry.code) for entry in ended] == [
        ("call-2", None),
        ("call-3", "denied"),
        ("call-4", None),
    ]


@pytest.mark.anyio
async def test_follower_returns_more_new_calls_than_one_page_holds(tmp_path: Path) -> None:
    async with Journal.sqlite(tmp_path / "journal.sqlite") as journal:
        await journal.begin([intent(0)])
        follower = CallFollower(journal)
        await follower.skip_existing()
        await journal.begin([intent(number) for number in range(1, 701)])

        assert [entry.args["n"] for entry in await follower.read_changes()] == list(range(1, 701))


@pytest.mark.anyio
async def test_missing_journal_has_no_calls_and_is_not_created(tmp_path: Path) -> None:
    assert await ids(tmp_path / "none.sqlite", CallFilter()) == []
    assert await ids(tmp_path / "nowhere" / "none.sqlite", CallFilter()) == []
    assert names_in(tmp_path) == []


@pytest.mark.anyio
async def test_file_that_is_not_a_database_is_reported_and_left_in_place(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"not a database at all" * 100)

    with pytest.raises(JournalError):
        await ids(path, CallFilter())
    assert names_in(tmp_path) == ["journal.sqlite"]


def names_in(folder: Path) -> list[str]:
    return [near.name for near in folder.iterdir()]
