"""What it costs to put a streamed call together: 1,000 deltas, against reading each and joining their texts."""

import json
from typing import Any

from benchmarks.harness import Benchmark
from spindle.bridges.openai import chat_completions, responses_api

DELTAS = 1_000
PIECE = '"word": 1, '


def _chat_chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    facts = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return json.dumps({**facts, "choices": [choice]}).encode()


def _chat() -> list[bytes]:
    begun = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "t", "arguments": "{"}}
    piece = {"index": 0, "function": {"arguments": PIECE}}
    pieces = [_chat_chunk({"tool_calls": [piece]})] * (DELTAS - 2)
    return [_chat_chunk({"tool_calls": [begun]}), *pieces, _chat_chunk({}, "tool_calls")]


def _responses() -> list[bytes]:
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "t", "arguments": ""}
    begun = {"type": "response.output_item.added", "output_index": 0, "item": item, "sequence_number": 1}
    piece = {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": PIECE}
    return [json.dumps(each).encode() for each in (begun, *[piece] * (DELTAS - 1))]


CHAT, RESPONSES = _chat(), _responses()


def read_chat() -> str:
    text = ""
    for data in CHAT:
        for entry in json.loads(data)["choices"][0]["delta"].get("tool_calls", ()):
            text += entry["function"]["arguments"]
    return text


def read_responses() -> str:
    text = ""
    for data in RESPONSES:
        text += json.loads(data).get("delta", "")
    return text


def stream_chat() -> Any:
    stream = chat_completions.Stream()
    for data in CHAT:
        stream.feed(json.loads(data))
    return stream.calls()


def stream_responses() -> Any:
    stream = responses_api.Stream()
    for data in RESPONSES:
        stream.feed(json.loads(data))
    return stream.calls()


BENCHMARKS = [
    Benchmark(name="1,000 deltas of a Chat call / reading each", floor=read_chat, subject=stream_chat, aim=3),
    Benchmark(
        name="1,000 deltas of a Responses call / reading each", floor=read_responses, subject=stream_responses, aim=3
    ),
]
