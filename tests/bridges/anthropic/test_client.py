"""Whole turns with Anthropic's real SDK against a server that speaks the wire format."""

import json
import sys
from typing import Any, cast

import pytest

from spindle import Media, TurnRunner, tool
from spindle.bridges.anthropic import messages
from spindle.errors import MissingExtraError, ModelStoppedError
from tests.bridges.messages_scene import DONE, blocks, cause, turn
from tests.bridges.outcomes import PNG
from tests.bridges.wire import messages as wire
from tests.bridges.wire.server import Answer, WireServer, json_answer

pytestmark = pytest.mark.anyio


@tool(name="shop.list items")
async def list_items() -> str:
    """List what there is."""
    return "apples"


@tool
async def draw() -> Media:
    """Draw a chart."""
    return Media.tool_generated(PNG, kind="image", mime_type="image/png", filename="chart.png")


@tool
async def dump() -> str:
    """Write a lot."""
    return "\n".join(f"row {number}" for number in range(50_000))


async def test_parallel_calls_over_several_trips_with_text_between() -> None:
    report, requests = await turn(
        wire.streamed(
            wire.say(0, "Let me ", "see."),
            wire.use(1, "t1", "add", '{"a": 1,', ' "b": 2}'),
            wire.use(2, "t2", "add", '{"a": 3, "b": 4}'),
        ),
        wire.streamed(wire.use(0, "t3", "add", '{"a": 3, "b": 7}')),
        wire.streamed(wire.say(0, "It is 10."), reason="end_turn"),
    )

    assert (report.status, report.text, report.iterations) == ("ok", "It is 10.", 3)
    assert [record.results for record in report.tool_calls] == ["3", "7", "10"]
    assert report.usage == {
        "input_tokens": 42,
        "output_tokens": 21,
        "cached_input_tokens": 12,
        "total_tokens": 63,
    }
    assert [each["role"] for each in requests[2]["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert [block["tool_use_id"] for block in blocks(requests[2], "tool_result")] == ["t1", "t2", "t3"]
    assert blocks(requests[2], "text")[1] == {"type": "text", "text": "Let me see."}
    assert requests[0]["system"] == [{"type": "text", "text": "Be brief."}]
    assert requests[0]["tools"] == requests[2]["tools"]


async def test_thinking_goes_back_unchanged_before_its_calls() -> None:
    redacted = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    asked = [wire.think(0, "So: 1+2", "SIG+/=="), [wire.begin(1, redacted), wire.end(1)]]

    _, requests = await turn(wire.streamed(*asked, wire.use(2, "t1", "add", '{"a": 1, "b": 2}')), DONE)

    assert requests[1]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "So: 1+2", "signature": "SIG+/=="},
        redacted,
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}},
    ]


async def test_a_name_the_api_refuses_is_mapped_both_ways() -> None:
    report, requests = await turn(
        wire.streamed(wire.use(0, "t1", "shop_list_items_4c3063e0", "{}")),
        DONE,
        tools=[list_items],
        tool_choice="shop.list items",
    )

    assert [each["name"] for each in requests[0]["tools"]] == ["shop_list_items_4c3063e0"]
    assert [record.tool for record in report.tool_calls] == ["shop.list items"]
    assert report.tool_calls[0].results == "apples"
    assert blocks(requests[1], "tool_use")[0]["name"] == "shop_list_items_4c3063e0"
    assert requests[0]["tool_choice"] == {"type": "tool", "name": "shop_list_items_4c3063e0"}
    assert requests[1]["tool_choice"] == {"type": "auto"}


async def test_media_is_shown_to_the_model() -> None:
    _, requests = await turn(wire.streamed(wire.use(0, "t1", "draw", "{}")), DONE, tools=[draw])

    (result,) = blocks(requests[1], "tool_result")
    assert [block["type"] for block in result["content"]] == ["text", "image"]


async def test_a_big_result_is_read_on_with_a_forged_reader() -> None:
    args = json.dumps({"call_id": "t1", "start": 40_000, "end": 40_001})

    report, requests = await turn(
        wire.streamed(wire.use(0, "t1", "dump", "{}")),
        wire.streamed(wire.use(0, "t2", "artifact_cat", args)),
        DONE,
        tools=[dump],
    )

    assert [each["name"] for each in requests[0]["tools"]] == ["dump"]
    assert "artifact_cat" in [each["name"] for each in requests[1]["tools"]]
    assert not report.tool_calls[1].is_error
    assert "row 40000" in blocks(requests[2], "tool_result")[1]["content"][0]["text"]
    assert len(json.dumps(requests[1])) < 150_000


async def test_truncated_arguments_are_refused_and_corrected() -> None:
    report, requests = await turn(
        wire.streamed(wire.use(0, "t1", "add", '{"a": 1, "b'), reason="max_tokens"),
        wire.streamed(wire.use(0, "t2", "add", '{"a": 1, "b": 2}')),
        DONE,
    )

    assert [record.is_error for record in report.tool_calls] == [True, False]
    assert blocks(requests[1], "tool_use")[0]["input"] == {"INVALID_JSON": '{"a": 1, "b'}
    assert blocks(requests[1], "tool_result")[0]["is_error"] is True
    assert report.text == "done"


async def test_a_call_cut_before_its_arguments_does_not_run() -> None:
    ran: list[str] = []

    @tool
    async def wipe() -> str:
        """Remove everything."""
        ran.append("wipe")
        return ""

    report, _ = await turn(wire.streamed(wire.use(0, "t1", "wipe"), reason="max_tokens"), DONE, tools=[wipe])

    assert ran == []
    assert [record.is_error for record in report.tool_calls] == [True]


async def test_without_tools_nothing_is_said_of_tools() -> None:
    report, requests = await turn(DONE, tools=[], tool_choice="required")

    assert report.text == "done"
    assert {"tools", "tool_choice"}.isdisjoint(requests[0])


async def test_an_answer_may_come_as_a_whole() -> None:
    report, requests = await turn(
        json_answer(wire.message({"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}})),
        json_answer(wire.message({"type": "text", "text": "3"}, reason="end_turn")),
        stream=False,
    )

    assert (report.text, report.usage["total_tokens"]) == ("3", 10)
    assert not requests[0].get("stream")


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_pause_of_the_apis_own_tools_is_gone_over(is_streaming: bool) -> None:
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
    web = {"type": "web_search_20250305", "name": "web_search"}
    paused = wire.streamed(wire.say(0, "One "), [wire.begin(1, search), wire.end(1)], reason="pause_turn")
    ended = wire.streamed(wire.say(0, "two."), reason="end_turn")
    if not is_streaming:
        paused = json_answer(wire.message({"type": "text", "text": "One "}, search, reason="pause_turn"))
        ended = json_answer(wire.message({"type": "text", "text": "two."}, reason="end_turn"))

    report, requests = await turn(paused, ended, stream=is_streaming, extra={"tools": [web]})

    assert (report.text, report.iterations) == ("One two.", 1)
    assert requests[0]["tools"][-1] == web
    assert requests[1]["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": "One "}, search]}
    assert report.tool_calls == ()


async def test_a_pause_that_never_ends_is_an_error() -> None:
    paused = wire.streamed(wire.say(0, "x"), reason="pause_turn")

    report, requests = await turn(*[paused] * 20)

    assert report.status == "error"
    assert isinstance(cause(report), ModelStoppedError)
    assert len(requests) == 11


async def test_cacheable_parts_are_marked_and_extra_parameters_are_sent() -> None:
    _, requests = await turn(
        DONE, cache=True, extra={"temperature": 0.5, "thinking": {"type": "adaptive"}}, max_tokens=99
    )

    keep = {"type": "ephemeral"}
    assert requests[0]["tools"][-1]["cache_control"] == keep
    assert requests[0]["system"][-1]["cache_control"] == keep
    assert (requests[0]["temperature"], requests[0]["max_tokens"]) == (0.5, 99)


@pytest.mark.parametrize(
    ("wish", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("add", {"type": "tool", "name": "add"}),
    ],
)
async def test_a_choice_of_tools_is_sent(wish: str, sent: Any) -> None:
    _, requests = await turn(DONE, tool_choice=wish)

    assert requests[0]["tool_choice"] == sent


async def test_the_words_a_model_made_of_half_characters_can_be_sent_back() -> None:
    piece = json.dumps({"a": 1, "b": 2})
    half = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
    half += b'"text":"\\ud800"}}\n\n'
    whole = wire.streamed(wire.say(0, "x"), wire.use(1, "t1", "add", piece))
    chunks = [*whole.chunks[:3], half, *whole.chunks[3:]]

    report, _ = await turn(Answer(headers=whole.headers, chunks=chunks), DONE)

    assert report.text == "done"


async def test_our_own_client_is_made_for_the_address() -> None:
    async with WireServer.playing(DONE, DONE) as server:
        callback = messages(model="m", base_url=server.url, api_key="k")
        report = await TurnRunner(executor_callback=callback).run(messages=["x"])
        client: Any = cast("Any", callback.provider).client.get()
        assert client.max_retries == 0
        await client.close()

    assert report.text == "done"
    assert server.requests[0].headers["authorization"] == "Bearer k"


def test_without_the_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)

    with pytest.raises(MissingExtraError):
        messages(model="m")
