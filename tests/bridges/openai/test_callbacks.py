"""Ready callbacks on OpenAI's SDK, against a real server on loopback that speaks its API."""

import json
import subprocess
import sys
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from openai import AsyncOpenAI

from spindle import Media, Tool, ToolContext, ToolFilter, TurnRunner, tool
from spindle.bridges.openai import chat, responses
from spindle.bridges.rendering import MediaSupport
from spindle.errors import MissingExtraError, ModelStoppedError, UnknownToolError, UsageError
from tests.bridges.chat_wire import asking, chunk, saying, usage_chunk, whole
from tests.bridges.openai_scene import CHAT, RESPONSES, add, chatting, responding, serving, turn
from tests.bridges.outcomes import PNG
from tests.bridges.responses_wire import call_item, events, message_item, reasoning_item, response
from tests.bridges.wire.server import json_answer, sse_answer

pytestmark = [
    pytest.mark.anyio,
    # Trio warns of generators that the SDK leaves open after the end of a stream, and closes them.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]


async def test_parallel_calls_over_several_trips() -> None:
    script = [
        chatting(
            *asking(("c1", "add", {"a": 1, "b": 2}), ("c2", "add", {"a": 3, "b": 4}), text="First these."),
            usage_chunk(prompt_tokens=10, completion_tokens=5, total_tokens=15),
        ),
        chatting(*asking(("c3", "add", {"a": 3, "b": 7})), usage_chunk(prompt_tokens=20, completion_tokens=5)),
        chatting(*saying("It is ", "10.")),
    ]
    async with serving(*script) as (server, client):
        report = await turn(chat(model="m", client=client), add, system_prompt="Be brief.")

    assert (report.status, report.text, report.iterations) == ("ok", "It is 10.", 3)
    assert report.usage == {"input_tokens": 30, "output_tokens": 10, "total_tokens": 40}
    sent = [request.json for request in server.requests]
    for request in sent:
        CHAT.validate_python(request)
    assert [each["role"] for each in sent[2]["messages"]] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "tool"),
    ]
    assert sent[2]["messages"][2]["content"] == "First these."
    assert [each.get("tool_call_id") for each in sent[2]["messages"] if each["role"] == "tool"] == ["c1", "c2", "c3"]
    assert "\n7\n" in sent[2]["messages"][4]["content"]
    assert {request.path for request in server.requests} == {"/v1/chat/completions"}


async def test_the_same_by_the_responses_api_with_reasoning_sent_back_in_order() -> None:
    first = [
        reasoning_item(encrypted_content="sealed"),
        message_item("First these."),
        call_item("c1", "add", {"a": 1, "b": 2}),
        call_item("c2", "add", {"a": 3, "b": 4}),
    ]
    async with serving(responding(*first), responding(message_item("Done.", "msg_2"))) as (server, client):
        report = await turn(responses(model="m", client=client, store=False), add, system_prompt="Be brief.")

    assert (report.status, report.text) == ("ok", "Done.")
    assert report.usage["input_tokens"] == 10
    sent = [request.json for request in server.requests]
    for request in sent:
        RESPONSES.validate_python(request)
    assert sent[1]["instructions"] == "Be brief."
    assert sent[1]["input"][1:5] == first
    assert [each["call_id"] for each in sent[1]["input"][5:]] == ["c1", "c2"]
    assert (sent[0]["store"], sent[0]["include"]) == (False, ["reasoning.encrypted_content"])
    assert {request.path for request in server.requests} == {"/v1/responses"}


async def test_answers_that_are_not_streamed() -> None:
    asked = {
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}}]
    }
    usage: dict[str, Any] = {"usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    chats = [json_answer(whole(asked, "tool_calls", **usage)), json_answer(whole({"content": "3"}, **usage))]
    others = [json_answer(response(call_item("c1", "add", {"a": 1, "b": 2}))), json_answer(response(message_item("3")))]
    async with serving(*chats, *others) as (server, client):
        by_chat = await turn(chat(model="m", client=client, stream=False), add)
        by_responses = await turn(responses(model="m", client=client, stream=False), add)

    assert (by_chat.text, by_chat.usage["total_tokens"]) == ("3", 6)
    assert (by_responses.text, by_responses.usage["total_tokens"]) == ("3", 24)
    assert not any(request.json.get("stream") for request in server.requests)
    CHAT.validate_python(server.requests[1].json)
    RESPONSES.validate_python(server.requests[3].json)


async def test_a_name_the_provider_refuses_is_mapped_both_ways() -> None:
    got: list[Any] = []

    def handle(args: Any, ctx: ToolContext, meta: Any) -> str:
        got.append(args)
        return "two orders"

    shop = Tool(name="shop.orders/v1", description="Orders.", input_schema={"type": "object"}, handler=handle)
    async with serving(chatting(*asking(("c1", "shop_orders_v1_2255ce44", {"x": 1}))), chatting(*saying("Two."))) as (
        server,
        client,
    ):
        report = await turn(chat(model="m", client=client, tool_choice="shop.orders/v1"), shop)

    first, second = (request.json for request in server.requests)
    assert first["tools"][0]["function"]["name"] == "shop_orders_v1_2255ce44"
    assert first["tool_choice"] == {"type": "function", "function": {"name": "shop_orders_v1_2255ce44"}}
    assert second["messages"][1]["tool_calls"][0]["function"]["name"] == "shop_orders_v1_2255ce44"
    assert (got, report.tool_calls[0].tool) == ([{"x": 1}], "shop.orders/v1")


async def test_rewrites_of_strict_mode_are_undone_in_the_call() -> None:
    got: list[Any] = []

    @tool
    async def find(text: str, limit: int = 10) -> str:
        """Find something."""
        got.append((text, limit))
        return "found"

    asked = call_item("c1", "find", {"text": "x", "limit": None})
    async with serving(responding(asked), responding(message_item("Done."))) as (server, client):
        report = await turn(responses(model="m", client=client, strict=True), find)

    reported = server.requests[0].json["tools"][0]
    assert (reported["strict"], reported["parameters"]["required"]) == (True, ["text", "limit"])
    assert (report.status, got) == ("ok", [("x", 10)])


async def test_pictures_are_shown_after_all_answers() -> None:
    @tool
    async def draw(name: str) -> Media:
        """Draw."""
        return Media.tool_generated(PNG, kind="image", mime_type="image/png", filename=name)

    asked = asking(("c1", "draw", {"name": "a.png"}), ("c2", "add", {"a": 1, "b": 2}))
    items = [call_item("c1", "draw", {"name": "a.png"})]
    async with serving(
        chatting(*asked), chatting(*saying("Nice.")), responding(*items), responding(message_item("Nice."))
    ) as (server, client):
        by_chat = await turn(chat(model="m", client=client), draw, add)
        by_responses = await turn(responses(model="m", client=client), draw)

    assert (by_chat.status, by_responses.status) == ("ok", "ok")
    messages = CHAT.validate_python(server.requests[1].json) and server.requests[1].json["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[-1]["content"][-1]["image_url"]["url"].startswith("data:image/png;base64,")
    RESPONSES.validate_python(server.requests[3].json)
    assert [part["type"] for part in server.requests[3].json["input"][-1]["output"]] == ["input_text", "input_image"]


async def test_a_result_over_budget_is_read_by_a_reader_on_the_next_trip() -> None:
    @tool(max_result_chars=100)
    async def log() -> str:
        """Give the log."""
        return "\n".join(f"line {n}" for n in range(5_000))

    script = [
        chatting(*asking(("c1", "log", {}))),
        chatting(*asking(("c2", "artifact_grep", {"call_id": "c1", "pattern": "line 4321"}))),
        chatting(*saying("Found.")),
    ]
    async with serving(*script) as (server, client):
        report = await turn(chat(model="m", client=client), log)

    shown = [[each["function"]["name"] for each in request.json["tools"]] for request in server.requests]
    assert "artifact_grep" not in shown[0]
    assert "artifact_grep" in shown[1]
    assert report.status == "ok"
    assert "4321: line 4321" in server.requests[2].json["messages"][-1]["content"]


async def test_arguments_that_were_cut_are_refused_and_corrected_by_the_model() -> None:
    cut = [*asking(("c1", "add", '{"a": 1, "b'))[:-1], chunk(finish_reason="length")]
    lines: list[Any] = []
    async with serving(chatting(*cut), chatting(*asking(("c2", "add", {"a": 1, "b": 2}))), chatting(*saying("3"))) as (
        server,
        client,
    ):
        runner = TurnRunner(executor_callback=chat(model="m", client=client), tools=[add])
        runner.on("log", lambda line: lines.append((line.level, line.payload)))
        report = await runner.run(messages=["Go."])

    assert [record.is_error for record in report.tool_calls] == [True, False]
    assert server.requests[1].json["messages"][-1]["content"].startswith("The arguments for add were refused")
    assert report.text == "3"
    assert lines == [("warn", {"finish_reason": "length"})]


async def test_a_model_that_is_stopped_before_it_said_anything_is_an_error_and_no_empty_answer() -> None:
    details: dict[str, Any] = {"incomplete_details": {"reason": "max_output_tokens"}}
    thought = events(reasoning_item(), status="incomplete", **details)
    async with serving(chatting(chunk({}, "content_filter")), sse_answer(thought, is_named=True)) as (_, client):
        reports = [await turn(chat(model="m", client=client)), await turn(responses(model="m", client=client))]

    causes = [each.error for each in reports if each.error is not None]
    assert [each.reason for each in causes if isinstance(each, ModelStoppedError)] == [
        "content_filter",
        "max_output_tokens",
    ]


# The request


async def test_without_tools_there_is_not_a_word_of_them() -> None:
    async with serving(chatting(*saying("Hi.")), responding(message_item("Hi."))) as (server, client):
        await turn(chat(model="m", client=client, tool_choice="required", parallel_tool_calls=False))
        await turn(responses(model="m", client=client, tool_choice="required", parallel_tool_calls=False))

    for request in server.requests:
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & request.json.keys()


async def test_a_call_is_forced_on_the_first_trip_only() -> None:
    script = [chatting(*asking(("c1", "add", {"a": 1, "b": 2}))), chatting(*saying("3"))]
    others = [responding(call_item("c1", "add", {"a": 1, "b": 2})), responding(message_item("3"))]
    async with serving(*script, *others) as (server, client):
        await turn(chat(model="m", client=client, tool_choice="required", parallel_tool_calls=False), add)
        await turn(responses(model="m", client=client, tool_choice="add"), add)

    sent = [request.json for request in server.requests]
    assert [each["tool_choice"] for each in sent] == ["required", "auto", {"type": "function", "name": "add"}, "auto"]
    assert sent[0]["parallel_tool_calls"] is False


async def test_a_choice_of_a_tool_that_is_not_shown_is_an_error_of_wiring() -> None:
    async with serving() as (server, client):
        hidden = ToolFilter(exclude_tools=["add"])
        report = await turn(chat(model="m", client=client, tool_choice="add", filter=hidden), add, _other())

    assert isinstance(report.error, Exception)
    assert isinstance(report.error, UnknownToolError)
    assert server.requests == []


async def test_hidden_tools_may_not_run() -> None:
    script = [chatting(*asking(("c1", "other", {}), ("c2", "add", {"a": 1, "b": 2}))), chatting(*saying("3."))]
    async with serving(*script) as (server, client):
        callback = chat(model="m", client=client, filter=ToolFilter(allowed_tools=["add"]))
        report = await turn(callback, add, _other())

    assert [each["function"]["name"] for each in server.requests[0].json["tools"]] == ["add"]
    assert [record.is_error for record in report.tool_calls] == [True, False]


def _other() -> Tool:
    @tool
    async def other() -> str:
        """Do something else."""
        return ""

    return other


async def test_extra_parameters_are_sent_even_if_the_sdk_does_not_know_them() -> None:
    extra = {"temperature": 0, "top_k": 5, "tools": [{"type": "web_search"}], "extra_headers": {"x-mine": "1"}}
    async with serving(responding(message_item("Hi.")), chatting(*saying("Hi."))) as (server, client):
        await turn(responses(model="m", client=client, extra=extra), add)
        await turn(chat(model="m", client=client, extra={"num_ctx": 9}, include_usage=False))

    first, second = server.requests
    assert (first.json["temperature"], first.json["top_k"], first.headers["x-mine"]) == (0, 5, "1")
    assert [each["type"] for each in first.json["tools"]] == ["function", "web_search"]
    assert second.json["num_ctx"] == 9
    assert "stream_options" not in second.json


async def test_halves_of_characters_do_not_stop_a_request() -> None:
    @tool(trusted=True)
    async def odd() -> str:
        """Give half a character."""
        return "a\ud800b"

    async with serving(chatting(*asking(("c1", "odd", {}))), chatting(*saying("Odd."))) as (server, client):
        report = await turn(chat(model="m", client=client), odd, system_prompt="x\udfff")

    assert report.text == "Odd."
    assert server.requests[0].json["messages"][0]["content"] == "x?"


async def test_a_model_without_vision_gets_a_description_of_media() -> None:
    @tool
    async def draw() -> Media:
        """Draw."""
        return Media.tool_generated(PNG, kind="image", mime_type="image/png", filename="a.png")

    blind = MediaSupport(mime_types=frozenset(), unsupported="synthetic-description")
    async with serving(chatting(*asking(("c1", "draw", {}))), chatting(*saying("Ok."))) as (server, client):
        await turn(chat(model="m", client=client, media=blind), draw)

    messages = server.requests[1].json["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool"]
    assert "it cannot be shown here" in messages[-1]["content"]


# Wiring


def test_importing_the_bridge_does_not_import_the_sdk() -> None:
    code = "import sys, spindle.bridges.openai; sys.exit('openai' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)

    for make in (chat, responses):
        with pytest.raises(MissingExtraError):
            make(model="m")


async def test_a_client_and_an_address_are_not_both_taken() -> None:
    async with AsyncOpenAI(base_url="http://127.0.0.1:9", api_key="k") as client:
        with pytest.raises(UsageError):
            chat(model="m", client=client, base_url="http://127.0.0.1:9")


async def test_the_openai_key_is_not_sent_to_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with serving(chatting(*saying("Hi.")), chatting(*saying("Hi."))) as (server, _):
        for key in (None, "mine"):
            async with chat(model="m", base_url=f"{server.url}/v1", api_key=key) as model:
                await turn(model)

    assert [request.headers["authorization"] for request in server.requests] == ["Bearer none-needed", "Bearer mine"]
    assert "sk-secret" not in json.dumps([dict(request.headers) for request in server.requests])


async def test_stream_shows_the_answer_while_the_server_still_writes_it_and_leaving_hangs_up() -> None:
    slow = sse_answer([chunk({"role": "assistant", "content": "It is "})], holds=True)
    async with serving(slow) as (server, client):
        runner = TurnRunner(executor_callback=chat(model="m", client=client))
        with anyio.fail_after(30):
            async with aclosing(runner.stream(messages=["What time is it?"])) as stream:
                async for event in stream:
                    if event.name == "message":
                        assert event.payload.full == "It is "
                        break
            await server.left.wait()
