"""The five ready callbacks behind one face: what a model asks is said once, and sent as each provider would send it."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import boto3.session
from anthropic import AsyncAnthropic
from botocore.config import Config
from google.genai import Client as GenaiClient
from google.genai import types as genai_types
from openai import AsyncOpenAI

from spindle.bridges import anthropic, bedrock, gemini, openai
from spindle.bridges.model_callback import ModelCallback, Retries
from spindle.bridges.openai import chat_completions, responses_api
from tests.bridges import chat_wire, responses_wire
from tests.bridges.wire import generating, messages
from tests.bridges.wire.event_stream import events_answer
from tests.bridges.wire.server import Answer, json_answer, sse_answer

KEY = "sk-very-secret-0123456789"
AT_ONCE = Retries(base_seconds=0)


@dataclass(frozen=True)
class Asked:
    """One call, as a model writes it."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def json(self) -> str:
        return json.dumps(self.arguments)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One provider."""

    name: str
    dialect: ModuleType
    callback: Callable[..., ModelCallback]
    client: Callable[[str], AbstractAsyncContextManager[Any]]
    """Gives the SDK's client of a server."""
    events: Callable[[Sequence[Asked], str], list[Any]]
    """The stream of an answer: calls, their pieces mixed where the API mixes them, and words."""
    answer: Callable[[Sequence[Any]], Answer]
    """Sends a stream."""
    whole: Callable[[Sequence[Asked], str], Any]
    """The same answer, not streamed."""
    asked: Callable[[Any], list[tuple[str | None, str]]]
    """The id and the name of each call a request repeats."""
    answered: Callable[[Any], list[tuple[str | None, str]]]
    """The id and the text of each answer a request holds."""
    said: str
    """Where a request keeps the conversation."""

    def streams(self, *calls: Asked, text: str = "") -> Answer:
        return self.answer(self.events(calls, text))

    def says(self, *calls: Asked, text: str = "") -> Answer:
        return json_answer(self.whole(calls, text))

    @asynccontextmanager
    async def asking(self, url: str, **options: Any) -> AsyncGenerator[ModelCallback]:
        async with self.client(url) as client:
            wishes: dict[str, Any] = {"model": "m", "retries": AT_ONCE} | options
            yield self.callback(client=client, **wishes)


def _pieces(text: str, size: int = 4) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# --- OpenAI Chat Completions


def _chat_events(calls: Sequence[Asked], text: str) -> list[Any]:
    asked = [(each.id, each.name, each.json) for each in calls]
    return chat_wire.asking(*asked, text=text) if calls else chat_wire.saying(*_pieces(text))


def _chat_whole(calls: Sequence[Asked], text: str) -> Any:
    entries = [
        {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.json}} for each in calls
    ]
    message: dict[str, Any] = {"content": text or None} | ({"tool_calls": entries} if entries else {})
    return chat_wire.whole(message, "tool_calls" if entries else "stop")


@asynccontextmanager
async def _openai_client(url: str) -> AsyncGenerator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        yield client


CHAT = Scene(
    name="openai_chat",
    dialect=chat_completions,
    callback=openai.chat,
    client=_openai_client,
    events=_chat_events,
    answer=lambda events: sse_answer(events, end="[DONE]"),
    whole=_chat_whole,
    asked=lambda request: [
        (each["id"], each["function"]["name"])
        for message in request["messages"]
        for each in message.get("tool_calls", ())
    ],
    answered=lambda request: [
        (message["tool_call_id"], message["content"]) for message in request["messages"] if message["role"] == "tool"
    ],
    said="messages",
)


# --- OpenAI Responses


def _items(calls: Sequence[Asked], text: str) -> list[dict[str, Any]]:
    said = [responses_wire.message_item(text)] if text else []
    asked = [
        responses_wire.call_item(each.id, each.name, each.json) | {"id": f"fc_{place}"}
        for place, each in enumerate(calls)
    ]
    return [*said, *asked]


RESPONSES = Scene(
    name="openai_responses",
    dialect=responses_api,
    callback=openai.responses,
    client=_openai_client,
    events=lambda calls, text: responses_wire.events(*_items(calls, text)),
    answer=lambda events: sse_answer(events, is_named=True),
    whole=lambda calls, text: responses_wire.response(*_items(calls, text)),
    asked=lambda request: [
        (each["call_id"], each["name"]) for each in request["input"] if each.get("type") == "function_call"
    ],
    answered=lambda request: [
        (each["call_id"], json.dumps(each["output"]))
        for each in request["input"]
        if each.get("type") == "function_call_output"
    ],
    said="input",
)


# --- Anthropic Messages


def _message_events(calls: Sequence[Asked], text: str) -> list[Any]:
    said = [messages.say(0, *_pieces(text))] if text else []
    uses = [
        messages.use(place, each.id, each.name, *_pieces(each.json))
        for place, each in enumerate(calls, start=len(said))
    ]
    return messages.events(*said, *uses, reason="tool_use" if calls else "end_turn")


def _message_whole(calls: Sequence[Asked], text: str) -> Any:
    said: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    uses = [{"type": "tool_use", "id": each.id, "name": each.name, "input": each.arguments} for each in calls]
    return messages.message(*said, *uses, reason="tool_use" if calls else "end_turn")


@asynccontextmanager
async def _anthropic_client(url: str) -> AsyncGenerator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=url, api_key=KEY) as client:
        yield client


ANTHROPIC = Scene(
    name="anthropic",
    dialect=anthropic,
    callback=anthropic.messages,
    client=_anthropic_client,
    events=_message_events,
    answer=lambda events: sse_answer(events, is_named=True),
    whole=_message_whole,
    asked=lambda request: [
        (block["id"], block["name"])
        for message in request["messages"]
        for block in message["content"]
        if block["type"] == "tool_use"
    ],
    answered=lambda request: [
        (block["tool_use_id"], json.dumps(block["content"]))
        for message in request["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
    ],
    said="messages",
)


# --- Gemini generateContent


def _parts(calls: Sequence[Asked], text: str) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [{"text": text}] if text else []
    return [*said, *(generating.call(each.name, dict(each.arguments), each.id) for each in calls)]


def _chunks(calls: Sequence[Asked], text: str) -> list[Any]:
    said = [generating.chunk({"text": piece}) for piece in _pieces(text)]
    return [*said, *(generating.chunk(part) for part in _parts(calls, "")), generating.chunk(reason="STOP")]


@asynccontextmanager
async def _gemini_client(url: str) -> AsyncGenerator[GenaiClient]:
    client = GenaiClient(api_key=KEY, http_options=genai_types.HttpOptions(base_url=url))
    try:
        yield client
    finally:
        await client.aio.aclose()
        client.close()


def _of_parts(request: Any, kind: str) -> list[Any]:
    return [part[kind] for content in request["contents"] for part in content["parts"] if kind in part]


GEMINI = Scene(
    name="gemini",
    dialect=gemini,
    callback=gemini.generate,
    client=_gemini_client,
    events=_chunks,
    answer=sse_answer,
    whole=lambda calls, text: generating.chunk(*_parts(calls, text), reason="STOP"),
    asked=lambda request: [(each.get("id"), each["name"]) for each in _of_parts(request, "functionCall")],
    answered=lambda request: [
        (each.get("id"), json.dumps(each["response"])) for each in _of_parts(request, "functionResponse")
    ],
    said="contents",
)


# --- Bedrock Converse


def _converse_events(calls: Sequence[Asked], text: str) -> list[Any]:
    sent: list[Any] = [{"messageStart": {"role": "assistant"}}]
    if text:
        said = [{"contentBlockDelta": {"delta": {"text": piece}, "contentBlockIndex": 0}} for piece in _pieces(text)]
        sent += [*said, {"contentBlockStop": {"contentBlockIndex": 0}}]
    for place, each in enumerate(calls, start=1 if text else 0):
        use = {"toolUse": {"toolUseId": each.id, "name": each.name}}
        sent.append({"contentBlockStart": {"start": use, "contentBlockIndex": place}})
        sent += [
            {"contentBlockDelta": {"delta": {"toolUse": {"input": piece}}, "contentBlockIndex": place}}
            for piece in _pieces(each.json)
        ]
        sent.append({"contentBlockStop": {"contentBlockIndex": place}})
    usage = {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}
    metadata = {"usage": usage, "metrics": {"latencyMs": 1}}
    return [*sent, {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}, {"metadata": metadata}]


def _converse_whole(calls: Sequence[Asked], text: str) -> Any:
    said: list[dict[str, Any]] = [{"text": text}] if text else []
    uses = [{"toolUse": {"toolUseId": each.id, "name": each.name, "input": each.arguments}} for each in calls]
    return {
        "output": {"message": {"role": "assistant", "content": [*said, *uses]}},
        "stopReason": "tool_use" if calls else "end_turn",
        "usage": {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12},
        "metrics": {"latencyMs": 1},
    }


_SESSION: Any = boto3.session.Session("id", KEY, region_name="eu-central-1")


@asynccontextmanager
async def _bedrock_client(url: str) -> AsyncGenerator[Any]:
    config = Config(retries={"total_max_attempts": 1}, read_timeout=30, max_pool_connections=100)
    client = _SESSION.client("bedrock-runtime", endpoint_url=url, config=config)
    try:
        yield client
    finally:
        client.close()


def _of_blocks(request: Any, kind: str) -> list[Any]:
    return [block[kind] for message in request["messages"] for block in message["content"] if kind in block]


BEDROCK = Scene(
    name="bedrock",
    dialect=bedrock,
    callback=bedrock.converse,
    client=_bedrock_client,
    events=_converse_events,
    answer=events_answer,
    whole=_converse_whole,
    asked=lambda request: [(each["toolUseId"], each["name"]) for each in _of_blocks(request, "toolUse")],
    answered=lambda request: [
        (each["toolUseId"], json.dumps(each["content"])) for each in _of_blocks(request, "toolResult")
    ],
    said="messages",
)

SCENES = (CHAT, RESPONSES, ANTHROPIC, GEMINI, BEDROCK)
