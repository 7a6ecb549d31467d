"""`spindle spool …`."""

import json

import anyio
import pytest

from spindle import Journal, Spool, TurnRunner
from spindle.cli.main import NOT_FOUND, OK, USAGE
from spindle.testing import ScriptedModel
from tests.cli.conftest import Command, Place

TEXT = "\n".join(f"line {number}" for number in range(100))


@pytest.fixture
def kept(place: Place) -> Place:
    async def write() -> None:
        spool = Spool.files(place.state / "spool")
        await spool.write("cli/2026-01-01/log-aa11", TEXT, turn_id="t")
        await spool.write("cli/2026-01-01/log-bb22", b"\xff\x00 bytes\r\n")

    anyio.run(write)
    return place


def test_list_shows_size_and_age(spindle: Command, kept: Place) -> None:
    reported = json.loads(spindle("spool", "list", "--json").out)

    assert {each["id"]: each["bytes"] for each in reported["artifacts"]} == {
        "cli/2026-01-01/log-aa11": len(TEXT),
        "cli/2026-01-01/log-bb22": 10,
    }
    assert reported["total_bytes"] == len(TEXT) + 10
    assert "cli/2026-01-01/log-aa11" in spindle("spool", "list").out


def test_an_empty_spool_says_where_results_are_kept(spindle: Command, place: Place) -> None:
    ran = spindle("spool", "list")

    assert (ran.code, ran.out) == (OK, "")
    assert str(place.state) in ran.err
    assert json.loads(spindle("spool", "list", "--json").out) == {"artifacts": [], "total_bytes": 0}


def test_parts_are_read_by_the_end_of_an_id(spindle: Command, kept: Place) -> None:
    assert spindle("spool", "head", "log-aa11", "-n", "2").out == "line 0\nline 1\n"
    assert spindle("spool", "tail", "aa11", "--lines", "1").out == "line 99\n"
    assert spindle("spool", "cat", "log-aa11", "--start", "3", "--end", "5").out == "line 3\nline 4\n"
    assert spindle("spool", "cat", "log-aa11").out == TEXT
    assert json.loads(spindle("spool", "head", "aa11", "-n", "1", "--json").out)["lines"] == ["line 0"]


def test_show_prints_lines_and_tokens(spindle: Command, kept: Place) -> None:
    reported = json.loads(spindle("spool", "show", "aa11", "--json").out)

    assert reported["lines"] == 100
    assert reported["tokens_estimate"] > 0
    assert "100 lines" in spindle("spool", "show", "aa11").out


def test_grep_prints_numbered_lines_and_finds_nothing_with_code_3(spindle: Command, kept: Place) -> None:
    assert spindle("spool", "grep", "aa11", "^line 4[23]$").out == "42: line 42\n43: line 43\n"
    assert spindle("spool", "grep", "aa11", "LINE 42$", "-i", "-A", "1").out == "42: line 42\n43: line 43\n"
    assert json.loads(spindle("spool", "grep", "aa11", "line", "--limit", "1", "--json").out)["matches"] == [
        {"line": 0, "text": "line 0"}
    ]
    assert spindle("spool", "grep", "aa11", "nothing").code == NOT_FOUND
    wrong = spindle("spool", "grep", "aa11", "(?=x)")
    assert wrong.out == ""
    assert wrong.err.startswith("spindle: ")


def test_a_pattern_that_is_none_is_wrong_usage(spindle: Command, kept: Place) -> None:
    assert spindle("spool", "grep", "aa11", "(").code == USAGE


def test_an_id_that_fits_none_or_several_is_refused(spindle: Command, kept: Place) -> None:
    assert spindle("spool", "head", "log-zz").code == NOT_FOUND
    several = spindle("spool", "head", "cli/")
    assert several.code == USAGE
    assert "log-aa11" in several.err


def test_rm_removes_what_is_named_and_gc_what_is_too_much(spindle: Command, kept: Place) -> None:
    assert spindle("spool", "rm").code == USAGE
    assert json.loads(spindle("spool", "rm", "bb22", "--json").out) == {"removed": ["cli/2026-01-01/log-bb22"]}
    assert spindle("spool", "rm", "bb22").code == NOT_FOUND
    assert json.loads(spindle("spool", "gc", "--json").out) == {"removed": 0, "stories": 0}
    assert json.loads(spindle("spool", "gc", "--max-bytes", "10", "--json").out) == {"removed": 1, "stories": 0}
    assert json.loads(spindle("spool", "list", "--json").out)["artifacts"] == []


def test_gc_removes_the_stories_of_turns_that_are_too_old(spindle: Command, kept: Place) -> None:
    async def tell() -> None:
        async with Journal.sqlite(kept.state / "journal.sqlite") as journal:
            await TurnRunner(executor_callback=ScriptedModel("done"), journal=journal).run(turn_id="t")

    anyio.run(tell)
    assert json.loads(spindle("spool", "gc", "--json").out) == {"removed": 0, "stories": 0}
    assert json.loads(spindle("spool", "gc", "--max-age-days", "0", "--json").out) == {"removed": 2, "stories": 1}
    assert json.loads(spindle("spool", "gc", "--max-age-days", "0", "--json").out) == {"removed": 0, "stories": 0}
