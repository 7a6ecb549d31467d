"""What the callbacks do when OpenAI's server does not answer: try again where that may help, and never for long."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import pytest
from openai import AsyncOpenAI

from spindle import TurnReport, TurnRunner
from spindle.bridges.model_callback import ModelCallback, Retries
from spindle.bridges.openai import chat, responses
from spindle.errors import ModelUnavailableError
from tests.bridges.chat_wire import asking, chunk, saying, whole
from tests.bridges.openai_scene import add, chatting, responding, serving, turn
from tests.bridges.responses_wire import events, message_item, response
from tests.bridges.wire.server import Answer, WireServer, json_answer, sse_answer

pytestmark = [
    pytest.mark.anyio,
    # Trio warns of generators that the SDK leaves open after the end of a stream, and closes them.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]

HELLO = saying("Hello.")


def waiting(callback: ModelCallback) -> list[float]:
    """Have the callback not wait, and keep for how long it would have."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    callback.sleep = sleep
    return pauses


def error(status: int, headers: dict[str, str] | None = None, **facts: Any) -> Answer:
    return json_answer({"error": {"message": "no", "type": "t", "code": None, **facts}}, status=status, headers=headers)


def unavailable(report: TurnReport) -> ModelUnavailableError:
    assert report.error is not None
    cause = report.error
    assert isinstance(cause, ModelUnavailableError)
    return cause


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
@pytest.mark.parametrize("is_streaming", [True, False])
async def test_an_error_that_may_pass_is_asked_again(status: int, is_streaming: bool) -> None:
    answer = chatting(*HELLO) if is_streaming else json_answer(whole({"content": "Hello."}))
    async with serving(error(status), error(status), answer) as (server, client):
        callback = chat(model="m", client=client, stream=is_streaming)
        pauses = waiting(callback)
        report = await turn(callback, add)

    assert (report.status, report.text) == ("ok", "Hello.")
    assert len(server.requests) == 3
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1


async def test_an_error_that_stays_ends_the_turn() -> None:
    async with serving(*[error(503)] * 3) as (server, client):
        callback = responses(model="m", client=client)
        waiting(callback)
        report = await turn(callback, add)

    failed = unavailable(report)
    assert (report.status, failed.http_status, failed.attempts) == ("error", 503, 3)
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_an_error_of_the_request_is_not_asked_again(status: int) -> None:
    async with serving(error(status), chatting(*HELLO)) as (server, client):
        report = await turn(chat(model="m", client=client), add)

    assert unavailable(report).http_status == status
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "value", "least", "most"),
    [
        ("retry-after", "7", 7, 7),
        ("retry-after-ms", "1500", 1.5, 1.5),
        ("retry-after", "in a while", 0.25, 0.5),
        ("retry-after", "-5", 0, 0),
    ],
)
async def test_a_server_says_when_to_come_back(header: str, value: str, least: float, most: float) -> None:
    async with serving(error(429, {header: value}), chatting(*HELLO)) as (_, client):
        callback = chat(model="m", client=client)
        pauses = waiting(callback)
        report = await turn(callback)

    assert report.status == "ok"
    assert least <= pauses[0] <= most


async def test_a_server_says_when_to_come_back_by_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    async with serving(error(429, {"retry-after": soon}), chatting(*HELLO)) as (_, client):
        callback = chat(model="m", client=client)
        pauses = waiting(callback)
        await turn(callback)

    assert 10 < pauses[0] <= 20


async def test_a_server_that_wants_too_long_a_pause_is_not_waited_for() -> None:
    async with serving(error(429, {"retry-after": "3600"})) as (server, client):
        report = await turn(chat(model="m", client=client))

    assert unavailable(report).attempts == 1
    assert len(server.requests) == 1


async def test_a_connection_that_is_refused_is_tried_again() -> None:
    async with WireServer.playing() as gone:
        address = gone.url
    async with AsyncOpenAI(base_url=address, api_key="k") as client:
        callback = chat(model="m", client=client, retries=Retries(attempts=2))
        pauses = waiting(callback)
        report = await turn(callback)

    failed = unavailable(report)
    assert (failed.http_status, failed.attempts, len(pauses)) == (None, 2, 1)


@pytest.mark.parametrize("bytes_before_the_cut", [0, 10, 200, 500])
async def test_a_stream_that_is_cut_is_asked_for_again_and_runs_no_half_call(bytes_before_the_cut: int) -> None:
    asked = asking(("c1", "add", {"a": 1, "b": 2}))
    cut = sse_answer(asked, cut_after=bytes_before_the_cut)
    async with serving(cut, chatting(*asked), chatting(*saying("3"))) as (server, client):
        callback = chat(model="m", client=client)
        pauses = waiting(callback)
        report = await turn(callback, add)

    assert (report.status, report.text, len(pauses)) == ("ok", "3", 1)
    assert len(report.tool_calls) == 1
    assert server.requests[0].body == server.requests[1].body


async def test_a_stream_that_ends_without_its_end_is_asked_for_again() -> None:
    half = sse_answer(asking(("c1", "add", {"a": 1, "b": 2}))[:-1])
    unfinished = sse_answer(events(message_item("Hel"))[:-1], is_named=True)
    async with serving(half, chatting(*HELLO), unfinished, responding(message_item("Hello."))) as (_, client):
        by_chat, by_responses = chat(model="m", client=client), responses(model="m", client=client)
        pauses = [waiting(by_chat), waiting(by_responses)]
        reports = [await turn(by_chat, add), await turn(by_responses, add)]

    assert [(each.text, len(each.tool_calls)) for each in reports] == [("Hello.", 0), ("Hello.", 0)]
    assert list(map(len, pauses)) == [1, 1]


@pytest.mark.parametrize(
    ("event", "status", "asks_again"),
    [
        ({"error": {"message": "busy", "type": "server_error", "code": None}}, 500, True),
        ({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, 429, True),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, 400, False),
        ({"error": {"message": "bad", "type": "BadRequestError", "code": 400}}, 400, False),
        ({"error": {"message": "?"}}, None, True),
        ("{not json", None, True),
        ("", None, True),
    ],
    ids=["server", "rate", "invalid", "vllm", "unknown", "no-json", "empty"],
)
async def test_an_error_inside_a_stream_that_began_well(event: Any, status: int | None, asks_again: bool) -> None:
    broken = sse_answer([chunk({"content": "Hel"}), event])
    async with serving(broken, broken) as (server, client):
        callback = chat(model="m", client=client, retries=Retries(attempts=2))
        waiting(callback)
        report = await turn(callback)

    assert unavailable(report).http_status == status
    assert len(server.requests) == (2 if asks_again else 1)


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"type": "error", "code": "server_error", "message": "no", "param": None, "sequence_number": 1}, 500),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}, "sequence_number": 1}, 400),
        (
            {
                "type": "response.failed",
                "response": response(status="failed", error={"code": "rate_limit_exceeded", "message": "no"}),
            },
            429,
        ),
    ],
    ids=["flat", "nested", "failed"],
)
async def test_an_answer_of_the_responses_api_that_fails(event: Any, status: int) -> None:
    async with serving(sse_answer([*events(message_item("x"))[:3], event], is_named=True)) as (_, client):
        report = await turn(responses(model="m", client=client, retries=Retries(attempts=1)))

    assert unavailable(report).http_status == status


async def test_a_whole_answer_that_is_none_is_an_error_and_no_empty_text() -> None:
    page = Answer(headers={"content-type": "text/html"}, chunks=(b"<h1>Hello</h1>",))
    failed = json_answer(response(status="failed", error={"code": "server_error", "message": "no"}))
    async with serving(page, json_answer({}), page, failed, page) as (_, client):
        once = Retries(attempts=1)
        reports = [
            await turn(chat(model="m", client=client, stream=False, retries=once)),
            await turn(chat(model="m", client=client, stream=False, retries=once)),
            await turn(responses(model="m", client=client, stream=False, retries=once)),
            await turn(responses(model="m", client=client, stream=False, retries=once)),
            await turn(chat(model="m", client=client, retries=once)),
        ]

    assert [unavailable(each).http_status for each in reports] == [None, None, None, 500, None]


@pytest.mark.parametrize("by", ["abort", "cancel"])
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_cancelled_reader_closes_the_connection_at_once(by: str, api: str) -> None:
    first = chunk({"content": "Hel"}) if api == "chat" else events(message_item("Hello"))[2]
    async with serving(sse_answer([first], holds=True, is_named=api != "chat")) as (server, client):
        make = chat if api == "chat" else responses
        runner = TurnRunner(executor_callback=make(model="m", client=client))
        reports: list[TurnReport] = []
        contexts: list[Any] = []
        received = anyio.Event()

        async def keep(ctx: Any, next: Any) -> None:
            contexts.append(ctx)
            await next()

        runner = TurnRunner(executor_callback=make(model="m", client=client), turn_input_pipeline=[keep])
        runner.on("message", lambda delta: received.set())

        async def run() -> None:
            reports.append(await runner.run(messages=["Go."]))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await received.wait()
                if by == "abort":
                    contexts[0].abort()
                else:
                    tasks.cancel_scope.cancel()
            await server.left.wait()

    assert [each.status for each in reports] == (["aborted"] if by == "abort" else [])
    assert len(server.requests) == 1


async def test_observers_see_each_attempt_as_a_message_of_its_own() -> None:
    cut = sse_answer([chunk({"content": "Hel"})])
    reported: list[Any] = []
    async with serving(cut, chatting(*HELLO)) as (_, client):
        callback = chat(model="m", client=client)
        waiting(callback)
        runner = TurnRunner(executor_callback=callback)
        runner.on("message", lambda delta: reported.append((delta.id, delta.full, delta.is_complete)))
        runner.on("log", lambda line: reported.append(line.message))
        await runner.run(messages=["Go."])

    assert reported == [
        ("m0", "Hel", False),
        "retrying the model request",
        ("m0.2", "Hello.", False),
        ("m0.2", "Hello.", True),
    ]
