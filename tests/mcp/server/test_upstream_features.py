"""Prompts and resources of upstream servers, through the gateway."""

from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from spindle import ToolFilter
from tests.mcp.memory_upstreams import NEWER, OLDER, Upstream, memory_gateway

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("theirs", [OLDER, NEWER])
OURS = pytest.mark.parametrize("ours", [OLDER, NEWER])


def files(**more: Any) -> Upstream:
    return Upstream(
        prompts={"greet": "Hello {who}"},
        resources={"file:///a.txt": "A", "ui://app/main": "<p>"},
        templates=["file:///{name}.txt"],
        **more,
    )


@BOTH
@OURS
async def test_lists_and_contents_pass_on_all_revisions(ours: str, theirs: str, monkeypatch: Any) -> None:
    upstream = files(revision=theirs)
    async with (
        memory_gateway(monkeypatch, {"fs": upstream, "other": Upstream(revision=theirs)}) as gateway,
        gateway.client(ours) as client,
    ):
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        [prompt] = (await client.list_prompts()).prompts
        read: Any = (await client.read_resource("spindle://fs/file:///a.txt")).contents[0]
        expanded: Any = (await client.read_resource("spindle://fs/file:///b.txt")).contents[0]
        got = await client.get_prompt(prompt.name, {"who": "you"})
        ref = types.PromptReference(type="ref/prompt", name=prompt.name)
        completed = await client.complete(ref, {"name": "who", "value": "x"})

    assert [each.uri for each in resources] == ["spindle://fs/file:///a.txt", "ui://fs/app/main"]
    assert [each.uri_template for each in templates] == ["spindle://fs/file:///{name}.txt"]
    assert prompt.name == "mcp__fs__greet"
    assert (read.text, read.uri, read.meta) == ("A", "spindle://fs/file:///a.txt", {"spindle/trust": "untrusted"})
    assert expanded.text == "generated file:///b.txt"
    [message] = got.messages
    assert isinstance(message.content, types.TextContent)
    assert message.content.text == "Hello you"
    assert completed.completion.values == ["xa", "xb"]
    assert upstream.asked == [
        *(("read", "file:///a.txt"), ("read", "file:///b.txt")),
        *(("prompt", "greet"), ("complete", "greet")),
    ]


@BOTH
@OURS
async def test_an_unknown_resource_has_the_code_of_the_clients_revision(
    ours: str, theirs: str, monkeypatch: Any
) -> None:
    upstream = Upstream(resources={"file:///a": "A"}, revision=theirs)
    codes: list[int] = []
    async with (
        memory_gateway(monkeypatch, {"fs": upstream}) as gateway,
        gateway.client(ours) as client,
    ):
        for uri in ("spindle://fs/file:///none", "spindle://none/file:///a", "file:///a"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            codes.append(caught.value.code)
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("mcp__fs__none")

    assert codes == [types.INVALID_PARAMS if ours == NEWER else -32002] * 3
    assert caught.value.code == types.INVALID_PARAMS


async def test_what_a_filter_hides_cannot_be_read_either(monkeypatch: Any) -> None:
    shown = ToolFilter(allowed_resources=["spindle://fs/file:///a.txt", "ui://fs/*"], allowed_prompts=["mcp__fs__gr*"])
    upstream = files()
    upstream.prompts["other"] = "Other"
    upstream.resources["file:///secret"] = "S"
    async with (
        memory_gateway(monkeypatch, {"fs": upstream}, filter=shown) as gateway,
        gateway.client() as client,
    ):
        listed = [each.uri for each in (await client.list_resources()).resources]
        templates = (await client.list_resource_templates()).resource_templates
        prompts = [each.name for each in (await client.list_prompts()).prompts]
        for uri in ("spindle://fs/file:///secret", "spindle://fs/file:///b.txt", "spindle://fs/ui://app/main"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
        with pytest.raises(MCPError):
            await client.get_prompt("mcp__fs__other")
        ref = types.PromptReference(type="ref/prompt", name="mcp__fs__other")
        with pytest.raises(MCPError):
            await client.complete(ref, {"name": "who", "value": "x"})

    assert listed == ["spindle://fs/file:///a.txt", "ui://fs/app/main"]
    assert templates == []
    assert prompts == ["mcp__fs__greet"]
    assert upstream.asked == []
