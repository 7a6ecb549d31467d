"""What known servers with OpenAI's APIs refuse or misread in a request, as data, each with its source and date.

A quirk has a request that the server refuses and the JSON Schema of those it takes, so that a test can hold every
request of the bridge against every server.
"""

from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

from spindle.json_types import JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerQuirk:
    """One way in which a server differs from what its API documents."""

    server: str
    api: Literal["chat", "responses"]
    quirk: str
    """What the server does."""
    answer: str
    """What the bridge sends instead, or the option to set."""
    refused: JsonObject
    """A request that the server refuses or misreads, without the parts that do not matter."""
    takes: JsonObject
    """JSON Schema of the requests that the server takes."""
    source: str
    date: date
    """The day of the source; for a file, the day on which it was read."""
    option: str | None = None
    """The option of `chat` or `responses` that a caller must set for this server; `None`: nothing is to be set."""


def _each_message(schema: JsonObject) -> JsonObject:
    return {"properties": {"messages": {"items": schema}}}


def _each_item(schema: JsonObject) -> JsonObject:
    return {"properties": {"input": {"items": schema}}}


_ASSISTANT: Final[JsonObject] = {"properties": {"role": {"const": "assistant"}}, "required": ["role"]}
_NULL_CONTENT: Final[JsonObject] = {"properties": {"content": {"type": "null"}}, "required": ["content"]}
_NO_NULL_CONTENT: Final = _each_message({"not": _NULL_CONTENT})
_CALL: Final[JsonObject] = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
_NULL_WITH_CALL: Final[JsonObject] = {"messages": [{"role": "assistant", "content": None, "tool_calls": [_CALL]}]}
_LLAMA_CPP: Final = "https://github.com/ggml-org/llama.cpp/blob/master"
_LLAMA_CPP_PYTHON: Final = "https://github.com/abetlen/llama-cpp-python/blob/main/llama_cpp/llama_types.py"
_READ: Final = date(2026, 11, 16)
_EMPTY_TEXT: Final = 'an answer without text is repeated as `"content": ""`'
_WITH_PARAMETERS: Final[JsonObject] = {
    "properties": {"tools": {"items": {"properties": {"function": {"required": ["parameters"]}}}}}
}
_TEXT_ARGUMENTS: Final[JsonObject] = {
    "properties": {"function": {"properties": {"arguments": {"type": "string", "pattern": r"^\s*\{"}}}}
}

QUIRKS: Final = (
    ServerQuirk(
        server="OpenAI",
        api="chat",
        quirk='`"content": null` without `tool_calls` is refused',
        answer=_EMPTY_TEXT,
        refused={"messages": [{"role": "assistant", "content": None}]},
        takes=_each_message({"anyOf": [{"not": _NULL_CONTENT}, {"required": ["tool_calls"]}]}),
        source="https://github.com/vercel/ai/pull/13744",
        date=date(2026, 4, 30),
    ),
    ServerQuirk(
        server="Azure",
        api="chat",
        quirk="API versions before 2024-10-21 refuse `stream_options`",
        answer="set `include_usage=False`",
        option="include_usage",
        refused={"messages": [], "stream_options": {"include_usage": True}},
        takes={"not": {"required": ["stream_options"]}},
        source="https://github.com/openai/openai-python/issues/1469",
        date=date(2024, 6, 5),
    ),
    ServerQuirk(
        server="llama.cpp",
        api="chat",
        quirk="a message needs `content`, or in newer versions `tool_calls`",
        answer="`content` is always sent",
        refused={"messages": [{"role": "assistant"}]},
        takes=_each_message({"required": ["content"]}),
        source=f"{_LLAMA_CPP}/common/chat.cpp",
        date=_READ,
    ),
    ServerQuirk(
        server="llama.cpp",
        api="chat",
        quirk="older versions refuse a tool without `parameters`",
        answer="`parameters` are always sent",
        refused={"messages": [], "tools": [{"type": "function", "function": {"name": "now"}}]},
        takes=_WITH_PARAMETERS,
        source="https://github.com/ggml-org/llama.cpp/issues/17667",
        date=date(2025, 12, 1),
    ),
    ServerQuirk(
        server="llama.cpp",
        api="responses",
        quirk='an assistant message without `"type": "message"` is refused',
        answer="each message has its type",
        refused={"input": [{"role": "assistant", "content": "Hello."}]},
        takes=_each_item(
            {"if": _ASSISTANT, "then": {"properties": {"type": {"const": "message"}}, "required": ["type"]}}
        ),
        source="https://github.com/tidyverse/ellmer/issues/1153",
        date=date(2026, 9, 17),
    ),
    ServerQuirk(
        server="llama.cpp",
        api="responses",
        quirk="an item of reasoning without `content` is refused",
        answer="reasoning is sent back as it was received, which has `content` from llama.cpp",
        refused={"input": [{"type": "reasoning", "summary": []}]},
        takes=_each_item(
            {
                "if": {"properties": {"type": {"const": "reasoning"}}, "required": ["type"]},
                "then": {"properties": {"content": {"type": "array", "minItems": 1}}, "required": ["content"]},
            }
        ),
        source=f"{_LLAMA_CPP}/tools/server/server-chat.cpp",
        date=_READ,
    ),
    ServerQuirk(
        server="llama-cpp-python",
        api="chat",
        quirk='`"content": null` is answered with the status 500',
        answer=_EMPTY_TEXT,
        refused=_NULL_WITH_CALL,
        takes=_NO_NULL_CONTENT,
        source=_LLAMA_CPP_PYTHON,
        date=_READ,
    ),
    ServerQuirk(
        server="llama-cpp-python",
        api="chat",
        quirk="a tool without `parameters` is answered with the status 500",
        answer="`parameters` are always sent",
        refused={"messages": [], "tools": [{"type": "function", "function": {"name": "now"}}]},
        takes=_WITH_PARAMETERS,
        source=_LLAMA_CPP_PYTHON,
        date=_READ,
    ),
    ServerQuirk(
        server="Ollama",
        api="chat",
        quirk='`"content": null` is refused',
        answer=_EMPTY_TEXT,
        refused=_NULL_WITH_CALL,
        takes=_NO_NULL_CONTENT,
        source="https://github.com/pydantic/pydantic-ai/issues/5206",
        date=date(2026, 4, 25),
    ),
    ServerQuirk(
        server="Ollama",
        api="chat",
        quirk="arguments of an earlier call that are an object instead of text are refused",
        answer="arguments are sent as the text of a JSON object",
        refused={"messages": [{"tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}]}]},
        takes=_each_message({"properties": {"tool_calls": {"items": _TEXT_ARGUMENTS}}}),
        source="https://github.com/openclaw/openclaw/pull/97834",
        date=date(2026, 6, 29),
    ),
    ServerQuirk(
        server="vLLM",
        api="chat",
        quirk='some chat templates show `"content": null` to the model as the word "None"',
        answer=_EMPTY_TEXT,
        refused=_NULL_WITH_CALL,
        takes=_NO_NULL_CONTENT,
        source="https://github.com/vllm-project/vllm/issues/54337",
        date=date(2026, 8, 29),
    ),
    ServerQuirk(
        server="vLLM",
        api="chat",
        quirk='the chat template of Llama refuses `"tool_calls": []`',
        answer="`tool_calls` is sent only with calls in it",
        refused={"messages": [{"role": "assistant", "content": "Hello.", "tool_calls": []}]},
        takes=_each_message({"properties": {"tool_calls": {"minItems": 1}}}),
        source="https://github.com/vllm-project/vllm/pull/14054",
        date=date(2025, 2, 28),
    ),
    ServerQuirk(
        server="LM Studio",
        api="chat",
        quirk='`"content": null` is refused',
        answer=_EMPTY_TEXT,
        refused=_NULL_WITH_CALL,
        takes=_NO_NULL_CONTENT,
        source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/261",
        date=date(2024, 12, 20),
    ),
    ServerQuirk(
        server="LM Studio",
        api="chat",
        quirk="old versions refuse an empty system message",
        answer="an empty system prompt is left out",
        refused={"messages": [{"role": "system", "content": ""}]},
        takes=_each_message({"not": {"properties": {"role": {"const": "system"}, "content": {"const": ""}}}}),
        source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/261",
        date=date(2024, 12, 20),
    ),
    ServerQuirk(
        server="OpenRouter",
        api="chat",
        quirk="a gateway that routes to Bedrock may refuse an empty text in a message with calls",
        answer="set `empty_content=None`, which sends null",
        option="empty_content",
        refused={"messages": [{"role": "assistant", "content": "", "tool_calls": [_CALL]}]},
        takes=_each_message(
            {"if": {"required": ["tool_calls"]}, "then": {"not": {"properties": {"content": {"const": ""}}}}}
        ),
        source="https://github.com/vercel/ai/pull/13505",
        date=date(2026, 3, 17),
    ),
)
"""The known quirks, by server."""
