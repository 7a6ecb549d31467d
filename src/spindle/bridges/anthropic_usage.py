"""What Anthropic's API counts, by the names all bridges use."""

from typing import Any

from spindle.bridges.reading import count_of, field_of


def usage_of(usage: Any) -> dict[str, int] | None:
    """Give the figures; the API counts tokens of the cache apart, and here they are part of `input_tokens`."""
    fresh, outputs = count_of(usage, "input_tokens"), count_of(usage, "output_tokens")
    if fresh is None and outputs is None:
        return None
    read = count_of(usage, "cache_read_input_tokens")
    written = count_of(usage, "cache_creation_input_tokens")
    inputs = (fresh or 0) + (read or 0) + (written or 0)
    figures = {"input_tokens": inputs, "output_tokens": outputs or 0}
    thought = count_of(field_of(usage, "output_tokens_details"), "thinking_tokens")
    apart = {"cached_input_tokens": read, "cache_write_tokens": written, "reasoning_tokens": thought}
    figures |= {name: count for name, count in apart.items() if count is not None}
    return figures | {"total_tokens": inputs + (outputs or 0)}


def added(first: dict[str, int] | None, second: dict[str, int] | None) -> dict[str, Any] | None:
    """Add up the figures of two requests."""
    if first is None or second is None:
        return first or second
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}
