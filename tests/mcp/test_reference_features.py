"""Prompts and resources of the official reference server behind a real `spindle serve`."""

from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError

from tests.mcp.gateways import LEGACY, MODERN, PLAIN, entry, gateway
from tests.mcp.serving import npm_program

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(120)]

over_both = pytest.mark.parametrize(
    ("way", "mode"), [("stdio", LEGACY), ("stdio", MODERN), ("http", LEGACY), ("http", MODERN)]
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the server under test has its own


def everything(**settings: Any) -> str:
    return entry("everything", npm_program("mcp-server-everything"), **settings)


@over_both
async def test_everything_it_offers_comes_through(way: str, mode: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, way, mode, config=PLAIN + everything()) as client:
        prompts = {each.name for each in (await client.list_prompts()).prompts}
        resources = (await client.list_resources()).resources
        templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
        static: Any = (await client.read_resource(resources[0].uri)).contents[0]
        made: Any = (await client.read_resource("spindle://everything/demo://resource/dynamic/text/7")).contents[0]
        blob: Any = (await client.read_resource("spindle://everything/demo://resource/dynamic/blob/7")).contents[0]
        simple: Any = await client.get_prompt("mcp__everything__simple-prompt")
        given = {"city": "Bern", "state": "BE"}
        filled: Any = await client.get_prompt("mcp__everything__args-prompt", given)
        embedding = {"resourceType": "Text", "resourceId": "3"}
        embedded: Any = await client.get_prompt("mcp__everything__resource-prompt", embedding)
        ref = types.PromptReference(type="ref/prompt", name="mcp__everything__completable-prompt")
        completed = await client.complete(ref, {"name": "department", "value": "E"})
        links = await client.call_tool("mcp__everything__get-resource-links", {"count": 2})
        with pytest.raises(MCPError) as missing:
            await client.read_resource("spindle://everything/demo://none")

    assert "mcp__everything__simple-prompt" in prompts
    assert all(each.uri.startswith("spindle://everything/demo://") for each in resources)
    assert "spindle://everything/demo://resource/dynamic/text/{resourceId}" in templates
    assert static.text
    assert "Resource 7" in made.text
    assert made.uri == "spindle://everything/demo://resource/dynamic/text/7"
    assert blob.blob
    assert simple.messages[0].content.text
    assert "Bern" in filled.messages[0].content.text
    [inner] = [each.content.resource for each in embedded.messages if each.content.type == "resource"]
    assert inner.uri == "spindle://everything/demo://resource/dynamic/text/3"
    assert completed.completion.values == ["Engineering"]
    assert "spindle://everything/demo://resource/dynamic/" in str(links.content)
    assert missing.value.code == (types.INVALID_PARAMS if mode == MODERN else -32002)


@over_both
async def test_a_gateway_in_front_of_one_server_keeps_its_names(way: str, mode: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, way, mode, config=PLAIN + everything(prefix=False)) as client:
        tools = {each.name for each in (await client.list_tools()).tools}
        prompts = {each.name for each in (await client.list_prompts()).prompts}
        made: Any = (await client.read_resource("demo://resource/dynamic/text/7")).contents[0]

    assert {"echo", "artifact_cat"} <= tools
    assert "simple-prompt" in prompts
    assert made.uri == "demo://resource/dynamic/text/7"


@over_both
async def test_a_client_hears_of_updates_that_the_server_makes(way: str, mode: str, tmp_path: Path) -> None:
    uri, updated = "spindle://everything/demo://resource/dynamic/text/1", anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification) and message.params.uri == uri:
            updated.set()

    config = PLAIN + everything()
    async with gateway(tmp_path, way, mode, config=config, message_handler=hear) as client:
        await client.read_resource(uri)
        if mode == LEGACY:
            request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
            await client.session.send_request(request, types.EmptyResult)
            await client.call_tool("mcp__everything__toggle-subscriber-updates", {})
            await updated.wait()
            return
        async with client.listen(resource_subscriptions=[uri]) as events:
            await client.call_tool("mcp__everything__toggle-subscriber-updates", {})
            assert await anext(events) == ResourceUpdated(uri)
