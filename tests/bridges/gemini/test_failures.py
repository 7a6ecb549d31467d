"""Gemini's API fails in every way it can; the turn goes on, or says why not."""

import email.utils
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from spindle import TurnRunner
from spindle.bridges import Retries
from spindle.bridges.gemini import generate
from spindle.errors import InvalidConfigError, ModelStoppedError, ModelUnavailableError
from tests.bridges.generating_scene import DONE, cause, client_of, playing, turn
from tests.bridges.wire.generating import call, chunk, streamed
from tests.bridges.wire.server import Answer, json_answer

pytestmark = [
    pytest.mark.anyio,
    # Where the SDK raises in the middle of a stream, it leaves its own generators to the collector, and trio minds.
    pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected:ResourceWarning"),
]


def failing(status: int, *details: Any, **headers: str) -> Answer:
    body = {"error": {"code": status, "message": "no", "status": "NO", "details": list(details)}}
    return json_answer(body, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})


def delayed(seconds: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": seconds}


LATER = email.utils.format_datetime(datetime.now(UTC) + timedelta(seconds=3600), usegmt=True)
HALF = chunk({"text": "half an ans"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        failing(429, retry_after="0"),
        failing(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
        failing(429, delayed("0.01s")),
        failing(500),
        failing(503),
        Answer(status=502, chunks=(b"<html>",)),
        streamed(HALF, chunk({"text": "wer"}, reason="STOP"), cut_after=300),
        streamed(HALF, call("add", {"a": 1, "b": 2})),
        streamed(HALF),
        streamed(HALF, {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}),
        streamed(HALF, {"error": {"message": "no code"}}),
        streamed(HALF, "{not json"),
        streamed(HALF, chunk({"functionCall": {"name": 5, "args": "x"}}, reason="STOP")),
        streamed(chunk(reason="MALFORMED_FUNCTION_CALL")),
        streamed(chunk(call("add", {"a": 1, "b": 2}), reason="MALFORMED_FUNCTION_CALL")),
    ],
    ids=[
        "429-seconds",
        "429-date",
        "429-details",
        "500",
        "503",
        "502-html",
        "cut",
        "no-candidates",
        "no-end",
        "error-in-stream",
        "error-without-code",
        "no-json",
        "wrong-types",
        "malformed-call",
        "malformed-with-call",
    ],
)
async def test_temporary_failures_are_retried(answer: Answer) -> None:
    report, requests = await turn(answer, DONE)

    assert (report.status, report.text) == ("ok", "done")
    assert report.tool_calls == ()
    assert requests[0] == requests[1]
    assert len(requests) == 2


@pytest.mark.parametrize(
    "answer", [streamed({"candidates": "none"}), streamed()], ids=["candidates-are-text", "nothing"]
)
async def test_a_stream_that_says_nothing_is_tried_again_as_a_whole(answer: Answer) -> None:
    report, requests = await turn(answer, json_answer(chunk({"text": "done"}, reason="STOP")))

    assert (report.status, report.text) == ("ok", "done")
    assert requests[0] == requests[1]
    assert len(requests) == 2


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (failing(400), 400),
        (failing(403), 403),
        (failing(429, retry_after="3600"), 429),
        (failing(429, retry_after=LATER), 429),
        (failing(429, delayed("3600s")), 429),
        (streamed(HALF, {"error": {"code": 400, "message": "no"}}), 400),
    ],
    ids=["400", "403", "429-too-long", "429-too-late", "429-details", "400-in-stream"],
)
async def test_permanent_failures_are_not_retried(answer: Answer, status: int) -> None:
    report, requests = await turn(answer, DONE)

    error = cause(report)
    assert isinstance(error, ModelUnavailableError)
    assert (error.http_status, error.attempts, len(requests)) == (status, 1, 1)


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_server_that_never_gets_well_is_given_up(is_streaming: bool) -> None:
    report, requests = await turn(*[failing(500)] * 9, stream=is_streaming, retries=Retries(attempts=4, base_seconds=0))

    error = cause(report)
    assert isinstance(error, ModelUnavailableError)
    assert (error.http_status, error.attempts, len(requests)) == (500, 4, 4)


async def test_a_whole_answer_that_does_not_end_is_tried_again() -> None:
    report, requests = await turn(json_answer(HALF), json_answer(chunk({"text": "x"}, reason="STOP")), stream=False)

    assert (report.text, len(requests)) == ("x", 2)


async def test_a_refused_connection_is_retried_and_reported(free_tcp_port: int) -> None:
    async with client_of(f"http://127.0.0.1:{free_tcp_port}") as client:
        callback = generate(model="m", client=client, retries=Retries(attempts=2, base_seconds=0))
        report = await TurnRunner(executor_callback=callback).run(messages=["x"])

    error = cause(report)
    assert isinstance(error, ModelUnavailableError)
    assert (error.http_status, error.attempts) == (None, 2)


@pytest.mark.parametrize(
    "answer",
    [streamed(chunk({"text": "I"}, reason="SAFETY")), streamed({"promptFeedback": {"blockReason": "SAFETY"}})],
    ids=["answer", "prompt"],
)
async def test_a_blocked_response_ends_the_turn_with_its_reason(answer: Answer) -> None:
    report, requests = await turn(answer, DONE)

    error = cause(report)
    assert isinstance(error, ModelStoppedError)
    assert "SAFETY" in (error.reason or "")
    assert len(requests) == 1


async def test_settings_the_sdk_refuses_are_an_error_of_the_caller() -> None:
    report, requests = await turn(DONE, extra={"temperatur": 0.5})

    assert isinstance(cause(report), InvalidConfigError)
    assert requests == []


async def test_a_truncated_answer_is_reported_to_observers() -> None:
    reported: list[Any] = []
    async with playing(streamed(chunk({"text": "half"}, reason="MAX_TOKENS"))) as (_, client):
        runner = TurnRunner(executor_callback=generate(model="m", client=client))
        runner.on("log", reported.append)
        report = await runner.run(messages=["x"])

    assert report.text == "half"
    assert [each.payload for each in reported] == [{"finish_reason": "MAX_TOKENS"}]


async def test_cancelling_hangs_up_at_once() -> None:
    begun = anyio.Event()
    async with playing(streamed(chunk({"text": "slow"}), holds=True)) as (server, client):
        runner = TurnRunner(executor_callback=generate(model="m", client=client))
        runner.on("message", lambda _: begun.set())

        async def run() -> None:
            await runner.run(messages=["x"])

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await begun.wait()
                tasks.cancel_scope.cancel()
            await server.left.wait()
