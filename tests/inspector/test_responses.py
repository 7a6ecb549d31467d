"""Answers are written as JSON, large ones in a thread; work ends when its client leaves."""

import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, field_serializer
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from spindle.errors import ArtifactQueryError
from spindle.inspector.responses import SMALL_CHARS, SMALL_PARTS, is_large, run_while_connected, serialize

pytestmark = pytest.mark.anyio


class TextInAnswer(BaseModel):
    """An answer that remembers which thread wrote it."""

    text: str = ""
    parts: Any = None

    @field_serializer("text")
    def _write_text(self, text: str) -> str:
        writers.append(threading.get_ident())
        return text


writers: list[int] = []


@pytest.mark.parametrize(
    "answer",
    [
        TextInAnswer(text="x" * (SMALL_CHARS + 1)),
        TextInAnswer(parts=[1] * (SMALL_PARTS + 1)),
        TextInAnswer(parts={"deep": [{"text": "x" * 100}] * (SMALL_PARTS // 2)}),
        TextInAnswer(parts=[TextInAnswer(text="x" * 1_000)] * 30),
    ],
)
async def test_large_answers_are_written_in_a_thread(answer: TextInAnswer) -> None:
    writers.clear()
    written = await serialize(answer)

    assert is_large(answer)
    assert json.loads(written) == answer.model_dump(mode="json")
    assert writers[0] != threading.get_ident()


async def test_small_answers_are_written_at_once() -> None:
    writers.clear()
    assert json.loads(await serialize(TextInAnswer(text="a", parts=[1, {"b": None}]))) == {
        "text": "a",
        "parts": [1, {"b": None}],
    }
    assert writers == [threading.get_ident()]


@pytest.mark.parametrize("length", [1, SMALL_CHARS + 1])
async def test_half_characters_are_escaped(length: int) -> None:
    text = "\ud800" * length
    assert json.loads(await serialize(TextInAnswer(text=text)))["text"] == text


def build_request(receive: Callable[[], Awaitable[Message]]) -> Request:
    return Request({"type": "http", "method": "GET", "headers": []}, receive)


async def wait_forever() -> Message:
    await anyio.sleep_forever()
    raise AssertionError


async def test_work_is_returned_and_its_errors_are_raised_as_they_are() -> None:
    async def work() -> int:
        return 7

    async def fail() -> int:
        raise ArtifactQueryError("no")

    assert await run_while_connected(build_request(wait_forever), work) == 7
    with pytest.raises(ArtifactQueryError):
        await run_while_connected(build_request(wait_forever), fail)


async def test_work_is_cancelled_when_the_client_leaves() -> None:
    started, cancelled = anyio.Event(), anyio.Event()
    messages: list[Message] = [{"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        await started.wait()
        return messages.pop(0)

    async def work() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with anyio.fail_after(30), pytest.raises(ClientDisconnect):
        await run_while_connected(build_request(receive), work)
    assert cancelled.is_set()


async def test_a_cancelled_caller_gets_its_own_cancellation() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await run_while_connected(build_request(wait_forever), anyio.sleep_forever)
    assert scope.cancelled_caught
