"""Prompts, resource templates and apps of a locked server: what changed is neither listed nor read."""

from typing import Any

import pytest
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged
from mcp.shared.exceptions import MCPError

from spindle.mcp.client.feature_lock import find_app_uris
from spindle.mcp.lock import LockFile, LockPolicy
from tests.mcp.memory_upstreams import NEWER, OLDER, MemoryGateway, Upstream, memory_gateway

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("theirs", [OLDER, pytest.param(NEWER, marks=pytest.mark.slow)])


def files(**more: Any) -> Upstream:
    return Upstream(
        prompts={"greet": "Hello {who}", "bye": "Bye"},
        resources={"file:///a.txt": "A", "ui://app/main": "<p>", "ui://app/other": "<b>"},
        templates=["file:///{name}.txt", "db://{table}"],
        **more,
    )


async def lock(gateway: MemoryGateway) -> LockFile:
    """Lock the server as it is, and put the lock in force."""
    server, unreadable = await gateway.servers.describe("fs")
    assert unreadable == []
    file = LockFile.parse(LockFile(servers={"fs": server}).to_text())
    await gateway.servers.apply_lock(LockPolicy(file=file))
    return file


async def list_all(client: Any) -> set[str]:
    prompts = (await client.list_prompts(cache_mode="refresh")).prompts
    resources = (await client.list_resources(cache_mode="refresh")).resources
    templates = (await client.list_resource_templates(cache_mode="refresh")).resource_templates
    found = [*(each.name for each in prompts), *(each.uri for each in resources)]
    return {*found, *(each.uri_template for each in templates)}


def withheld(gateway: MemoryGateway) -> set[tuple[str, str]]:
    [status] = gateway.servers.status()
    return {(each.kind, each.name) for each in status.withheld}


@BOTH
async def test_a_server_as_it_was_locked_is_served_whole(theirs: str, monkeypatch: Any) -> None:
    async with (
        memory_gateway(monkeypatch, {"fs": files(revision=theirs)}) as gateway,
        gateway.client() as client,
    ):
        before = await list_all(client)
        locked = (await lock(gateway)).servers["fs"]
        after = await list_all(client)
        app: Any = (await client.read_resource("ui://fs/app/main")).contents[0]
        prompt = await client.get_prompt("mcp__fs__bye")

    assert after == before
    assert len(before) == 7
    assert {kind: set(named) for kind, named in locked.definitions.items()} == {
        "tool": {"link"},
        "prompt": {"greet", "bye"},
        "resource_template": {"file:///{name}.txt", "db://{table}"},
        "app": {"ui://app/main", "ui://app/other"},
    }
    assert set(locked.of_kind("app")["ui://app/main"].value["content"]) == {"sha256", "bytes"}
    assert app.text == "<p>"
    assert prompt.messages
    assert withheld(gateway) == set()
    assert gateway.log.warnings == []


@BOTH
async def test_changed_and_new_definitions_are_neither_listed_nor_used(theirs: str, monkeypatch: Any) -> None:
    upstream = files(revision=theirs)
    async with memory_gateway(monkeypatch, {"fs": upstream}) as gateway, gateway.client() as client:
        await lock(gateway)
        upstream.prompts["hello"] = upstream.prompts.pop("bye")
        upstream.templates[1] = "db://{table}/{row}"
        upstream.resources["ui://app/new"] = "<script>"
        del upstream.resources["ui://app/other"]
        upstream.asked.clear()
        await upstream.report(PromptsListChanged())
        await upstream.report(ResourcesListChanged())
        await gateway.log.until(lambda: gateway.log.warned_of("ui://app/new") and gateway.log.warned_of("'hello'"))
        await gateway.log.until(lambda: gateway.log.warned_of("db://{table}/{row}"))
        listed = await list_all(client)
        for name in ("hello", "bye"):
            with pytest.raises(MCPError):
                await client.get_prompt(f"mcp__fs__{name}")
        for uri in ("ui://fs/app/new", "ui://fs/app/other", "spindle://fs/db://users/1"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)

    assert listed == {
        "mcp__fs__greet",
        "spindle://fs/file:///a.txt",
        "ui://fs/app/main",
        "spindle://fs/file:///{name}.txt",
    }
    assert withheld(gateway) == {
        ("prompt", "hello"),
        ("resource_template", "db://{table}/{row}"),
        ("app", "ui://app/new"),
    }
    assert upstream.asked == []


async def test_another_content_of_an_app_is_not_returned(monkeypatch: Any) -> None:
    upstream = files()
    async with memory_gateway(monkeypatch, {"fs": upstream}) as gateway, gateway.client() as client:
        await lock(gateway)
        upstream.resources["ui://app/main"] = "<p>canary"

        with pytest.raises(MCPError) as refused:
            await client.read_resource("ui://fs/app/main")
        listed = await list_all(client)

    assert "canary" not in str(refused.value)
    assert "ui://fs/app/main" not in listed
    assert withheld(gateway) == {("app", "ui://app/main")}
    assert gateway.log.warned_of("ui://app/main", "content")
    assert not gateway.log.warned_of("canary")


async def test_an_app_with_other_metadata_or_an_unknown_scheme_case_is_withheld(monkeypatch: Any) -> None:
    upstream = files()
    async with memory_gateway(monkeypatch, {"fs": upstream}) as gateway, gateway.client() as client:
        await lock(gateway)
        upstream.description = "Poisoned."
        upstream.resources["UI://app/main"] = "<p>canary"
        await upstream.report(PromptsListChanged())
        await upstream.report(ResourcesListChanged())
        await gateway.log.until(lambda: gateway.log.warned_of("ui://app/main") and gateway.log.warned_of("'greet'"))
        listed = await list_all(client)

    assert listed == {"spindle://fs/file:///a.txt", "spindle://fs/file:///{name}.txt", "spindle://fs/db://{table}"}


async def test_changes_that_are_accepted_are_offered_without_a_restart(monkeypatch: Any) -> None:
    upstream = files()
    async with memory_gateway(monkeypatch, {"fs": upstream}) as gateway, gateway.client() as client:
        await lock(gateway)
        upstream.prompts["new"] = "New"
        await upstream.report(PromptsListChanged())
        await gateway.log.until(lambda: gateway.log.warned_of("'new'"))
        before = await list_all(client)
        await lock(gateway)
        after = await list_all(client)

    assert after - before == {"mcp__fs__new"}


async def test_a_server_that_is_not_locked_is_withheld_whole_if_locks_are_required(monkeypatch: Any) -> None:
    async with memory_gateway(monkeypatch, {"fs": files()}) as gateway, gateway.client() as client:
        await gateway.servers.apply_lock(LockPolicy(unlocked="quarantine"))
        listed = await list_all(client)
        tools = [each.name for each in (await client.list_tools(cache_mode="refresh")).tools]
        with pytest.raises(MCPError):
            await client.read_resource("spindle://fs/file:///a.txt")

    assert listed == set()
    assert not [name for name in tools if name.startswith("mcp__")]


def test_apps_that_only_tools_name_are_found() -> None:
    tools = [
        {"_meta": {"ui": {"resourceUri": "ui://a/1"}}},
        {"_meta": {"ui/resourceUri": "ui://a/2"}},
        {"_meta": {"ui": {"resourceUri": "https://a/3"}}},
        {"_meta": {"ui": "ui://a/4"}},
        {"_meta": None},
        {},
    ]

    assert find_app_uris(tools) == ["ui://a/1", "ui://a/2"]
