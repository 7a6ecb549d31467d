"""Every request of the callbacks is taken by every known server, and the table of servers is the one in the docs."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from spindle import TurnRunner, tool
from spindle.bridges.openai import QUIRKS, ServerQuirk, chat, responses
from tests.bridges.chat_wire import asking, chunk, saying
from tests.bridges.openai_scene import add, chatting, responding, serving
from tests.bridges.responses_wire import call_item, message_item, reasoning_item

pytestmark = [
    pytest.mark.anyio,
    # Trio warns of generators that the SDK leaves open after the end of a stream, and closes them.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]

every = pytest.mark.parametrize("quirk", QUIRKS, ids=[f"{each.server}: {each.quirk}" for each in QUIRKS])
SERVERS = {"OpenAI", "Azure", "llama.cpp", "llama-cpp-python", "Ollama", "vLLM", "LM Studio", "OpenRouter"}
OPTIONS: dict[str, dict[str, Any]] = {
    "include_usage": {"include_usage": False},
    "empty_content": {"empty_content": None},
}
MESSAGES: list[Any] = ["Hello.", {"role": "assistant", "content": "Hello to you."}, "Add 1 and 2."]


@tool
async def now() -> str:
    """Tell the time."""
    return "noon"


def find_problems(quirk: ServerQuirk, request: Any) -> list[str]:
    validator: Any = Draft202012Validator(quirk.takes)
    return [error.message for error in validator.iter_errors(request)]


async def record_requests(quirk: ServerQuirk) -> list[Any]:
    """Return the requests of a conversation with calls, with and without text, broken arguments, and a refusal."""
    options = OPTIONS[quirk.option] if quirk.option else {}
    if quirk.api == "chat":
        refusal = [chunk({"refusal": "I won't."}), chunk(finish_reason="stop")]
        script = [
            chatting(*asking(("c1", "add", {"a": 1, "b": 2}), ("c2", "now", ""))),
            chatting(*asking(("c3", "add", '{"a": 1, oops'), text="Once more.")),
            chatting(*saying("3")),
            chatting(*refusal),
        ]
    else:
        thought = reasoning_item(content=[{"type": "reasoning_text", "text": "Hm."}])
        script = [
            responding(thought, call_item("c1", "add", {"a": 1, "b": 2})),
            responding(message_item("Once more."), call_item("c3", "now", {})),
            responding(message_item("3", "msg_2")),
            responding(message_item("No.", "msg_3")),
        ]
    make: Any = chat if quirk.api == "chat" else responses
    async with serving(*script) as (server, client):
        runner = TurnRunner(executor_callback=make(model="m", client=client, **options), tools=[add, now])
        first = await runner.run(messages=MESSAGES, system_prompt="Be brief.")
        second = await runner.run(messages=[*first.messages, "And now?"])
        assert (first.status, second.status) == ("ok", "ok")
        return [request.json for request in server.requests]


@pytest.mark.slow
@every
async def test_every_request_is_taken_by_every_known_server(quirk: ServerQuirk) -> None:
    requests = await record_requests(quirk)

    assert len(requests) == 4
    for request in requests:
        assert not find_problems(quirk, request)


@every
def test_the_schema_of_a_server_rejects_what_the_server_was_seen_to_refuse(quirk: ServerQuirk) -> None:
    Draft202012Validator.check_schema(quirk.takes)

    assert find_problems(quirk, quirk.refused)


def test_every_server_of_the_table_has_a_quirk_with_a_source_and_a_date() -> None:
    assert {quirk.server for quirk in QUIRKS} == SERVERS
    assert all(quirk.source.startswith("https://") and quirk.date.year >= 2024 for quirk in QUIRKS)


@every
def test_the_docs_have_each_quirk_with_its_source(quirk: ServerQuirk, request: pytest.FixtureRequest) -> None:
    page = (request.config.rootpath / "docs" / "servers.md").read_text(encoding="utf-8")
    row = f"| {quirk.server} | {quirk.api} | {quirk.quirk} | {quirk.answer} | [{quirk.date}]({quirk.source}) |"

    assert row in page
