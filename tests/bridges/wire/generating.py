"""What Gemini's generateContent says on the wire."""

from typing import Any

from tests.bridges.wire.server import Answer, sse_answer

USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 17}


def call(name: str, args: Any = None, id: str | None = None, signature: str | None = None) -> dict[str, Any]:
    asked: dict[str, Any] = {"name": name}
    if args is not None:
        asked["args"] = args
    if id is not None:
        asked["id"] = id
    return {"functionCall": asked} | ({"thoughtSignature": signature} if signature else {})


def chunk(*parts: Any, reason: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {"candidates": [candidate | more], "usageMetadata": USAGE, "modelVersion": "gemini-test"}


def streamed(*chunks: Any, **how: Any) -> Answer:
    return sse_answer(chunks, **how)
