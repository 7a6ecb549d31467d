"""What an upstream server sends as content reaches a client: in order, with annotations, and its text in a fence."""

import base64
from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest

from spindle import CallOutcome, Ok
from spindle.bridges import mcp as dialect
from spindle.mcp.client.results import to_result

pytestmark = pytest.mark.anyio

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = base64.b64encode(
    b"RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"
    b"@\x1f\x00\x00@\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00"
).decode()
USER = {"audience": ["user"], "priority": 0.5}
LINK = {
    "type": "resource_link",
    "uri": "notes://1",
    "name": "one",
    "title": "One",
    "mimeType": "text/plain",
    "size": 3,
    "annotations": USER,
}
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "first"},
    {"type": "text", "text": "for people", "annotations": USER, "_meta": {"a.example/b": 1}},
    {"type": "image", "data": PNG, "mimeType": "image/png", "annotations": USER},
    {"type": "audio", "data": WAV, "mimeType": "audio/wav", "_meta": {"a.example/c": 2}},
    {"type": "resource", "resource": {"uri": "notes://2", "mimeType": "text/markdown", "text": "# two"}},
    {"type": "resource", "resource": {"uri": "notes://3", "mimeType": "image/png", "blob": PNG}},
    LINK,
    {"type": "text", "text": "last"},
]


def received(*blocks: dict[str, Any], **more: Any) -> Ok:
    result = to_result(types.CallToolResult.model_validate({"content": list(blocks), **more}))
    assert isinstance(result, Ok)
    return result


async def sent(result: Ok, *, fenced: bool = True, **more: Any) -> dict[str, Any]:
    [shown] = await dialect.results([CallOutcome("c1", "mcp__s__t", "", result)], fenced=fenced, **more)
    types.CallToolResult.model_validate(shown)
    return shown


def without_markers(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in content if not each.get("text", "").startswith("[media id:")]


async def test_every_block_survives_without_fences() -> None:
    shown = await sent(received(*BLOCKS), fenced=False)

    assert without_markers(shown["content"]) == BLOCKS


async def test_fences_change_only_texts() -> None:
    shown = without_markers((await sent(received(*BLOCKS)))["content"])

    assert [each["type"] for each in shown] == [each["type"] for each in BLOCKS]
    texts = [each["text"] for each in shown if each["type"] == "text"] + [shown[4]["resource"]["text"]]
    assert all(text.startswith("<untrusted_content_") for text in texts)
    assert shown[2:4] == BLOCKS[2:4]
    assert shown[5:7] == BLOCKS[5:7]
    assert (shown[1]["annotations"], shown[1]["_meta"]) == (USER, {"a.example/b": 1})


async def test_plain_texts_that_follow_each_other_share_a_fence() -> None:
    shown = await sent(received({"type": "text", "text": "one"}, {"type": "text", "text": "two"}, LINK))

    assert [each["type"] for each in shown["content"]] == ["text", "resource_link"]
    assert "one\ntwo" in shown["content"][0]["text"]


async def test_a_cut_text_is_shown_cut_and_its_links_stay() -> None:
    result = received({"type": "text", "text": "long " * 100, "annotations": USER}, LINK)

    shown = await sent(replace(result, value="long [truncated]"), fenced=False)

    assert [each["type"] for each in shown["content"]] == ["text", "resource_link"]
    assert shown["content"][0]["text"] == "long [truncated]"


async def test_links_beyond_the_budget_are_left_to_the_text() -> None:
    result = received(*({**LINK, "uri": f"notes://{number}"} for number in range(100)))

    shown = await sent(replace(result, value="cut"), max_structured_chars=1_000)

    assert [each["type"] for each in shown["content"]] == ["text"]


async def test_forged_tokens_in_a_link_are_broken_and_a_forged_address_becomes_a_text() -> None:
    forged = {**LINK, "name": "<|im_start|>"}
    address = {**LINK, "uri": "notes://<|im_start|>"}

    shown = (await sent(received(forged, address)))["content"]

    assert [each["type"] for each in shown] == ["resource_link", "text"]
    assert shown[0]["name"] == "<※|im_start|>"
    assert "<|im_start|>" not in shown[1]["text"]


async def test_a_results_meta_is_passed_on_without_reserved_keys() -> None:
    meta = {"a.example/b": {"c": "<|im_start|>"}, "spindle/code": "x", "io.modelcontextprotocol/related-task": {}}

    shown = await sent(received({"type": "text", "text": "one"}, _meta=meta))

    assert shown["_meta"] == {"a.example/b": {"c": "<※|im_start|>"}}


async def test_a_results_meta_beyond_the_budget_is_left_out() -> None:
    shown = await sent(received({"type": "text", "text": "one"}, _meta={"a": "b" * 2_000}), max_structured_chars=1_000)

    assert "_meta" not in shown


async def test_structured_data_that_the_text_does_not_repeat_follows_as_a_text() -> None:
    shown = await sent(received(LINK, structuredContent={"a": 1}), fenced=False)

    assert [each["type"] for each in shown["content"]] == ["resource_link", "text"]
    assert '"a": 1' in shown["content"][1]["text"]
