"""`spindle list` and `spindle show`."""

import json

import pytest

from spindle.cli.main import NOT_FOUND, OK, USAGE
from tests.cli.conftest import Command, Place

KEYS = {
    "name", "description", "toolset", "source", "mcp_server", "mcp_tool", "plugin_id", "read_only", "idempotent",
    "requires_approval", "trusted", "available", "timeout_seconds",
}  # fmt: skip


def test_each_tool_has_a_line_with_what_it_is_for(spindle: Command) -> None:
    ran = spindle("list")

    head, *lines = ran.out.splitlines()
    assert ran.code == OK
    assert head.split() == ["tool", "from", "what", "it", "does"]
    assert "read_file" in [line.split()[0] for line in lines]
    assert ran.err == ""


def test_programs_get_one_json_document_whose_keys_stay(spindle: Command) -> None:
    ran = spindle("list", "--json")

    tools = json.loads(ran.out)["tools"]
    assert {frozenset(tool) for tool in tools} == {frozenset(KEYS)}
    assert next(tool for tool in tools if tool["name"] == "read_file")["source"] == "kit files"


def test_a_profile_sees_only_what_it_may_use(spindle: Command, place: Place) -> None:
    place.configure('[tools]\nkit = true\n[profiles.small]\nallowed_tools = ["calculate", "time_now"]\n')

    ran = spindle("list", "--json", "--profile", "small")

    assert [tool["name"] for tool in json.loads(ran.out)["tools"]] == ["time_now", "calculate"]
    assert spindle("list", "--profile", "smal").code == USAGE


def test_a_toolset_or_server_that_is_not_there_is_not_found(spindle: Command) -> None:
    assert [t["toolset"] for t in json.loads(spindle("list", "--toolset", "clock", "--json").out)["tools"]] == ["clock"]
    wrong = spindle("list", "--toolset", "clok")
    assert wrong.code == NOT_FOUND
    assert "'clock'" in wrong.err
    assert spindle("list", "--server", "x").code == NOT_FOUND


def test_an_empty_list_is_a_hint_and_not_an_error(spindle: Command, place: Place) -> None:
    place.configure("")

    ran = spindle("list")

    assert (ran.code, ran.out) == (OK, "")
    assert "hint:" in ran.err


def test_a_failed_optional_server_is_reported_and_the_rest_is_listed(spindle: Command, place: Place) -> None:
    place.configure('[tools]\nkit = ["clock"]\n[mcp.servers.dead]\ncommand = "./no-such-program"\n')

    ran = spindle("list", "--json")

    assert ran.code == OK
    assert [tool["name"] for tool in json.loads(ran.out)["tools"]] == ["time_now"]
    assert "dead" in ran.err


def test_show_prints_parameters_needs_and_an_example(spindle: Command) -> None:
    ran = spindle("show", "read_file")

    assert ran.code == OK
    assert "path (string" in ran.out
    assert "files: read ." in ran.out
    assert ran.out.rstrip().endswith("spindle call read_file path=…")


def test_show_gives_programs_the_schema(spindle: Command) -> None:
    shown = json.loads(spindle("show", "calculate", "--json").out)

    assert shown.keys() == KEYS | {"input_schema", "fingerprint", "capabilities", "max_result_chars", "allowed"}
    assert shown["input_schema"]["required"] == ["expression"]
    assert shown["allowed"] is True


@pytest.mark.parametrize("command", ["show", "call"])
def test_a_tool_that_is_not_there_is_not_found_and_the_nearest_is_named(spindle: Command, command: str) -> None:
    ran = spindle(command, "calcualte")

    assert (ran.code, ran.out) == (NOT_FOUND, "")
    assert "'calculate'" in ran.err


def test_show_says_when_a_profile_may_not_use_it(spindle: Command, place: Place) -> None:
    place.configure('[tools]\nkit = ["clock"]\n[profiles.none]\nallowed_tools = []\n')

    assert "allowed_tools" in spindle("show", "time_now", "--profile", "none").out
    assert json.loads(spindle("show", "time_now", "--profile", "none", "--json").out)["allowed"] is False


def test_servers_of_a_desktop_client_alone_come_without_the_kit(spindle: Command, place: Place) -> None:
    (place.work / "client.json").write_text('{"mcpServers": {"off": {"command": "./off", "disabled": true}}}')

    alone = spindle("list", "--json", "--mcp-config", "client.json")
    asked = spindle("--kit", "list", "--json", "--mcp-config", "client.json")

    assert json.loads(alone.out)["tools"] == []
    assert "calculate" in [each["name"] for each in json.loads(asked.out)["tools"]]
