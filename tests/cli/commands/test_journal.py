"""`spindle journal …`."""

import json

import anyio

from spindle import Call, ToolContext
from spindle.cli.config import load_config
from spindle.cli.main import NOT_FOUND, OK, USAGE
from spindle.cli.runtime import open_runtime
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
    told = json.loads(spindle("journal", "show", call["tool_call_id"], "--json").out)

    assert told == call
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
        async with open_runtime(load_config(None, state=place.state)) as house:
            call = Call("c_12", "calculate", {"expression": "1"})
            await house.executor.execute_parallel([call], ToolContext(session_id="somebody"))

    anyio.run(served)
    spindle("call", "time_now")

    [_, first, second] = spindle("journal", "list").out.splitlines()
    assert first.split()[2].startswith("time_now-")
    assert second.split()[2:4] == ["calculate", "c_12"]
