"""What `spindle doctor` says about the reach of servers."""

import json
from dataclasses import replace

import pytest

from spindle.cli import load_config
from spindle.cli.checks.servers import check_lock, check_reach, check_servers
from spindle.mcp import McpServers, ServerReach, ServerSpec
from spindle.mcp.lock import WithheldDefinition
from tests.cli.conftest import Place
from tests.mcp.gateways import hostile

CONFINED = ServerReach(
    sandbox="namespaces",
    enforced=frozenset(("files", "network")),
    home="/state/servers/a",
    read=("/project",),
    write=("/work",),
    network=False,
    limits={"max_processes": 8},
)
UNCONFINED = ServerReach(sandbox="none", home="/h", limits={}, notes=("no",))
SECRET = "value-of-a-secret"


def test_variables_and_secrets_are_shown_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    monkeypatch.setenv("OTHER_TOKEN", SECRET)
    spec = ServerSpec(
        name="a", command="x", env={"MODE": SECRET}, env_passthrough=("SHOP_TOKEN",), env_secrets={"API": "shop/key"}
    )

    check = check_reach(spec, CONFINED)

    assert check.status == "ok"
    assert {"MODE", "SHOP_TOKEN", "API", "PATH"} <= set(check.facts["environment"])
    assert "OTHER_TOKEN" not in check.facts["environment"]
    assert check.facts["secrets"] == ["shop/key"]
    assert (check.facts["read"], check.facts["write"], check.facts["network"]) == (["/project"], ["/work"], False)
    assert SECRET not in json.dumps(check.facts)


@pytest.mark.parametrize(
    ("spec", "reach", "status"),
    [
        (ServerSpec(name="a", command="x", sandbox="none"), None, "warning"),
        (ServerSpec(name="a", command="x"), None, "ok"),
        (
            ServerSpec(name="a", command="x"),
            ServerReach(sandbox="none", home="/h", limits={}, notes=("no",)),
            "warning",
        ),
        (ServerSpec(name="a", url="https://x.example/mcp", header_secrets={"Authorization": "KEY"}), None, "ok"),
    ],
    ids=["none", "not started", "unconfined", "address"],
)
def test_what_is_not_confined_is_a_warning(spec: ServerSpec, reach: ServerReach | None, status: str) -> None:
    check = check_reach(spec, reach)

    assert check.status == status
    assert "url" not in check.facts or check.facts["headers"] == ["Authorization"]


@pytest.mark.slow
def test_a_started_server_shows_the_sandbox_in_force(place: Place) -> None:
    config = load_config(place.configure(hostile("h", sandbox="auto", network=False)), state=place.state)

    status, reach = check_servers(config)

    assert (status.name, status.status) == ("h", "ok")
    assert reach.facts["home"] == str(place.state / "servers" / "h")
    assert reach.facts["sandbox"] in {"bubblewrap", "namespaces", "landlock", "none"}
    assert (reach.facts["network"] is False) is ("network" in reach.facts["enforced"])


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
