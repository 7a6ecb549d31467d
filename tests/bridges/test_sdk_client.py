"""The client of an SDK: the caller's own, or one that only looks like it."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from spindle import TurnRunner
from spindle.bridges import anthropic, openai
from spindle.errors import UsageError
from tests.bridges.chat_wire import saying


def test_a_client_that_would_block_the_event_loop_is_refused() -> None:
    with OpenAI(api_key="key") as chat, Anthropic(api_key="key") as messages:
        for make, client in ((openai.chat, chat), (openai.responses, chat), (anthropic.messages, messages)):
            blocking: Any = client
            with pytest.raises(UsageError) as caught:
                make(model="m", client=blocking)
            assert caught.value.field == "client"


@pytest.mark.anyio
async def test_who_stands_in_for_the_client_needs_no_more_than_the_method_that_asks() -> None:
    asked: list[Any] = []

    async def events() -> AsyncIterator[Any]:
        for event in saying("Hello."):
            yield event

    async def create(**request: Any) -> AsyncIterator[Any]:
        asked.append(request)
        return events()

    client: Any = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    report = await TurnRunner(executor_callback=openai.chat(model="m", client=client)).run(messages=["Hi."])

    assert (report.status, report.text) == ("ok", "Hello.")
    assert asked[0]["model"] == "m"
