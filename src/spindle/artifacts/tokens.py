"""Token counts of text: an estimate from its size in bytes, and a registry of exact counters.

Machine text (code, logs, JSON, base64) is estimated at about two bytes per token, prose at three and a half. Where
exact numbers matter, register a counter for the model's encoding.
"""

from collections.abc import Callable
from math import ceil
from typing import Final, TypeAlias

from spindle.errors import ArtifactQueryError, UsageError

TokenCounter: TypeAlias = Callable[[str], int]

KNOWN_ENCODINGS: Final = frozenset({
    "gpt2", "r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "gemini", "gemma", "llama2", "claude",
})  # fmt: skip
"""Encodings that are accepted without a registered counter; the estimate is used for them."""

MACHINE_BYTES_PER_TOKEN: Final = 2.0
PROSE_BYTES_PER_TOKEN: Final = 3.5

_counters: dict[str, TokenCounter] = {}


def register_counter(encoding: str, count: TokenCounter) -> Callable[[], None]:
    """Register `count` as the token counter of `encoding`; return a function that undoes it."""
    if not encoding or not callable(count):
        raise UsageError("Expected the name of an encoding and a callable that returns the token count of a text")
    before = _counters.get(encoding)
    _counters[encoding] = count

    def undo() -> None:
        if before is None:
            _counters.pop(encoding, None)
        else:
            _counters[encoding] = before

    return undo


def known_encodings() -> list[str]:
    """Return every encoding that can be counted or estimated."""
    return sorted(KNOWN_ENCODINGS | _counters.keys())


def find_counter(encoding: str | None) -> TokenCounter | None:
    """Return the counter of an encoding, or `None` if only the estimate is available.

    Raises:
        ArtifactQueryError: The encoding is unknown.
    """
    if encoding is None or encoding in _counters:
        return _counters.get(encoding) if encoding else None
    if encoding in KNOWN_ENCODINGS:
        return None
    known = ", ".join(known_encodings())
    raise ArtifactQueryError(f"unknown encoding {encoding!r}; leave it out for an estimate, or use one of: {known}")


def estimate_from_bytes(byte_length: int, *, prose: bool) -> int:
    """Estimate the token count of `byte_length` bytes of UTF-8."""
    return ceil(byte_length / (PROSE_BYTES_PER_TOKEN if prose else MACHINE_BYTES_PER_TOKEN))


def is_prose(sample: str) -> bool:
    """Return whether a sample looks like prose, judged by its share of letters and spaces.

    Scripts without spaces between words count as machine text: they take more tokens per byte.
    """
    if not sample or sample.lstrip()[:1] in ("{", "[", "<"):
        return False
    letters = sum(map(str.isalpha, sample))
    spaces = sample.count(" ") + sample.count("\n")
    return letters + spaces > 0.9 * len(sample) and spaces > 0.1 * len(sample)
