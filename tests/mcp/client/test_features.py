"""Prompts and resources of hostile and unreliable servers, through the client."""

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from spindle.errors import UnknownFeatureError, UpstreamError, UpstreamRefusedError
from spindle.mcp.client import feature_requests
from spindle.mcp.client.listing_filter import InvalidToolFilter
from tests.mcp.memory_upstreams import NEWER, OLDER, Answer, Upstream, memory_servers

pytestmark = pytest.mark.anyio


async def test_they_are_listed_and_read_through_the_client(monkeypatch: Any) -> None:
    upstream = Upstream(prompts={"greet": "Hello {who}"}, resources={"x:1": "X"}, templates=["x:{id}"])
    async with memory_servers(monkeypatch, {"fs": upstream}) as (servers, _):
        features = servers.features
        assert [each.name for each in await features.list_prompts()] == ["mcp__fs__greet"]
        assert [each.uri for each in await features.list_resources()] == ["spindle://fs/x:1"]
        assert [each.uri_template for each in await features.list_resource_templates()] == ["spindle://fs/x:{id}"]
        read: Any = await features.read_resource("spindle://fs/x:1")
        got: Any = await features.get_prompt("mcp__fs__greet", {"who": "you"})
        ref = types.ResourceTemplateReference(type="ref/resource", uri="spindle://fs/x:{id}")
        argument = types.CompletionArgument(name="id", value="7")
        completed = await features.complete(types.CompleteRequestParams(ref=ref, argument=argument))
        with pytest.raises(UnknownFeatureError):
            await features.read_resource("spindle://other/x:1")
        with pytest.raises(UnknownFeatureError):
            await features.get_prompt("mcp__fs__none")

    assert read.contents[0].text == "X"
    assert got.messages[0].content.text == "Hello you"
    assert completed.completion.values == ["7a", "7b"]
    assert upstream.asked[-1] == ("complete", "x:{id}")


async def test_an_error_of_the_server_names_it(monkeypatch: Any) -> None:
    async with memory_servers(monkeypatch, {"fs": Upstream(resources={"x:1": "X"})}) as (servers, _):
        with pytest.raises(UpstreamRefusedError) as caught:
            await servers.features.read_resource("spindle://fs/x:none")

    assert (caught.value.server, caught.value.rpc_code) == ("fs", -32002)


async def test_a_read_is_sent_again_when_the_connection_is_lost(monkeypatch: Any) -> None:
    async def lose(_params: Any) -> Any:
        if upstream.starts == 1:
            upstream.link.broken.set()
            await anyio.sleep_forever()
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri="x:1", text="again")])

    upstream = Upstream(resources={"x:1": Answer(lose)})
    async with memory_servers(monkeypatch, {"fs": upstream}) as (servers, _):
        read: Any = await servers.features.read_resource("spindle://fs/x:1")

    assert (read.contents[0].text, upstream.starts) == ("again", 2)


async def test_a_server_that_does_not_answer_in_time_is_an_error_and_stays_usable(monkeypatch: Any) -> None:
    async def hang(_params: Any) -> Any:
        await anyio.sleep_forever()

    upstream = Upstream(resources={"x:hang": Answer(hang), "x:1": "X"})
    async with memory_servers(monkeypatch, {"fs": upstream}, fs={"timeout_seconds": 0.2}) as (servers, _):
        with pytest.raises(UpstreamError, match="'fs'"):
            await servers.features.read_resource("spindle://fs/x:hang")
        read: Any = await servers.features.read_resource("spindle://fs/x:1")

    assert read.contents[0].text == "X"


async def test_a_cancelled_read_is_cancelled_at_the_server(monkeypatch: Any) -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def hang(_params: Any) -> Any:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    upstream = Upstream(resources={"x:1": Answer(hang)})
    async with (
        memory_servers(monkeypatch, {"fs": upstream}) as (servers, _),
        anyio.create_task_group() as group,
    ):
        group.start_soon(servers.features.read_resource, "spindle://fs/x:1")
        await began.wait()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), anyio.fail_after(10):
            await ended.wait()


async def test_unusable_definitions_are_left_out_with_a_warning(monkeypatch: Any) -> None:
    names = ["fine", "hid\u200bden", "x" * 300, "", "<|im_start|>"]
    uris = ["x:1", "x:\u200b", "x:" + "y" * 9_000, "x:<|im_start|>"]
    upstream = Upstream(prompts=dict.fromkeys(names, ""), resources=dict.fromkeys(uris, ""))
    async with memory_servers(monkeypatch, {"fs": upstream}) as (servers, log):
        assert [each.name for each in await servers.features.list_prompts()] == ["mcp__fs__fine"]
        assert [each.uri for each in await servers.features.list_resources()] == ["spindle://fs/x:1"]

    assert log.warned_of("'fs'", "prompt", "left out")
    assert log.warned_of("'fs'", "resource", "left out")
    assert not any("\u200b" in each for each in log.warnings)


async def test_listings_without_end_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(feature_requests, "MAX_ENTRIES", 20)
    upstream = Upstream(resources={f"x:{number}": "" for number in range(30)}, page_size=7)
    async with memory_servers(monkeypatch, {"fs": upstream}) as (servers, log):
        assert len(await servers.features.list_resources()) == 20

    assert log.warned_of("'fs'", "more than 20 resources")


async def test_a_listing_that_fails_costs_neither_the_tools_nor_the_other_lists(monkeypatch: Any) -> None:
    upstream = Upstream(prompts={"p": ""}, resources={"x:1": ""})

    async def fail(_ctx: Any, _params: Any) -> Any:
        raise ValueError("no")

    upstream.sdk.add_request_handler("prompts/list", types.PaginatedRequestParams, fail)
    async with memory_servers(monkeypatch, {"fs": upstream}) as (servers, log):
        assert await servers.features.list_prompts() == []
        assert len(await servers.features.list_resources()) == 1
        assert "mcp__fs__link" in servers.registry

    assert log.warned_of("'fs'", "listing its prompts failed")


class OneMessage:
    """A stream with one message."""

    def __init__(self, result: Any) -> None:
        self._result = result

    async def receive(self) -> SessionMessage:
        return SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=1, result=self._result))


@pytest.mark.parametrize(
    ("key", "fine"),
    [
        ("prompts", {"name": "p"}),
        ("resources", {"uri": "x:1", "name": "r"}),
        ("resourceTemplates", {"uriTemplate": "x:{id}", "name": "t"}),
    ],
)
@pytest.mark.parametrize("revision", [OLDER, NEWER])
async def test_one_invalid_entry_does_not_cost_the_others(revision: str, key: str, fine: Any) -> None:
    said: list[str] = []
    listing = {key: [fine, {"name": 3}, "odd"], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    received: Any = await InvalidToolFilter(OneMessage(listing), lambda: revision, said.append).receive()

    assert received.message.result[key] == [fine]
    assert len(said) == 2


async def test_a_change_reaches_listeners_only_if_something_changed(monkeypatch: Any) -> None:
    upstream, heard = Upstream(resources={"x:1": ""}), list[str]()
    async with memory_servers(monkeypatch, {"fs": upstream}) as (servers, _):
        await servers.features.list_resources()
        await servers.features.list_prompts()
        servers.features.on_change(heard.append)
        await servers.restart("fs")
        await servers.features.list_resources()
        upstream.resources["x:2"] = ""
        await servers.restart("fs")
        await servers.features.list_resources()

    assert heard == ["resources"]


async def test_a_server_is_not_asked_for_what_is_not_wanted(monkeypatch: Any) -> None:
    upstream, listed = Upstream(prompts={"p": ""}, resources={"x:1": ""}), list[str]()
    original = upstream.sdk.get_request_handler("resources/list")
    assert original is not None

    async def note(ctx: Any, params: Any) -> Any:
        listed.append("resources")
        return await original.handler(ctx, params)

    upstream.sdk.add_request_handler("resources/list", types.PaginatedRequestParams, note)
    async with memory_servers(monkeypatch, {"fs": upstream}) as (servers, _):
        await servers.restart("fs")
        assert await servers.ping("fs") >= 0
        assert listed == []
        assert len(await servers.features.list_resources()) == 1
        assert listed == ["resources"]
