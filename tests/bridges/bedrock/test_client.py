"""The callback asks through the real boto3, over a real connection, and bears what goes wrong on it."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import boto3.session
import pytest
from botocore.config import Config

from spindle import TurnReport, TurnRunner, tool
from spindle.bridges import bedrock
from spindle.bridges.model_callback import ModelCallback, Retries
from spindle.errors import MissingExtraError, ModelStoppedError, ModelUnavailableError, UsageError
from spindle.turns import Message
from tests.bridges.bedrock.test_callbacks import check
from tests.bridges.wire.event_stream import events_answer, exception
from tests.bridges.wire.server import Answer, WireServer, json_answer

pytestmark = pytest.mark.anyio

SESSION: Any = boto3.session.Session("id", "key", region_name="eu-central-1")
SAID = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"delta": {"text": "It "}, "contentBlockIndex": 0}},
    {"contentBlockDelta": {"delta": {"text": "rains."}, "contentBlockIndex": 0}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {"messageStop": {"stopReason": "end_turn"}},
    {"metadata": {"usage": {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}, "metrics": {"latencyMs": 1}}},
]
ASKED = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"delta": {"reasoningContent": {"text": "Ulm?"}}, "contentBlockIndex": 0}},
    {"contentBlockDelta": {"delta": {"reasoningContent": {"signature": "sig"}}, "contentBlockIndex": 0}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {
        "contentBlockStart": {
            "start": {"toolUse": {"toolUseId": "t1", "name": "the_weather_137a8fce"}},
            "contentBlockIndex": 1,
        }
    },
    {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"city": '}}, "contentBlockIndex": 1}},
    {"contentBlockDelta": {"delta": {"toolUse": {"input": '"Ulm"}'}}, "contentBlockIndex": 1}},
    {"contentBlockStop": {"contentBlockIndex": 1}},
    {"messageStop": {"stopReason": "tool_use"}},
]
WHOLE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "It rains."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12},
    "metrics": {"latencyMs": 1},
}
AT_ONCE = Retries(base_seconds=0, cap_seconds=1)


@tool(name="the.weather")
def weather(city: str) -> str:
    """Tell the weather."""
    return f"Rain in {city}."


@asynccontextmanager
async def asking(*script: Answer, **options: Any) -> AsyncGenerator[tuple[WireServer, ModelCallback]]:
    async with WireServer.playing(*script) as server:
        config = Config(retries={"total_max_attempts": 1}, read_timeout=30)
        client = SESSION.client("bedrock-runtime", endpoint_url=server.url, config=config)
        try:
            given: dict[str, Any] = {"retries": AT_ONCE, **options}
            yield server, bedrock.converse(model="m.x-1", client=client, **given)
        finally:
            client.close()


async def ask(callback: ModelCallback, *, events: dict[str, list[Any]] | None = None, **run: Any) -> TurnReport:
    runner = TurnRunner(executor_callback=callback, tools=[weather])
    for name, received in (events or {}).items():
        runner.on(name, received.append)
    given: dict[str, Any] = {"system_prompt": "Be brief.", "messages": ["Weather?"], **run}
    with anyio.fail_after(30):
        return await runner.run(**given)


async def test_a_turn_with_a_call_and_its_answer() -> None:
    received: dict[str, list[Any]] = {"message": [], "thought": []}
    async with asking(events_answer(ASKED), events_answer(SAID)) as (server, callback):
        report = await ask(callback, events=received)

    assert (report.status, report.text, [call.tool for call in report.tool_calls]) == (
        "ok",
        "It rains.",
        ["the.weather"],
    )
    assert report.usage["input_tokens"] == 7
    first, second = (request.json for request in server.requests)
    assert [request.path for request in server.requests] == ["/model/m.x-1/converse-stream"] * 2
    assert first["system"] == [{"text": "Be brief."}]
    assert first["messages"] == [{"role": "user", "content": [{"text": "Weather?"}]}]
    assert [each["toolSpec"]["name"] for each in first["toolConfig"]["tools"]] == ["the_weather_137a8fce"]
    assert second["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "Ulm?", "signature": "sig"}}},
        {"toolUse": {"toolUseId": "t1", "name": "the_weather_137a8fce", "input": {"city": "Ulm"}}},
    ]
    [result] = second["messages"][2]["content"]
    assert "Rain in Ulm." in result["toolResult"]["content"][0]["text"]
    assert [event.full for event in received["message"]][-1] == "It rains."
    assert [event.full for event in received["thought"]][-1] == "Ulm?"
    check(second)


async def test_a_whole_answer_needs_no_stream() -> None:
    async with asking(json_answer(WHOLE), stream=False) as (server, callback):
        report = await ask(callback)

    assert (report.text, report.usage["total_tokens"]) == ("It rains.", 12)
    assert server.requests[0].path == "/model/m.x-1/converse"


BUSY = json_answer(
    {"message": "slow down"}, status=429, headers={"retry-after": "0", "x-amzn-errortype": "ThrottlingException"}
)
DOWN = json_answer({"message": "oops"}, status=500, headers={"x-amzn-errortype": "InternalServerException"})


@pytest.mark.parametrize(
    "broken",
    [
        BUSY,
        DOWN,
        events_answer(SAID, cut_after=0),
        events_answer(SAID, cut_after=200),
        events_answer(SAID[:3]),
        events_answer([*SAID[:2], exception("throttlingException", "slow down")]),
        events_answer([*SAID[:2], exception("modelStreamErrorException", "broke off")]),
        events_answer([*SAID[:2], b"\x00\x00\x00\x20\x00\x00\x00\x00 no frame at all"]),
        Answer(status=503, chunks=[b"<html>busy</html>"]),
    ],
    ids=["429", "500", "cut at once", "cut inside", "no end", "throttled inside", "broke off", "no frame", "no json"],
)
async def test_temporary_failures_are_retried(broken: Answer) -> None:
    async with asking(broken, events_answer(SAID)) as (server, callback):
        report = await ask(callback)

    assert (report.status, report.text, len(server.requests)) == ("ok", "It rains.", 2)


async def test_the_time_the_server_asks_for_is_waited() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    busy = json_answer({"message": "slow down"}, status=429, headers={"retry-after": "7"})
    async with asking(busy, events_answer(SAID), retries=Retries()) as (_, callback):
        callback.sleep = sleep
        assert (await ask(callback)).status == "ok"

    assert slept == [7]


@pytest.mark.parametrize(
    ("script", "status", "asked"),
    [
        ([json_answer({"message": "no"}, status=400, headers={"x-amzn-errortype": "ValidationException"})], 400, 1),
        ([json_answer({"message": "no"}, status=403)], 403, 1),
        ([events_answer([*SAID[:2], exception("validationException", "bad")])], 400, 1),
        ([DOWN] * 3, 500, 3),
        ([events_answer(SAID, cut_after=90)] * 3, None, 3),
    ],
    ids=["400", "403", "invalid inside", "down", "cut"],
)
async def test_a_permanent_failure_ends_the_turn(script: list[Answer], status: int | None, asked: int) -> None:
    async with asking(*script) as (server, callback):
        report = await ask(callback)

    error = report.error
    while error is not None and not isinstance(error, ModelUnavailableError):
        error = error.__cause__
    assert isinstance(error, ModelUnavailableError)
    assert (error.http_status, error.attempts, len(server.requests)) == (status, asked, asked)


async def test_a_server_that_is_not_there_is_asked_again_and_then_named() -> None:
    client = SESSION.client(
        "bedrock-runtime", endpoint_url="http://127.0.0.1:9", config=Config(retries={"total_max_attempts": 1})
    )
    report = await ask(bedrock.converse(model="m", client=client, retries=AT_ONCE))
    client.close()

    assert isinstance(report.error, ModelUnavailableError)


async def test_malformed_pieces_cost_the_call_and_not_the_turn() -> None:
    broken = [
        *ASKED[:6],
        {"contentBlockDelta": {"delta": {"toolUse": {"input": 7}}, "contentBlockIndex": 1}},
        *ASKED[6:],
    ]
    async with asking(events_answer(broken), events_answer(SAID)) as (server, callback):
        report = await ask(callback)

    assert (report.text, [call.is_error for call in report.tool_calls]) == ("It rains.", [True])
    sent = server.requests[1].json["messages"][1]["content"][1]["toolUse"]
    assert sent["input"] == {"city": "Ulm"}


async def test_a_model_that_may_not_answer_ends_the_turn_and_is_not_asked_again() -> None:
    async with asking(events_answer([{"messageStop": {"stopReason": "content_filtered"}}])) as (server, callback):
        report = await ask(callback)

    assert isinstance(report.error, ModelStoppedError)
    assert len(server.requests) == 1


async def test_a_cancelled_request_closes_the_connection() -> None:
    async with asking(events_answer(SAID[:3], holds=True)) as (server, callback):
        runner = TurnRunner(executor_callback=callback)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: runner.run(system_prompt="x", messages=["Go."]))
                await server.arrived.wait()
                tasks.cancel_scope.cancel()
            await server.left.wait()


@pytest.mark.parametrize(
    ("wish", "reported"),
    [
        (None, None),
        ("auto", {"auto": {}}),
        ("required", {"any": {}}),
        ("the.weather", {"tool": {"name": "the_weather_137a8fce"}}),
        ({"any": {}}, {"any": {}}),
    ],
    ids=["none given", "auto", "required", "by name", "their own"],
)
async def test_the_tool_to_call_can_be_chosen(wish: Any, reported: Any) -> None:
    async with asking(events_answer(SAID), tool_choice=wish) as (server, callback):
        await ask(callback)

    assert server.requests[0].json["toolConfig"].get("toolChoice") == reported


async def test_no_tool_is_sent_if_none_may_be_called() -> None:
    async with asking(events_answer(ASKED), events_answer(SAID), tool_choice="none") as (server, callback):
        await ask(callback)

    assert "toolConfig" not in server.requests[0].json
    # The conversation has calls in it now, and Converse requires definitions of their tools.
    assert [each["toolSpec"]["description"] for each in server.requests[1].json["toolConfig"]["tools"]] == [
        "Not available now."
    ]


async def test_extra_and_system_messages_are_sent_with_each_request() -> None:
    extra = {"inferenceConfig": {"maxTokens": 9}}
    async with asking(events_answer(SAID), extra=extra) as (server, callback):
        await ask(callback, system_prompt="x", messages=[Message.system("Also this."), "Hello \ud800"])

    sent = server.requests[0].json
    assert sent["inferenceConfig"] == {"maxTokens": 9}
    assert [each["text"] for each in sent["system"]] == ["x", "Also this."]
    assert sent["messages"][0]["content"] == [{"text": "Hello ?"}]


async def test_a_client_is_made_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    async with WireServer.playing(DOWN, events_answer(SAID)) as server:
        callback = bedrock.converse(model="m", region="us-east-1", endpoint_url=server.url, retries=AT_ONCE)
        report = await ask(callback)
        cast("Any", callback.provider).client.close()

    assert (report.text, len(server.requests)) == ("It rains.", 2)


def test_a_client_and_a_place_are_too_much() -> None:
    with pytest.raises(UsageError) as caught:
        bedrock.converse(model="m", client=object(), region="us-east-1")

    assert caught.value.field == "client"


def test_a_client_of_another_service_is_refused_while_wiring() -> None:
    with pytest.raises(UsageError) as caught:
        bedrock.converse(model="m", client=SESSION.client("sts"))

    assert caught.value.field == "client"


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3.session", None)

    with pytest.raises(MissingExtraError) as caught:
        bedrock.converse(model="m")

    assert ".[bedrock]" in str(caught.value)
