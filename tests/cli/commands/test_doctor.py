"""`spindle doctor`."""

import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, requires

import pytest

from spindle.cli.commands import doctor
from spindle.cli.commands.doctor import check_extras, check_lock, extras, suggest_home
from spindle.cli.main import FAILED, OK
from spindle.mcp import McpServers, ServerSpec
from spindle.mcp.lock import WithheldDefinition
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


def test_extras_are_those_of_the_package_and_a_missing_one_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    announced = {line for line in requires("spindle") or () if "extra ==" in line}
    assert announced
    assert {"cli", "mcp", "kit", "server"} <= extras().keys()
    assert set(extras()["network"]) <= set(extras()["kit"])

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", missing)

    found = list(check_extras())

    assert {check.status for check in found} == {"warning"}
    assert "pip install '.[cli]' in a clone of Spindle" in {check.fix for check in found}


@pytest.mark.parametrize("name", ["journal.sqlite", "journal.sqlite.damaged-20260101T000000Z"])
def test_an_unusable_journal_is_reported(spindle: Command, place: Place, name: str) -> None:
    place.state.mkdir()
    (place.state / name).write_text("no database")

    ran = spindle("doctor", "--json")

    [check] = checks(ran.out)["journal"]
    assert (ran.code, check["status"]) == (FAILED, "failed")
    assert str(place.state / name) in check["fix"]


@pytest.mark.parametrize(
    ("spec", "is_advised"),
    [
        (ServerSpec(name="s", command="npx"), True),
        (ServerSpec(name="s", command="/usr/bin/uvx"), True),
        (ServerSpec(name="s", command="npx", env_passthrough=("HOME",)), False),
        (ServerSpec(name="s", command="python"), False),
        (ServerSpec(name="s", url="https://x.example/mcp"), False),
    ],
    ids=["npx", "uvx", "with a home", "another program", "an address"],
)
def test_a_server_that_is_fetched_at_each_start_gets_advice(spec: ServerSpec, is_advised: bool) -> None:
    assert ("HOME" in (suggest_home(spec) or "")) is is_advised


def test_what_the_lock_withholds_is_a_warning_that_names_it() -> None:
    held = tuple(WithheldDefinition(kind="tool", name=f"t{number}", reason="it is new") for number in range(7))
    [status] = McpServers([ServerSpec(name="a", command="a")]).status()

    quiet = list(check_lock(status))
    [unlocked] = check_lock(replace(status, locked=False))
    [withheld] = check_lock(replace(status, locked=True, quarantined=7, withheld=held))

    assert quiet == []
    assert (unlocked.status, withheld.status) == ("warning", "warning")
    assert "'t0': it is new" in withheld.detail
    assert "2 more" in withheld.detail
    assert "spindle diff a" in str(withheld.fix)
