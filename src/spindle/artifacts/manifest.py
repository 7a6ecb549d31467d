"""What is noted beside stored bytes: whose they are, how long, where their lines begin. No I/O.

The note is published last and names the bytes it belongs to. It carries a digest of itself, so a torn or altered note
is never trusted, and bytes that no note names are never read.
"""

import json
import sys
from array import array
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

from spindle.artifacts.lines import BLOCK_BYTES, LineIndex, encode_text

_MAGIC = b"spindle spool 1\n"
_DIGEST_BYTES = 32


def safe_name(id: str) -> str:
    """Give a file name for an id: its hash, so that no id can point elsewhere and none clash by case or length."""
    return sha256(encode_text(id)).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The note of one stored version."""

    id: str
    turn_id: str | None
    created_at: float
    version: str
    index: LineIndex

    def to_bytes(self) -> bytes:
        """Write the note down."""
        facts = {
            "id": self.id,
            "turn_id": self.turn_id,
            "created_at": self.created_at,
            "version": self.version,
            "byte_length": self.index.byte_length,
        }
        body = _MAGIC + json.dumps(facts).encode() + b"\n" + _little_endian(self.index.newlines).tobytes()
        return body + sha256(body).digest()

    @staticmethod
    def from_bytes(data: bytes) -> "Manifest | None":
        """Read a note; `None` when it is torn, altered, or of another kind."""
        body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if not body.startswith(_MAGIC) or sha256(body).digest() != digest:
            return None
        header, _, counts = body[len(_MAGIC) :].partition(b"\n")
        facts = cast("dict[str, Any]", json.loads(header))
        newlines = array("Q")
        newlines.frombytes(counts)
        blocks = -(-facts["byte_length"] // BLOCK_BYTES)
        if len(newlines) != blocks + 1:
            return None
        return Manifest(
            id=facts["id"],
            turn_id=facts["turn_id"],
            created_at=facts["created_at"],
            version=facts["version"],
            index=LineIndex(facts["byte_length"], _little_endian(newlines)),
        )


def _little_endian(counts: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        return counts
    swapped = counts[:]
    swapped.byteswap()
    return swapped
