"""Anthropic's API fails in every way it can; the turn goes on, or says why not."""

import email.utils
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from anthropic import AsyncAnthropic

from spindle import TurnRunner
from spindle.bridges import Retries
from spindle.bridges.anthropic import messages
from spindle.errors import ModelStoppedError, ModelUnavailableError
from tests.bridges.messages_scene import DONE, cause, playing, turn
from tests.bridges.wire import messages as wire
from tests.bridges.wire.server import Answer, json_answer, sse_answer

pytestmark = [
    pytest.mark.anyio,
    # Where the SDK raises in the middle of a stream, it leaves its own generators to the collector, and trio minds.
    pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected:ResourceWarning"),
]


def failing(status: int, kind: str, **headers: str) -> Answer:
    body = {"type": "error", "error": {"type": kind, "message": "no"}}
    return json_answer(body, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})


LATER = email.utils.format_datetime(datetime.now(UTC) + timedelta(seconds=3600), usegmt=True)


@pytest.mark.parametrize(
    "answer",
    [
        failing(429, "rate_limit_error", retry_after="0"),
        failing(429, "rate_limit_error", retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
        failing(429, "rate_limit_error", retry_after_ms="1"),
        failing(500, "api_error"),
        failing(529, "overloaded_error"),
        Answer(status=503, chunks=(b"<html>",)),
        wire.streamed(wire.say(0, "half an ans"), cut_after=400),
        wire.streamed(wire.use(0, "t1", "add", '{"a": 1, "b": 2}'), cut_after=620),
        sse_answer([wire.START, *wire.say(0, "x")], is_named=True),
        sse_answer([wire.START, {"type": "error", "error": {"type": "overloaded_error"}}], is_named=True),
        sse_answer([wire.START, wire.STOP, {"type": "error", "error": {"type": "api_error"}}], is_named=True),
        Answer(headers={"content-type": "text/event-stream"}, chunks=(b"event: message_start\ndata: {not json\n\n",)),
        Answer(headers={"content-type": "text/event-stream"}, chunks=(b"event: message_start\ndata: \xff\xfe\n\n",)),
    ],
    ids=[
        "429-seconds",
        "429-date",
        "429-ms",
        "500",
        "529",
        "503-html",
        "cut-in-text",
        "cut-in-a-call",
        "no-end",
        "overloaded-in-stream",
        "error-after-the-end",
        "no-json",
        "no-utf8",
    ],
)
async def test_temporary_failures_are_retried(answer: Answer) -> None:
    report, requests = await turn(answer, DONE)

    assert (report.status, report.text) == ("ok", "done")
    assert report.tool_calls == ()
    assert requests[0] == requests[1]
    assert len(requests) == 2


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (failing(400, "invalid_request_error"), 400),
        (failing(401, "authentication_error"), 401),
        (failing(429, "rate_limit_error", retry_after="3600"), 429),
        (failing(429, "rate_limit_error", retry_after=LATER), 429),
        (sse_answer([wire.START, {"type": "error", "error": {"type": "invalid_request_error"}}], is_named=True), 400),
    ],
    ids=["400", "401", "429-too-long", "429-too-late", "400-in-stream"],
)
async def test_permanent_failures_are_not_retried(answer: Answer, status: int) -> None:
    report, requests = await turn(answer, DONE)

    error = cause(report)
    assert isinstance(error, ModelUnavailableError)
    assert (error.http_status, error.attempts, len(requests)) == (status, 1, 1)


async def test_a_server_that_never_gets_well_is_given_up() -> None:
    report, requests = await turn(*[failing(500, "api_error")] * 9, retries=Retries(attempts=4, base_seconds=0))

    error = cause(report)
    assert isinstance(error, ModelUnavailableError)
    assert (error.http_status, error.attempts, len(requests)) == (500, 4, 4)


async def test_a_refused_connection_is_retried_and_reported(free_tcp_port: int) -> None:
    async with AsyncAnthropic(base_url=f"http://127.0.0.1:{free_tcp_port}", api_key="k") as client:
        callback = messages(model="m", client=client, retries=Retries(attempts=2, base_seconds=0))
        report = await TurnRunner(executor_callback=callback).run(messages=["x"])

    error = cause(report)
    assert isinstance(error, ModelUnavailableError)
    assert (error.http_status, error.attempts) == (None, 2)


async def test_malformed_deltas_make_no_call_that_runs() -> None:
    raw = wire.use(0, "t1", "add", '{"a": 1, "b": 2', "}")
    raw[2:2] = [
        wire.delta(0, "input_json_delta", partial_json=7),
        wire.delta("zero", "input_json_delta", partial_json="}"),
        wire.begin("x", {"type": "brand_new", "stuff": [1]}),
        {"type": "brand_new_event", "index": 0},
    ]

    report, _ = await turn(wire.streamed(raw), DONE)

    assert [record.is_error for record in report.tool_calls] == [True]
    assert report.text == "done"


async def test_a_refusal_ends_the_turn_with_its_reason() -> None:
    report, requests = await turn(wire.streamed(wire.say(0, "I"), reason="refusal"), DONE)

    error = cause(report)
    assert isinstance(error, ModelStoppedError)
    assert (error.reason, error.text, len(requests)) == ("refusal", "I", 1)


async def test_a_truncated_answer_is_reported_to_observers() -> None:
    reported: list[Any] = []
    async with playing(wire.streamed(wire.say(0, "half"), reason="max_tokens")) as (_, client):
        runner = TurnRunner(executor_callback=messages(model="m", client=client))
        runner.on("log", reported.append)
        report = await runner.run(messages=["x"])

    assert report.text == "half"
    assert [each.payload for each in reported] == [{"finish_reason": "max_tokens"}]


async def test_cancelling_hangs_up_at_once() -> None:
    begun = anyio.Event()
    async with playing(sse_answer([wire.START, *wire.say(0, "slow")[:2]], is_named=True, holds=True)) as (
        server,
        client,
    ):
        runner = TurnRunner(executor_callback=messages(model="m", client=client))
        runner.on("message", lambda _: begun.set())

        async def run() -> None:
            await runner.run(messages=["x"])

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await begun.wait()
                tasks.cancel_scope.cancel()
            await server.left.wait()
