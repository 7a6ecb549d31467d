"""Masking of secrets in a stream of bytes."""

from typing import Protocol

from spindle.capabilities.secrets.secret import Span, mask_spans


class FindSpans(Protocol):
    """A function that finds the secrets in bytes."""

    def __call__(self, data: bytes, /) -> list[Span]:
        """Return where secrets are, in order and without overlaps."""
        ...


class MaskedStream:
    """Masks the secrets in a stream of bytes, also those that are split between two pieces."""

    def __init__(self, find: "FindSpans", mask: bytes, *, overlap_bytes: int) -> None:
        self._find, self._mask, self._overlap_bytes = find, mask, overlap_bytes
        self._held = b""
        self.has_masked = False
        """Whether a secret was found so far."""

    def feed(self, piece: bytes) -> bytes:
        """Return what can be passed on after this piece; the end is held back, because a secret may begin in it."""
        self._held += piece
        if len(self._held) < 2 * self._overlap_bytes:
            return b""
        return self._release(len(self._held) - self._overlap_bytes)

    def close(self) -> bytes:
        """Return the rest."""
        return self._release(len(self._held))

    def _release(self, end: int) -> bytes:
        data = self._held
        spans = self._find(data)
        end = next((start for start, stop in spans if start < end < stop), end)
        self._held = data[end:]
        done = [span for span in spans if span[1] <= end]
        self.has_masked = self.has_masked or bool(done)
        return mask_spans(data[:end], done, self._mask)
