"""`spindle doctor`."""

import json

import pytest

from spindle.cli.main import FAILED, OK
from tests.cli.conftest import Command, Place


def checks(printed: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for check in json.loads(printed)["checks"]:
        found.setdefault(check["name"], []).append(check)
    return found


def test_a_machine_without_problems_passes(spindle: Command, place: Place) -> None:
    ran = spindle("doctor", "--json")
    shown = spindle("doctor")

    found = checks(ran.out)
    assert ran.code == OK
    assert json.loads(ran.out)["ok"] is True
    assert {"python", "sqlite", "event loops", "sandbox", "config", "state", "workspace", "tools"} <= found.keys()
    assert found["state"][0]["detail"] == str(place.state)
    assert {"machine", "configuration", "extras"} <= set(shown.out.splitlines())
    assert shown.code == OK


def test_a_broken_configuration_is_a_failed_check_and_not_the_end(spindle: Command, place: Place) -> None:
    place.configure("[toools]\n[limits]\nconcurrency = 0\n")

    ran = spindle("doctor", "--json")

    assert ran.code == FAILED
    assert [check["status"] for check in checks(ran.out)["config"]] == ["failed", "failed"]
    assert "sqlite" in checks(ran.out)


def test_servers_are_tried_and_a_required_one_that_is_dead_fails(spindle: Command, place: Place) -> None:
    place.configure(
        '[mcp.servers.a]\ncommand = "./no-such-program"\n[mcp.servers.b]\ncommand = "./none"\nrequired = true\n'
        '[mcp.servers.c]\ncommand = "./off"\nenabled = false\n'
    )

    ran = spindle("doctor", "--json")

    found = checks(ran.out)
    assert ran.code == FAILED
    assert found["a"][0]["status"] == "warning"
    assert found["b"][0]["status"] == "failed"
    assert found["c"][0]["status"] == "ok"


def test_secrets_that_are_not_set_are_named_and_their_values_never_are(
    spindle: Command, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY_ONE", "value-of-the-secret")
    place.configure('[reach]\nsecrets = ["SHOP_KEY_ONE", "SHOP_KEY_TWO"]\n[profiles.a]\ntoken_env = "NO_TOKEN_HERE"\n')

    ran = spindle("doctor", "--json")

    assert [check["detail"] for check in checks(ran.out)["secrets"]] == ["SHOP_KEY_TWO is not set"]
    assert "NO_TOKEN_HERE" in checks(ran.out)["profiles"][0]["detail"]
    assert "value-of-the-secret" not in ran.out + ran.err


def test_a_state_folder_that_cannot_be_written_fails(spindle: Command, place: Place) -> None:
    (place.work / "file").write_text("")

    ran = spindle("doctor", "--json", "--state", str(place.work / "file"))

    assert ran.code == FAILED
    assert checks(ran.out)["state"][0]["fix"]


@pytest.mark.parametrize("name", ["journal.sqlite", "journal.sqlite.damaged-20260101T000000Z"])
def test_an_unusable_journal_is_reported(spindle: Command, place: Place, name: str) -> None:
    place.state.mkdir()
    (place.state / name).write_text("no database")

    ran = spindle("doctor", "--json")

    [check] = checks(ran.out)["journal"]
    assert (ran.code, check["status"]) == (FAILED, "failed")
    assert str(place.state / name) in check["fix"]


def test_problems_come_first_then_warnings(spindle: Command, place: Place) -> None:
    place.configure(
        '[reach]\nsecrets = ["SHOP_KEY_TWO"]\n[mcp.servers.b]\ncommand = "./none"\nrequired = true\n'
        '[mcp.servers.c]\ncommand = "./off"\nenabled = false\n'
    )

    listed = [check["status"] for check in json.loads(spindle("doctor", "--json").out)["checks"]]
    shown = spindle("doctor").out.splitlines()

    assert listed == sorted(listed, key=["failed", "warning", "ok"].index)
    assert {"failed", "warning", "ok"} == set(listed)
    assert shown[0] == "problems"
    assert "servers: b: not ready" in shown[1]
    assert shown.index("warnings") < min(shown.index(area) for area in ("machine", "configuration", "servers"))


def test_a_server_without_a_sandbox_is_said_out_loud(spindle: Command, place: Place) -> None:
    place.configure('[mcp.servers.a]\ncommand = "./none"\nsandbox = "none"\n')

    [check] = checks(spindle("doctor", "--json").out)["a, reach"]

    assert check["status"] == "warning"
    assert 'sandbox = "none"' in check["detail"]
