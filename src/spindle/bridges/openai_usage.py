"""What OpenAI's APIs count, by the names all bridges use."""

from typing import Any

from spindle.bridges.reading import count_of, field_of


def usage_of(usage: Any) -> dict[str, Any] | None:
    """Give the figures of either API; `None` where there are none."""
    if usage is None:
        return None
    inputs, outputs = "prompt_tokens", "completion_tokens"
    if count_of(usage, inputs) is None and count_of(usage, outputs) is None:
        inputs, outputs = "input_tokens", "output_tokens"
    found = {
        "input_tokens": count_of(usage, inputs),
        "output_tokens": count_of(usage, outputs),
        "cached_input_tokens": count_of(field_of(usage, f"{inputs}_details"), "cached_tokens"),
        "reasoning_tokens": count_of(field_of(usage, f"{outputs}_details"), "reasoning_tokens"),
        "total_tokens": count_of(usage, "total_tokens"),
    }
    figures: dict[str, Any] = {name: count for name, count in found.items() if count is not None}
    if "total_tokens" not in figures and {"input_tokens", "output_tokens"} <= figures.keys():
        figures["total_tokens"] = figures["input_tokens"] + figures["output_tokens"]
    return figures or None
