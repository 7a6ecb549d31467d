"""`spindle lock`: it writes what the servers offer, and changes of a locked server only after they were accepted."""

import json
from pathlib import Path
from typing import Any

import pytest

from spindle.mcp.lock import LockFile
from tests.cli.conftest import Command, Place
from tests.cli.locking import configure


def read_lock(path: Path) -> LockFile:
    found = LockFile.read(path)
    assert found is not None
    return found


def read_result(text: str) -> Any:
    return json.loads(text)["servers"][0]


@pytest.mark.slow
def test_a_lock_is_written_beside_the_configuration_and_changes_are_accepted_when_named(
    place: Place, spindle: Command
) -> None:
    day, path = configure(place, notes="renamed"), place.work / "spindle.lock"

    first = spindle("lock")
    written = path.read_bytes()
    again = spindle("lock", "--json", "--once")
    day.touch()
    refused = spindle("lock", "--json", "--once")
    unknown = spindle("lock", "--accept", "nothing", "--once")
    kept = path.read_bytes()
    one = spindle("lock", "--accept", "mcp__notes__read_secret_note", "--once")
    partly = read_lock(path).servers["notes"].of_kind("tool")
    rest = spindle("lock", "--yes", "--once", "--json")

    assert (first.code, again.code, refused.code, unknown.code, one.code, rest.code) == (0, 0, 4, 3, 0, 0)
    assert json.loads(again.out)["written"] is False
    assert kept == written
    result = read_result(refused.out)
    assert (result["state"], result["status"]) == ("refused", "changed")
    renames = [("read_note", "list_notes"), ("read_secret_note", "read_note")]
    assert [(each["name"], each["old_name"]) for each in result["changes"]] == renames
    assert "~" not in one.out
    assert "> tool read_note renamed (was list_notes)" in one.out
    # The old name is still listed, with other content, so its lock stays until that is accepted too.
    assert set(partly) == {"read_note", "read_secret_note", "turn", "list_notes"}
    assert partly["read_note"].description == "Read a note."
    assert set(read_lock(path).servers["notes"].of_kind("tool")) == {"read_note", "read_secret_note", "turn"}


@pytest.mark.slow
def test_only_named_servers_are_locked_and_others_stay(place: Place, spindle: Command) -> None:
    configure(place, one="changed", two="changed")

    spindle("lock", "one")
    before = read_lock(place.work / "spindle.lock").servers["one"]
    ran = spindle("lock", "two")
    unknown = spindle("lock", "three")

    assert (ran.code, unknown.code) == (0, 3)
    servers = read_lock(place.work / "spindle.lock").servers
    assert set(servers) == {"one", "two"}
    assert servers["one"] == before


@pytest.mark.slow
def test_a_server_that_cannot_be_reached_keeps_its_lock(place: Place, spindle: Command) -> None:
    configure(place, one="changed")
    spindle("lock")
    before = (place.work / "spindle.lock").read_bytes()
    place.configure('[mcp.servers.one]\ncommand = "/no/such/program"\n')

    ran = spindle("lock", "--json")

    assert ran.code == 1
    assert read_result(ran.out)["state"] == "unreachable"
    assert (place.work / "spindle.lock").read_bytes() == before


@pytest.mark.slow
def test_a_server_that_is_not_configured_is_removed_only_when_asked(place: Place, spindle: Command) -> None:
    configure(place, one="changed", two="changed")
    spindle("lock")
    configure(place, one="changed")

    kept, verified = spindle("lock"), spindle("verify", "--json")
    both = set(read_lock(place.work / "spindle.lock").servers)
    pruned = spindle("lock", "--prune")

    assert (kept.code, verified.code, pruned.code) == (0, 1, 0)
    assert both == {"one", "two"}
    assert [each["status"] for each in json.loads(verified.out)["servers"]] == ["same", "not_configured"]
    assert set(read_lock(place.work / "spindle.lock").servers) == {"one"}


@pytest.mark.slow
def test_definitions_that_differ_between_clients_are_never_locked(place: Place, spindle: Command) -> None:
    configure(place, one="per-client")

    ran = spindle("lock", "--yes")
    again = spindle("lock", "--yes")

    assert (ran.code, again.code) == (1, 1)
    assert "differently" in ran.out
    assert set(read_lock(place.work / "spindle.lock").servers["one"].of_kind("tool")) == {"turn", "list_notes"}


@pytest.mark.slow
def test_another_lock_file_can_be_named_and_secrets_are_not_written(place: Place, spindle: Command) -> None:
    place.monkeypatch.setenv("CANARY_SECRET", "sesame-4711-open")
    place.monkeypatch.setenv("FOLDER", str(place.work))
    configure(place, 'env_secrets = { CANARY_SECRET = "CANARY_SECRET" }\n', one="changed")
    (place.work / "day").touch()
    other = place.work / "other.lock"

    ran = spindle("lock", "--lock", "other.lock")

    assert ran.code == 0
    assert not (place.work / "spindle.lock").exists()
    assert "sesame" not in other.read_text(encoding="utf-8")
    assert "***" in other.read_text(encoding="utf-8")


def test_a_damaged_lock_is_an_error_and_is_not_overwritten(place: Place, spindle: Command) -> None:
    configure(place, one="changed")
    (place.work / "spindle.lock").write_text("{}", encoding="utf-8")

    ran = spindle("lock", "--yes")

    assert ran.code == 2
    assert (place.work / "spindle.lock").read_text(encoding="utf-8") == "{}"


def test_without_servers_nothing_is_started(place: Place, spindle: Command) -> None:
    place.configure("")

    assert spindle("lock").code == 0
    assert spindle("diff").code == 0
