"""What Anthropic's Messages API says on the wire."""

from collections.abc import Sequence
from typing import Any

from tests.bridges.wire.server import Answer, sse_answer

START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 1},
    },
}
STOP: dict[str, Any] = {"type": "message_stop"}


def begin(index: Any, block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Any, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def end(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ended(reason: str | None, **usage: Any) -> list[dict[str, Any]]:
    last = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": last, "usage": {"output_tokens": 7, **usage}}, STOP]


def say(index: int, *texts: str) -> list[dict[str, Any]]:
    deltas = [delta(index, "text_delta", text=text) for text in texts]
    return [begin(index, {"type": "text", "text": ""}), *deltas, end(index)]


def think(index: int, text: str, signature: str) -> list[dict[str, Any]]:
    return [
        begin(index, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(index, "thinking_delta", thinking=text),
        delta(index, "signature_delta", signature=signature),
        end(index),
    ]


def use(index: int, id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [begin(index, {"type": "tool_use", "id": id, "name": name, "input": {}}), *deltas, end(index)]


def events(*blocks: Sequence[dict[str, Any]], reason: str | None = "tool_use") -> list[dict[str, Any]]:
    return [START, {"type": "ping"}, *(event for block in blocks for event in block), *ended(reason)]


def streamed(*blocks: Sequence[dict[str, Any]], reason: str | None = "tool_use", **how: Any) -> Answer:
    return sse_answer(events(*blocks, reason=reason), is_named=True, **how)


def message(*content: dict[str, Any], reason: str = "tool_use") -> dict[str, Any]:
    return START["message"] | {
        "content": list(content),
        "stop_reason": reason,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
