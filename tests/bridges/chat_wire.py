"""What a server of Chat Completions sends: chunks, calls, whole answers."""

import json
from typing import Any


def chunk(delta: Any = None, finish_reason: Any = None, **facts: Any) -> dict[str, Any]:
    """Give one chunk of a stream."""
    choice: dict[str, Any] = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish_reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **facts,
    }


def call_delta(
    index: Any = None, id: Any = None, name: Any = None, arguments: Any = None, **facts: Any
) -> dict[str, Any]:
    """Give a chunk with one piece of one call, in which what is `None` is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    entry = {"index": index, "id": id, "function": function or None, **facts}
    return chunk({"tool_calls": [{key: value for key, value in entry.items() if value is not None}]})


def usage_chunk(**usage: Any) -> dict[str, Any]:
    """Give the chunk that comes last where usage was asked for."""
    return chunk() | {"choices": [], "usage": usage}


def asking(*calls: tuple[str, str, Any], text: str | None = None) -> list[dict[str, Any]]:
    """Give the chunks of an answer with calls, all of whose arguments come in pieces, mixed with each other."""
    chunks = [chunk({"role": "assistant", "content": text})] if text else []
    written = [each[2] if isinstance(each[2], str) else json.dumps(each[2]) for each in calls]
    chunks += [call_delta(n, each, name, "", type="function") for n, (each, name, _) in enumerate(calls)]
    for at in range(0, max((len(each) for each in written), default=0), 7):
        chunks += [call_delta(n, arguments=each[at : at + 7]) for n, each in enumerate(written) if each[at : at + 7]]
    return [*chunks, chunk(finish_reason="tool_calls")]


def saying(*words: str) -> list[dict[str, Any]]:
    """Give the chunks of an answer that is text alone."""
    return [*(chunk({"content": word}) for word in words), chunk(finish_reason="stop")]


def whole(message: dict[str, Any], finish_reason: str = "stop", **facts: Any) -> dict[str, Any]:
    """Give an answer that is not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason, "logprobs": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **facts,
    }
