"""Recognises in the error of a model API that the prompt does not fit into the context window of the model.

Few servers have a code for it; the others only say it in the message, each in its own words. The table below has the
words of each server with the place where they were seen.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spindle.bridges.wire import get_count, get_field, get_str

_MAX_MESSAGE_CHARS: Final = 10_000
_MAX_DIGITS: Final = 15

_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
"""Codes and types of OpenAI (also Azure and llama-cpp-python) and of llama.cpp."""

_OTHER_STATUSES: Final = frozenset({401, 402, 403, 404, 408, 429})
"""Statuses that are never about the size of one prompt, whatever the message says; 429 is about tokens per minute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OverflowPhrase:
    """The words of some servers for a prompt that is too long."""

    servers: str
    pattern: str
    """Matched anywhere in the message, in any case."""
    source: str


PHRASES: Final = (
    OverflowPhrase(
        servers="OpenAI, Azure, vLLM, OpenRouter, llama-cpp-python",
        pattern=r"maximum context length",
        source="https://github.com/vllm-project/vllm/issues/20409",
    ),
    OverflowPhrase(
        servers="OpenAI",
        pattern=r"input tokens exceed the configured limit",
        source="https://github.com/cline/cline/issues/5474",
    ),
    OverflowPhrase(
        servers="OpenAI Responses, llama-cpp-python",
        pattern=r"exceeds? (?:the )?context window",
        source="https://github.com/anomalyco/opencode/issues/6071",
    ),
    OverflowPhrase(
        servers="vLLM",
        pattern=r"too long to fit into the model|longer than the maximum model length",
        source="https://github.com/vllm-project/vllm/issues/12165",
    ),
    OverflowPhrase(
        servers="llama.cpp",
        pattern=r"exceeds the available context size|larger than the max context size",
        source="https://github.com/ggml-org/llama.cpp/issues/15780",
    ),
    OverflowPhrase(
        servers="Ollama, LM Studio",
        pattern=r"input length (?:\d+ )?exceeds (?:the )?context length",
        source="https://github.com/nano-step/nano-brain/issues/208",
    ),
    OverflowPhrase(
        servers="LM Studio",
        pattern=r"when (?:the )?context (?:the )?overflows|n_keep\W+\d+\W+n_ctx|context size has been exceeded",
        source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/237",
    ),
    OverflowPhrase(
        servers="Anthropic, Bedrock",
        pattern=r"prompt is too long|`?max_tokens`? exceed context limit",
        source="https://github.com/anthropics/claude-code/issues/12186",
    ),
    OverflowPhrase(
        servers="Gemini",
        pattern=r"input token count.{0,40}exceeds the maximum number of tokens",
        source="https://github.com/google-gemini/gemini-cli/issues/6678",
    ),
    OverflowPhrase(
        servers="Bedrock",
        pattern=r"input is too long for requested model|too many input tokens",
        source="https://github.com/strands-agents/harness-sdk/pull/1663",
    ),
)

_ANY_PHRASE: Final = re.compile("|".join(phrase.pattern for phrase in PHRASES), re.IGNORECASE)

_PROMPT_FIGURES: Final = (
    r"resulted in (\d+) tokens",
    r"\((\d+) (?:in the messages|in your prompt|of text input)",
    r"(?:has|contains at least|contains) (\d+) input tokens",
    r"request input token count: (\d+)",
    r"(?:prompt is too long: |keep the first |request \(|input \(|requested tokens \()(\d+)",
    r"(?:input token count|prompt|total length|length|n_keep)\W{1,3}(?:total length |length )?(\d+)",
    r"exceed context limit: (\d+)",
    r"requested (?:about )?(\d+) tokens",
)
_CONTEXT_FIGURES: Final = (
    r"maximum context length is (\d+)",
    r"configured limit of (\d+)",
    r"context window of (\d+)",
    r"(?:available|max) context size \((\d+)",
    r"maximum model length of (\d+)",
    r"context length (?:of only )?(\d+)",
    r"n_ctx\W{1,4}(\d+)",
    r"> (\d+) maximum",
    r"exceed context limit: \d+ \+ \d+ > (\d+)",
    r"tokens allowed \((\d+)",
    r"max input tokens: (\d+)",
)
_OUTPUT_FIGURES: Final = (
    r"(\d+) (?:in the completion|for the completion|in the output|output tokens)",
    r"is too large: (\d+)",
    r"exceed context limit: \d+ \+ (\d+)",
)


@dataclass(frozen=True, slots=True)
class ContextOverflow:
    """The sizes of a prompt that does not fit and of the window, as far as the server reports them."""

    prompt_tokens: int | None = None
    context_tokens: int | None = None


def find_context_overflow(message: str, *, status: int | None, body: object = None) -> ContextOverflow | None:
    """Return the sizes if an error says that the prompt does not fit into the context window; `None` for other errors.

    `body` is the parsed error, if the server sent one. An output limit that fills the window by itself is another
    error: a shorter prompt would not help.
    """
    if status in _OTHER_STATUSES:
        return None
    text = message[:_MAX_MESSAGE_CHARS]
    levels = list(_iterate_levels(body))
    has_code = any(get_str(level, name) in _CODES for level in levels for name in ("code", "type"))
    if not has_code and not _ANY_PHRASE.search(text):
        return None
    prompt = next(filter(None, (get_count(level, "n_prompt_tokens") for level in levels)), None)
    context = next(filter(None, (get_count(level, "n_ctx") for level in levels)), None)
    prompt, context = prompt or _find_figure(_PROMPT_FIGURES, text), context or _find_figure(_CONTEXT_FIGURES, text)
    output = _find_figure(_OUTPUT_FIGURES, text)
    if output is not None and context is not None and output >= context:
        return None
    return ContextOverflow(prompt, context)


def _iterate_levels(body: object) -> Iterator[object]:
    """Yield the body of an error response and the error object inside it."""
    yield body
    inner = get_field(body, "error")
    if inner is not None:
        yield inner


def _find_figure(patterns: tuple[str, ...], text: str) -> int | None:
    for pattern in patterns:
        found = re.search(pattern, text, re.IGNORECASE)
        if found is not None:
            # A longer number is not a size, and Python refuses to convert thousands of digits.
            return int(found[1]) if len(found[1]) <= _MAX_DIGITS else None
    return None
