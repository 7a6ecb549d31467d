"""What every ready callback does, with a provider that plays a script."""

import gc
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import Call, DispatchContext, DispatchRunner, ToolFilter, TurnRunner
from spindle.bridges.definitions import Definitions
from spindle.bridges.model_callback import ModelCallback, Retries, parse_retry_after
from spindle.bridges.openai.chat_completions import definitions
from spindle.bridges.provider import ModelResponse, ProviderFailure, ResponseDelta
from spindle.bridges.rendering import MediaSupport
from spindle.bridges.transcript import MessageStep, Step
from spindle.errors import ModelUnavailableError
from tests.bridges.chat_scene import add

pytestmark = pytest.mark.anyio


class RefusedError(Exception):
    """What an SDK would raise."""


@dataclass
class Reader:
    """Takes pieces, and the whole answer at the end."""

    response: ModelResponse | None = None

    def feed(self, event: Any) -> Sequence[ResponseDelta]:
        if isinstance(event, ModelResponse):
            self.response = event
            return ()
        return [event]

    def feed_response(self, response: Any) -> None:
        self.response = response

    @property
    def is_complete(self) -> bool:
        return self.response is not None

    def calls(self) -> Sequence[Call]:
        return self.build_response().calls

    def build_response(self) -> ModelResponse:
        assert self.response is not None
        return self.response


@dataclass
class Provider:
    """Answers with the next step of a script: events, or an exception."""

    script: list[Any]
    asked: list[Sequence[Step]] = field(default_factory=list[Sequence[Step]])
    left: int = 0
    taken: set[str] = field(default_factory=set[str])
    keys: Sequence[str] = ()

    def definitions(self, ctx: DispatchContext, filter: ToolFilter | None) -> Definitions:
        return definitions(ctx.tools, filter=filter)

    async def build_request(
        self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions
    ) -> dict[str, Any]:
        self.asked.append(steps)
        return {"tools": definitions.tools}

    @asynccontextmanager
    async def stream(self, request: dict[str, Any]) -> AsyncGenerator[AsyncIterator[Any]]:
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        try:
            yield _each(step)
        finally:
            self.left += 1

    def create_assembler(self, definitions: Definitions, taken: Collection[str]) -> Reader:
        self.taken = set(taken)
        return Reader()

    async def complete(self, request: dict[str, Any], assembler: Any) -> ModelResponse:
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        return error.args[0] if isinstance(error, RefusedError) else None

    def secrets(self) -> Sequence[str]:
        return self.keys


async def _each(events: Sequence[Any]) -> AsyncGenerator[Any]:
    for event in events:
        if event == "hang":
            await anyio.sleep_forever()
        if isinstance(event, Exception):
            raise event
        yield event


def refused(status: int | None, retry_after: str | None = None) -> RefusedError:
    return RefusedError(ProviderFailure("no", status, retry_after))


def ask(*script: Any, **options: Any) -> tuple[Provider, ModelCallback, list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    provider = Provider(list(script))
    return provider, ModelCallback(provider=provider, media_support=MediaSupport(), sleep=sleep, **options), pauses


async def test_text_ends_the_turn_and_calls_go_on_with_it() -> None:
    calls = ModelResponse(text="Hm.", calls=[Call("c1", "add", '{"a":1,"b":2}')], usage={"input_tokens": 1})
    provider, asking, _ = ask([calls], [ModelResponse(text="3", usage={"input_tokens": 2})])

    report = await TurnRunner(executor_callback=asking, tools=[add]).run(messages=["Go."])

    assert (report.text, report.usage, provider.left) == ("3", {"input_tokens": 3}, 2)
    assert len(provider.asked[1]) == 2


async def test_an_answer_with_nothing_in_it_ends_the_turn() -> None:
    for options in ({}, {"is_streaming": False}):
        answered = ModelResponse(text=None)
        _, asking, _ = ask(answered if options else [answered], **options)

        report = await TurnRunner(executor_callback=asking).run(messages=["Go."])

        assert (report.status, report.text) == ("ok", "")


async def test_deltas_are_emitted_and_their_messages_completed() -> None:
    pieces = [
        ResponseDelta("thought", "I "),
        ResponseDelta("thought", "see."),
        ResponseDelta("text", "Hel"),
        ResponseDelta("text", "lo."),
        ResponseDelta("call", '{"a":', id="c1", tool="add"),
        ResponseDelta("call", "1}", id="c1"),
    ]
    _, asking, _ = ask([*pieces, ModelResponse(text="Hello.")])
    reported: list[Any] = []
    runner = TurnRunner(executor_callback=asking)
    for kind in ("thought", "message"):
        runner.on(kind, lambda delta, kind=kind: reported.append((kind, delta.full, delta.is_complete)))
    runner.on("tool_call", lambda delta: reported.append((delta.tool, delta.args)))

    await runner.run(messages=["Go."])

    assert reported == [
        ("thought", "I ", False),
        ("thought", "I see.", False),
        ("message", "Hel", False),
        ("message", "Hello.", False),
        ("add", '{"a":'),
        ("add", '{"a":1}'),
        ("thought", "I see.", True),
        ("message", "Hello.", True),
    ]


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_failure_that_may_pass_is_asked_again_after_a_growing_pause(is_streaming: bool) -> None:
    answer = ModelResponse(text="Hi.")
    script = [*[refused(500)] * 4, [answer] if is_streaming else answer]
    _, asking, pauses = ask(*script, is_streaming=is_streaming, retries=Retries(attempts=5, cap_seconds=2))

    report = await TurnRunner(executor_callback=asking).run(messages=["Go."])

    assert report.text == "Hi."
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, (0.5, 1, 2, 2), strict=True))


@pytest.mark.parametrize(
    ("failure", "attempts"),
    [
        (refused(400), 1),
        (refused(500), 3),
        (refused(None), 3),
        (refused(429, "31"), 1),
        (refused(429, "inf"), 1),
        (refused(429, "30"), 3),
    ],
    ids=["request", "server", "connection", "too long", "forever", "long"],
)
async def test_a_failure_that_stays_is_raised(failure: RefusedError, attempts: int) -> None:
    _, asking, pauses = ask(*[failure] * 3)

    report = await TurnRunner(executor_callback=asking).run(messages=["Go."])

    assert report.error is not None
    error = report.error
    assert isinstance(error, ModelUnavailableError)
    assert error.attempts == attempts == len(pauses) + 1
    assert error.__cause__ is failure


async def test_a_stream_that_ends_early_or_breaks_is_asked_for_again() -> None:
    _, asking, pauses = ask(
        [ResponseDelta("text", "H")], [ResponseDelta("text", "H"), refused(None)], [ModelResponse(text="Hi.")]
    )

    report = await TurnRunner(executor_callback=asking).run(messages=["Go."])

    assert (report.text, len(pauses)) == ("Hi.", 2)


async def test_an_exception_that_is_not_the_providers_is_not_asked_again() -> None:
    _, asking, pauses = ask(ZeroDivisionError(), [ModelResponse(text="Hi.")])

    report = await TurnRunner(executor_callback=asking).run(messages=["Go."])

    assert report.error is not None
    assert isinstance(report.error.__cause__, ZeroDivisionError)
    assert pauses == []


async def test_an_abort_ends_the_stream_at_once() -> None:
    provider, asking, _ = ask([ResponseDelta("text", "H"), "hang"])
    ctx = DispatchContext(messages=["Go."])
    ctx.events.on("message", lambda delta: ctx.abort())

    with anyio.fail_after(30):
        report = await DispatchRunner.dispatch(raw=ctx, executor_callback=asking, abort_grace_seconds=60)

    assert (report.status, provider.left) == ("aborted", 1)


async def test_a_filter_decides_what_the_model_is_shown() -> None:
    provider, asking, _ = ask([ModelResponse(text="Hi.")], filter=ToolFilter(exclude_tools=["add"]))
    seen: list[int] = []
    ask_model = provider.build_request

    async def request(ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions) -> dict[str, Any]:
        seen.append(len(definitions))
        return await ask_model(ctx, steps, definitions)

    provider.build_request = request
    await TurnRunner(executor_callback=asking, tools=[add]).run(messages=["Go."])

    assert seen == [0]


async def test_nothing_of_a_turn_stays_behind_it() -> None:
    _, asking, _ = ask([ModelResponse(text="Hi.")])
    ctx = DispatchContext(messages=["Go."])
    await DispatchRunner.dispatch(raw=ctx, executor_callback=asking)
    gone = weakref.ref(ctx)

    del ctx
    gc.collect()

    assert gone() is None


async def test_turns_side_by_side_do_not_hear_each_other() -> None:
    script = [[ModelResponse(text=None, calls=[Call("c1", "add", '{"a":1,"b":2}')])]] * 2 + [
        [ModelResponse(text="3")]
    ] * 2
    provider, asking, _ = ask(*script)
    runner = TurnRunner(executor_callback=asking, tools=[add])

    async with anyio.create_task_group() as tasks:
        for said in ("one", "two"):
            tasks.start_soon(lambda said=said: runner.run(messages=[said]))

    received = [[step.text for step in steps if isinstance(step, MessageStep)] for steps in provider.asked]
    assert len(received) == 4
    assert all(texts in (["one"], ["two"]) for texts in received)


@pytest.mark.parametrize(
    ("header", "seconds"), [(None, None), ("2", 2), ("0.5", 0.5), ("-1", 0), ("nan", None), ("soon", None), ("", None)]
)
def test_retry_after_is_read_in_seconds_and_ignored_if_invalid(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header) == seconds


def test_a_date_is_read_and_one_that_is_past_is_now() -> None:
    now = datetime.now(UTC)

    later = parse_retry_after(format_datetime(now + timedelta(seconds=60), usegmt=True))

    assert later is not None
    assert 50 < later <= 60
    assert parse_retry_after(format_datetime(now - timedelta(days=1), usegmt=True)) == 0
    assert parse_retry_after((now + timedelta(seconds=60)).strftime("%a, %d %b %Y %H:%M:%S")) is not None


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, -?\d{1,9} [A-Z][a-z]{2} \d{1,9} \d+:\d+:\d+ [+-]\d{1,30}"))
def test_no_header_is_an_error(header: str) -> None:
    seconds = parse_retry_after(header)

    assert seconds is None or seconds >= 0
