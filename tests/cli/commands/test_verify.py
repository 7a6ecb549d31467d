"""`spindle verify` and `spindle diff`: the same servers pass, and every difference is shown and fails."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Command, Place
from tests.cli.locking import configure

pytestmark = pytest.mark.slow


def server(text: str) -> Any:
    return json.loads(text)["servers"][0]


def test_the_same_servers_pass(place: Place, spindle: Command) -> None:
    configure(place, one="changed")
    spindle("lock")

    plain, machine = spindle("verify"), spindle("verify", "--json")

    assert (plain.code, machine.code) == (0, 0)
    assert json.loads(machine.out)["ok"] is True


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("changed", ["read_note"]),
        ("hidden", ["read_note"]),
        ("renamed", ["list_notes", "read_note", "read_secret_note"]),
        ("shadowing", ["send_mail"]),
        ("schema", ["read_note"]),
    ],
)
def test_every_poison_fails(place: Place, spindle: Command, kind: str, names: list[str]) -> None:
    day = configure(place, one=kind)
    spindle("lock")
    day.touch()

    ran = spindle("verify", "--json", "--once")

    assert ran.code == 1
    assert json.loads(ran.out)["ok"] is False
    assert [each["name"] for each in server(ran.out)["changes"]] == [name for name in names if name != "list_notes"]


def test_a_server_that_answers_clients_differently_fails(place: Place, spindle: Command) -> None:
    configure(place, one="per-client")
    spindle("lock", "--once")

    once, twice = spindle("verify", "--once"), spindle("verify", "--json")

    assert (once.code, twice.code) == (0, 1)
    assert [each["name"] for each in server(twice.out)["per_client"]["changes"]] == ["read_note"]


def test_a_server_that_cannot_be_reached_fails_and_says_so(place: Place, spindle: Command) -> None:
    configure(place, one="changed")
    spindle("lock")
    place.configure('[mcp.servers.one]\ncommand = "/no/such/program"\n')

    plain, machine = spindle("verify"), spindle("verify", "--json")

    assert (plain.code, machine.code) == (1, 1)
    assert "cannot be reached" in plain.out
    assert server(machine.out)["status"] == "unreachable"


def test_a_server_that_is_not_locked_fails(place: Place, spindle: Command) -> None:
    configure(place, one="changed")
    spindle("lock")
    configure(place, one="changed", two="changed")

    ran = spindle("verify", "--json")

    assert ran.code == 1
    assert [each["status"] for each in json.loads(ran.out)["servers"]] == ["same", "unlocked"]


def test_another_origin_fails(place: Place, spindle: Command) -> None:
    configure(place, one="changed")
    spindle("lock")
    file = place.work / "spindle.toml"
    file.write_text(file.read_text(encoding="utf-8").replace('"changed"', '"changed", "--more"'), encoding="utf-8")

    ran = spindle("verify", "--json")

    assert ran.code == 1
    assert [each["fact"] for each in server(ran.out)["facts"]] == ["origin"]


def test_without_a_lock_file_it_fails(place: Place, spindle: Command) -> None:
    configure(place, one="changed")

    assert spindle("verify").code == 3
