"""Clients hear of changed lists and of resources that they are subscribed to, on both revisions on either side."""

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError

from spindle import ToolFilter
from tests.mcp.memory_upstreams import NEWER, OLDER, Upstream, memory_gateway

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("theirs", [OLDER, NEWER])
OURS = pytest.mark.parametrize("ours", [OLDER, NEWER])
A = "spindle://fs/note:a"


class Heard:
    """The notifications of a client of the older revision."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._came = anyio.Event()

    async def __call__(self, message: Any) -> None:
        self.messages.append(message)
        self._came.set()

    async def until(self, kind: type) -> Any:
        while not any(isinstance(each, kind) for each in self.messages):
            self._came = anyio.Event()
            await self._came.wait()
        return next(each for each in self.messages if isinstance(each, kind))


async def subscribe(client: Client, uri: str) -> None:
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


async def unsubscribe(client: Client, uri: str) -> None:
    request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


@BOTH
async def test_an_older_client_hears_of_an_updated_resource(theirs: str, monkeypatch: Any) -> None:
    upstream, heard = Upstream(resources={"note:a": "A", "note:b": "B"}, revision=theirs), Heard()
    async with (
        memory_gateway(monkeypatch, {"fs": upstream}) as gateway,
        gateway.client(OLDER, message_handler=heard) as client,
    ):
        await subscribe(client, A)
        assert upstream.subscribed == {"note:a"}
        await upstream.report(ResourceUpdated("note:b"))
        await upstream.report(ResourceUpdated("note:a"))
        updated = await heard.until(types.ResourceUpdatedNotification)
        await unsubscribe(client, A)

    assert updated.params.uri == A
    assert [each for each in heard.messages if isinstance(each, types.ResourceUpdatedNotification)] == [updated]


@BOTH
async def test_a_newer_client_listens_to_the_resources_it_may_read(theirs: str, monkeypatch: Any) -> None:
    upstream = Upstream(resources={"note:a": "A", "note:b": "B"}, revision=theirs)
    shown = ToolFilter(allowed_resources=[A])
    async with (
        memory_gateway(monkeypatch, {"fs": upstream}, filter=shown) as gateway,
        gateway.client(NEWER) as client,
        client.listen(resource_subscriptions=[A, "spindle://fs/note:b", "spindle://none/x:1"]) as events,
    ):
        assert upstream.subscribed == {"note:a"}
        await upstream.report(ResourceUpdated("note:b"))
        # An older server may report a part of what was subscribed to.
        await upstream.report(ResourceUpdated("note:a/part" if theirs == OLDER else "note:a"))
        assert await anext(events) == ResourceUpdated(A)

    assert events.honored.resource_subscriptions == [A]


@pytest.mark.slow
@BOTH
@OURS
async def test_clients_hear_of_changed_lists_and_see_them(ours: str, theirs: str, monkeypatch: Any) -> None:
    upstream, heard = Upstream(revision=theirs), Heard()
    async with (
        memory_gateway(monkeypatch, {"fs": upstream}) as gateway,
        gateway.client(ours, message_handler=heard) as client,
    ):
        assert await list_both(client) == ([], [])
        upstream.prompts["new"] = "New"
        upstream.resources["note:new"] = "New"
        if ours == NEWER:
            async with client.listen(prompts_list_changed=True, resources_list_changed=True) as events:
                await upstream.report(PromptsListChanged())
                await upstream.report(ResourcesListChanged())
                assert {await anext(events), await anext(events)} == {PromptsListChanged(), ResourcesListChanged()}
        else:
            await upstream.report(PromptsListChanged())
            await upstream.report(ResourcesListChanged())
            await heard.until(types.PromptListChangedNotification)
            await heard.until(types.ResourceListChangedNotification)

        assert await list_both(client) == (["mcp__fs__new"], ["spindle://fs/note:new"])


async def list_both(client: Client) -> tuple[list[str], list[str]]:
    prompts = await client.list_prompts(cache_mode="refresh")
    resources = await client.list_resources(cache_mode="refresh")
    return [each.name for each in prompts.prompts], [each.uri for each in resources.resources]


async def test_what_may_not_be_read_cannot_be_subscribed_to(monkeypatch: Any) -> None:
    upstream = Upstream(resources={"note:a": "A"})
    async with (
        memory_gateway(monkeypatch, {"fs": upstream}, filter=ToolFilter(allowed_resources=[])) as gateway,
        gateway.client(OLDER) as client,
    ):
        with pytest.raises(MCPError):
            await subscribe(client, A)

    assert upstream.subscribed == set()


async def test_a_subscription_outlives_a_restart_of_its_server(monkeypatch: Any) -> None:
    upstream, heard = Upstream(resources={"note:a": "A"}), Heard()
    async with (
        memory_gateway(monkeypatch, {"fs": upstream}) as gateway,
        gateway.client(OLDER, message_handler=heard) as client,
    ):
        await subscribe(client, A)
        upstream.subscribed.clear()
        await gateway.servers.restart("fs")
        while not upstream.subscribed:
            await anyio.lowlevel.checkpoint()
        await upstream.report(ResourceUpdated("note:a"))
        await heard.until(types.ResourceUpdatedNotification)
        gateway.server.forget("stdio")
        while upstream.subscribed:
            await anyio.lowlevel.checkpoint()
