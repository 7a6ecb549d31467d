"""How many tokens a text is worth, without asking anyone.

The estimate is made of bytes: machine text (code, logs, JSON, base64) runs at about two bytes a token, prose at three
and a half. Where exact numbers matter, register a counter for the model's encoding.
"""

from collections.abc import Callable
from math import ceil
from typing import Final, TypeAlias

from spindle.errors import ArtifactQueryError, UsageError

TokenCounter: TypeAlias = Callable[[str], int]

KNOWN_ENCODINGS: Final = frozenset({
    "gpt2", "r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "gemini", "gemma", "llama2", "claude",
})  # fmt: skip
"""Names that are answered by the estimate when no counter was registered for them."""

MACHINE_BYTES_PER_TOKEN: Final = 2.0
PROSE_BYTES_PER_TOKEN: Final = 3.5

_counters: dict[str, TokenCounter] = {}


def register_counter(encoding: str, count: TokenCounter) -> Callable[[], None]:
    """Count tokens of `encoding` with `count` from now on; call the result to undo it."""
    if not encoding or not callable(count):
        raise UsageError("a token counter needs an encoding's name and a function from text to a number")
    before = _counters.get(encoding)
    _counters[encoding] = count

    def undo() -> None:
        if before is None:
            _counters.pop(encoding, None)
        else:
            _counters[encoding] = before

    return undo


def known_encodings() -> list[str]:
    """List every encoding that is answered for now."""
    return sorted(KNOWN_ENCODINGS | _counters.keys())


def counter_for(encoding: str | None) -> TokenCounter | None:
    """Give the counter of an encoding, or `None` where the estimate must do.

    Raises:
        ArtifactQueryError: Nobody knows that encoding.
    """
    if encoding is None or encoding in _counters:
        return _counters.get(encoding) if encoding else None
    if encoding in KNOWN_ENCODINGS:
        return None
    known = ", ".join(known_encodings())
    raise ArtifactQueryError(f"unknown encoding {encoding!r}; leave it out for an estimate, or use one of: {known}")


def estimate(byte_length: int, *, prose: bool) -> int:
    """Estimate the tokens of so many UTF-8 bytes."""
    return ceil(byte_length / (PROSE_BYTES_PER_TOKEN if prose else MACHINE_BYTES_PER_TOKEN))


def is_prose(sample: str) -> bool:
    """Tell sentences from machine text, by their letters and spaces.

    Scripts without spaces between words count as machine text: they cost more tokens a byte.
    """
    if not sample or sample.lstrip()[:1] in ("{", "[", "<"):
        return False
    letters = sum(map(str.isalpha, sample))
    spaces = sample.count(" ") + sample.count("\n")
    return letters + spaces > 0.9 * len(sample) and spaces > 0.1 * len(sample)
