"""What a server of the Responses API sends: items, events, whole answers."""

import json
from collections.abc import Iterable
from typing import Any


def call_item(call_id: str, name: str, arguments: Any, *, status: str = "completed") -> dict[str, Any]:
    """Give an item that is a call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    facts = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "status": status}
    return facts | {"arguments": text}


def message_item(text: str, id: str = "msg_1") -> dict[str, Any]:
    """Give an item that is a message."""
    content: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content}


def reasoning_item(id: str = "rs_1", **facts: Any) -> dict[str, Any]:
    """Give an item that is a piece of reasoning."""
    return {"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": "Hm."}], **facts}


def response(*items: Any, status: str = "completed", **facts: Any) -> dict[str, Any]:
    """Give a whole answer."""
    usage = {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 12,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": list(items),
        "usage": usage,
        **facts,
    }


def events(
    *items: dict[str, Any], status: str = "completed", has_output: bool = True, **facts: Any
) -> list[dict[str, Any]]:
    """Give the stream of an answer: every item begun, then pieces of all of them mixed, then each done."""
    begun = [_begun(item) for item in items]
    sent = [_of(n, item, "response.output_item.added", item=item) for n, item in enumerate(begun)]
    pieces = [list(_pieces(n, item)) for n, item in enumerate(items)]
    while any(pieces):
        sent += [queue.pop(0) for queue in pieces if queue]
    sent += [_of(n, item, "response.output_item.done", item=item) for n, item in enumerate(items)]
    end = response(*(items if has_output else ()), status=status, **facts)
    sent = [{"type": "response.created", "response": response(status="in_progress")}, *sent]
    sent.append({"type": f"response.{status}", "response": end})
    return [{"sequence_number": n, **each} for n, each in enumerate(sent)]


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, dict[str, Any]] = {"function_call": {"arguments": ""}, "message": {"content": []}}
    return item | empty.get(item["type"], {}) | {"status": "in_progress"}


def _of(index: int, about: dict[str, Any], kind: str, **facts: Any) -> dict[str, Any]:
    return {"type": kind, "output_index": index, "item_id": about["id"], **facts}


def _pieces(index: int, item: dict[str, Any]) -> Iterable[dict[str, Any]]:
    if item["type"] == "function_call":
        text = item["arguments"]
        for at in range(0, len(text), 5):
            yield _of(index, item, "response.function_call_arguments.delta", delta=text[at : at + 5])
        yield _of(index, item, "response.function_call_arguments.done", arguments=text)
    elif item["type"] == "message":
        text = item["content"][0]["text"]
        for at in range(0, len(text), 5):
            piece = text[at : at + 5]
            yield _of(index, item, "response.output_text.delta", content_index=0, delta=piece, logprobs=[])
    elif item["type"] == "reasoning":
        for part in item["summary"]:
            yield _of(index, item, "response.reasoning_summary_text.delta", summary_index=0, delta=part["text"])
