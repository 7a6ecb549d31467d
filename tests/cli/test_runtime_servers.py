"""Tools that come and go, beside tools that stay."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import Tool, ToolRegistry
from spindle.cli.config import load_config
from spindle.cli.runtime_servers import (
    UpstreamToolSync,
    build_backends,
    build_server_secret_lookup,
    build_specs,
    get_server_home,
)
from spindle.errors import InvalidConfigError
from spindle.mcp import ToolSettings


def answer(args: Any, ctx: Any, meta: Any) -> str:
    return "answer"


def made(name: str) -> Tool:
    return Tool(name=name, description=name, input_schema={"type": "object"}, handler=answer)


def test_the_registry_follows_and_listeners_hear_only_of_changes() -> None:
    ours, theirs = ToolRegistry([made("own")]), ToolRegistry()
    follower, received = UpstreamToolSync(ours, theirs), list[list[str]]()
    stop = follower.on_change(lambda: received.append([tool.name for tool in ours]))

    follower.sync()
    theirs.register(made("mcp__a__b__c"), mcp=("a__b", "c"))
    follower.sync()
    follower.sync()
    theirs.unregister("mcp__a__b__c")
    theirs.register(made("mcp__a__d"), mcp=("a", "d"))
    follower.sync()
    stop()
    stop()
    theirs.unregister("mcp__a__d")
    follower.sync()

    assert received == [["own", "mcp__a__b__c"], ["own", "mcp__a__d"]]
    assert [tool.name for tool in ours] == ["own"]


def test_provenance_is_carried_over_exactly() -> None:
    ours, theirs = ToolRegistry(), ToolRegistry()
    theirs.register(made("mcp__a__b__c"), mcp=("a__b", "c"))

    UpstreamToolSync(ours, theirs).sync()

    entry = ours.entry("mcp__a__b__c")
    assert entry is not None
    assert (entry.mcp_server, entry.mcp_tool) == ("a__b", "c")


def test_tools_are_in_the_order_of_the_configuration() -> None:
    ours, theirs = ToolRegistry([made("own")]), ToolRegistry()
    follower = UpstreamToolSync(ours, theirs, ["a", "b", "c"])
    orders: list[list[str]] = []
    for server, tools in (("c", "12"), ("a", "12"), ("b", "1")):
        for each in tools:
            theirs.register(made(f"{server}{each}"), mcp=(server, each))
        follower.sync()
        orders.append([tool.name for tool in ours])
    theirs.unregister("a1")
    follower.sync()

    assert orders == [["own", "c1", "c2"], ["own", "a1", "a2", "c1", "c2"], ["own", "a1", "a2", "b1", "c1", "c2"]]
    assert [tool.name for tool in ours] == ["own", "a2", "b1", "c1", "c2"]


def test_a_tool_of_ours_is_never_replaced_and_a_changed_one_of_theirs_is() -> None:
    own, new = made("mcp__x__y"), made("mcp__x__z")
    ours, theirs = ToolRegistry([own]), ToolRegistry([made("mcp__x__y"), made("mcp__x__z")])
    follower = UpstreamToolSync(ours, theirs)
    follower.sync()
    theirs.register(new, overwrite=True)
    follower.sync()

    assert ours.get("mcp__x__y") is own
    assert ours.get("mcp__x__z") is new


def test_a_spec_has_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(
        '[mcp.servers.a]\ncommand = "x"\nargs = ["1"]\nrequired = true\ntools = ["t"]\nenv_secrets = {K = "KEY"}\n'
        '[mcp.servers.b]\nurl = "http://127.0.0.1:9/mcp"\nheader_secrets = {Authorization = "TOK"}\nenabled = false\n'
    )

    [spec] = build_specs(load_config(path, environ={"HOME": str(tmp_path)}))

    assert (spec.name, spec.command, spec.args, spec.required, spec.tools) == ("a", "x", ("1",), True, ("t",))
    assert dict(spec.env_secrets) == {"K": "KEY"}


def test_a_sandbox_has_its_folders_relative_to_the_file_and_a_home_in_the_state_folder(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(
        '[mcp.servers.a]\ncommand = "x"\nsandbox = "required"\nread = ["docs", "~/x", "${PLACE}"]\nwrite = ["../w"]\n'
        "network = false\nmax_processes = 8\nmax_memory_bytes = 1000\nmax_cpu_seconds = 5\n"
    )

    [spec] = build_specs(load_config(path, state=tmp_path / "state", environ={"HOME": "/h", "PLACE": "/p"}))

    assert spec.read == (str(tmp_path / "docs"), str(Path("~/x").expanduser()), "/p")
    assert spec.write == (str(tmp_path.parent / "w"),)
    assert (spec.sandbox, spec.network, spec.home) == ("required", False, str(tmp_path / "state" / "servers" / "a"))
    assert (spec.max_processes, spec.max_memory_bytes, spec.max_cpu_seconds) == (8, 1000, 5)


def test_a_table_of_tools_is_settings_by_tool(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(
        '[mcp.servers.a]\ncommand = "x"\n[mcp.servers.a.tools."*"]\nhidden = true\n'
        "[mcp.servers.a.tools.echo]\nhidden = false\nrequires_approval = true\ntimeout_seconds = 5\n"
    )

    [spec] = build_specs(load_config(path, environ={"HOME": str(tmp_path)}))

    assert spec.tools is None
    assert spec.tool_settings == {
        "*": ToolSettings(hidden=True),
        "echo": ToolSettings(hidden=False, requires_approval=True, timeout_seconds=5),
    }


@given(st.lists(st.text(max_size=60), unique=True, max_size=8))
def test_homes_of_servers_are_folders_of_the_state_folder_and_never_shared(names: list[str]) -> None:
    homes = [get_server_home(Path("/state"), name) for name in [*names, "a", "A", "a-b", "a b", "..", "a/../b"]]

    assert len({str(home).lower() for home in homes}) == len({*names, "a", "A", "a-b", "a b", "..", "a/../b"})
    assert all(home.parent == Path("/state/servers") and home.name not in {".", ".."} for home in homes)


def test_an_invalid_server_spec_is_a_problem_of_its_key(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text('[mcp.servers.a]\nurl = "http://user:pass@127.0.0.1/mcp"\n')

    with pytest.raises(InvalidConfigError) as caught:
        build_specs(load_config(path, environ={"HOME": str(tmp_path)}))

    assert caught.value.field == "mcp.servers.a.url"


def test_a_credential_in_a_header_becomes_a_secret(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "spindle.toml", tmp_path / "client.json"
    headers = '{Authorization = "Bearer ${TOK}", X-Team = "blue"}'
    ours.write_text(f'[mcp.servers.a]\nurl = "http://127.0.0.1:9/mcp"\nheaders = {headers}\n')
    given = {"authorization": "Basic eA==", "X-Api-Key": "0123456789"}
    theirs.write_text(json.dumps({"mcpServers": {"b": {"url": "http://127.0.0.1:9/mcp", "headers": given}}}))
    config = load_config(ours, mcp_configs=[theirs], environ={"TOK": "hush", "HOME": str(tmp_path)})

    first, second = build_specs(config)
    look_up = build_server_secret_lookup(config)

    assert dict(first.headers) == {"X-Team": "blue"}
    assert dict(second.headers) == {}
    assert {header: look_up(name) for header, name in first.header_secrets.items()} == {"Authorization": "Bearer hush"}
    assert {header: look_up(name) for header, name in second.header_secrets.items()} == given


def test_the_state_folder_is_private(tmp_path: Path) -> None:
    build_backends(load_config(None, state=tmp_path / "new" / "state"))

    assert (tmp_path / "new" / "state").stat().st_mode & 0o077 == 0


def test_a_state_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InvalidConfigError) as caught:
        build_backends(load_config(None, state=tmp_path / "file"))

    assert caught.value.field == "spindle.state"
    assert str(tmp_path / "file") in str(caught.value)


def test_an_upstream_tool_with_the_name_of_a_local_one_is_reported_once() -> None:
    ours, theirs, said = ToolRegistry([made("calculate")]), ToolRegistry(), list[str]()
    follower = UpstreamToolSync(ours, theirs, warn=said.append)
    theirs.register(made("calculate"), mcp=("bare", "calculate"))
    follower.sync()
    follower.sync()

    [warning] = said
    assert "'bare'" in warning
    assert "'calculate'" in warning
