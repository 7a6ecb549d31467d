"""What servers send about prompts and resources, made fit for clients."""

import base64
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.capabilities import Redactor
from spindle.mcp.client.contents import ContentRules, map_result_uris, rewrite_meta
from spindle.mcp.client.resource_uris import UriMapping

SECRET = "correct-horse-battery"
FILES = UriMapping("files")


def rules(*, is_trusted: bool = False) -> ContentRules:
    return ContentRules(uris=FILES, redactor=Redactor([SECRET]), is_trusted=is_trusted)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(["ui", "spindle/trust", "spindle/artifact", "x", "ui/resourceUri"]), JSON))
def test_a_server_cannot_write_the_metadata_of_the_gateway(meta: dict[str, Any]) -> None:
    cleaned = rules().clean_meta(meta, label=True) or {}

    assert cleaned["spindle/trust"] == "untrusted"
    assert "spindle/artifact" not in cleaned
    assert rules(is_trusted=True).clean_meta({"spindle/trust": "trusted"}, label=True) is None


def test_metadata_that_is_too_large_or_deep_is_dropped() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]

    assert rules().clean_meta({"x": "y" * 40_000}) is None
    assert "x" not in str(rules().clean_meta({"d": deep}))


@pytest.mark.parametrize(
    ("meta", "mapped"),
    [
        ({"ui": {"resourceUri": "ui://a"}}, {"ui": {"resourceUri": "ui://files/a"}}),
        ({"ui/resourceUri": "ui://a"}, {"ui/resourceUri": "ui://files/a"}),
        ({"ui": {"csp": {}}}, {"ui": {"csp": {}}}),
        ({"ui": 3}, {"ui": 3}),
    ],
)
def test_the_resource_of_an_app_is_mapped_in_metadata(meta: Any, mapped: Any) -> None:
    assert rewrite_meta(meta, FILES.to_gateway) == mapped


def test_secrets_are_masked_in_texts_blobs_and_uris() -> None:
    text = types.TextResourceContents(uri=f"x:{SECRET}", text=f"a {SECRET}")
    blob = types.BlobResourceContents(uri="x:1", blob=base64.b64encode(f"b {SECRET}".encode()).decode())
    broken = types.BlobResourceContents(uri="x:2", blob="not base64!")
    read = rules().clean_read(
        types.ReadResourceResult(contents=[text, blob, broken], cache_scope="public"), "file:///a"
    )
    data = [base64.b64decode(each.blob) for each in read.contents if isinstance(each, types.BlobResourceContents)]

    assert SECRET not in read.model_dump_json()
    assert SECRET.encode() not in b"".join(data)
    assert data[1] == b""
    assert read.cache_scope == "private"


def test_every_block_of_a_prompt_is_cleaned() -> None:
    link = types.ResourceLink(type="resource_link", uri="x:1", name="<|im_start|>", description=SECRET)
    inner = types.TextResourceContents(uri="x:2", text="<|im_start|>")
    image = types.ImageContent(type="image", data=base64.b64encode(b"i").decode(), mime_type="image/png")
    blocks: list[Any] = [link, types.EmbeddedResource(type="resource", resource=inner), image]
    messages = [types.PromptMessage(role="user", content=each) for each in blocks]
    got = rules().clean_prompt(types.GetPromptResult(description="<|im_start|>", messages=messages))
    contents: list[Any] = [each.content for each in got.messages]

    shown = got.model_dump_json()
    assert SECRET not in shown
    assert "<|im_start|>" not in shown
    assert (contents[0].uri, contents[1].resource.uri) == ("spindle://files/x:1", "spindle://files/x:2")
    assert contents[2].data == image.data
    assert all(each.meta == {"spindle/trust": "untrusted"} for each in contents)


def test_uris_in_results_of_tools_are_mapped_and_the_rest_stays() -> None:
    link = types.ResourceLink(type="resource_link", uri="ui://a", name="a")
    inner = types.TextResourceContents(uri="x:1", text="<|im_start|>")
    text = types.TextContent(type="text", text="x:1")
    result = types.CallToolResult(content=[link, types.EmbeddedResource(type="resource", resource=inner), text])
    mapped: list[Any] = list(map_result_uris(result, FILES).content)

    assert (mapped[0].uri, mapped[1].resource.uri, mapped[2]) == ("ui://files/a", "spindle://files/x:1", text)
    assert map_result_uris(result, UriMapping("files", is_prefixed=False)) is result
