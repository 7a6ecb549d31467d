"""`spindle diff`: changes word by word, with hidden characters revealed."""

import json

import pytest

from tests.cli.conftest import Command, Place
from tests.cli.locking import configure


def test_hidden_text_is_revealed_and_nothing_invisible_is_printed(place: Place, spindle: Command) -> None:
    day = configure(place, one="hidden")
    spindle("lock", "--once")
    day.touch()

    plain, machine = spindle("diff", "--once"), spindle("diff", "one", "--once", "--json")

    assert (plain.code, machine.code) == (0, 0)
    assert "~ tool read_note changed" in plain.out
    assert "Read a{+<U+200B>+} note." in plain.out
    assert '<tags "canary' in plain.out
    assert not any(0xE0000 <= ord(each) <= 0xE0FFF or each == "\u200b" for each in plain.out + machine.out)
    [change] = json.loads(machine.out)["servers"][0]["changes"]
    assert change["diff"][0]["path"] == "description"


@pytest.mark.slow
def test_poison_in_a_schema_is_shown_where_it_is(place: Place, spindle: Command) -> None:
    day = configure(place, one="schema")
    spindle("lock")
    day.touch()

    ran = spindle("diff")

    assert "inputSchema.properties.path.description: The file to read.{+" in ran.out
    assert "inputSchema.properties.path.enum[0]: {+" in ran.out
    assert "inputSchema.properties.path.default: {+" in ran.out


@pytest.mark.slow
def test_a_server_without_a_lock_differs_from_one_that_is_the_same(place: Place, spindle: Command) -> None:
    configure(place, one="changed", two="changed")
    spindle("lock", "one")

    ran = spindle("diff", "--json")

    assert [each["status"] for each in json.loads(ran.out)["servers"]] == ["same", "unlocked"]
