"""What a worker process writes to its parent: frames, each a kind, a length and a payload. No I/O."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[b"m", b"r", b"u", b"f"]
MESSAGE: Literal[b"m"] = b"m"
"""Something said on the way: a pickled value."""
RESULT: Literal[b"r"] = b"r"
"""The answer: a pickled value."""
UNSENDABLE: Literal[b"u"] = b"u"
"""There was an answer, but it does not pickle: the name of its type."""
FAILURE: Literal[b"f"] = b"f"
"""What was raised instead: a pickled `Failure`."""

_HEADER = Struct(">cQ")
_KINDS: dict[bytes, Kind] = {b"m": MESSAGE, b"r": RESULT, b"u": UNSENDABLE, b"f": FAILURE}


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception on its way between processes."""

    module: str
    class_name: str
    text: str
    traceback: str
    pickled: bytes | None
    """The exception itself, if it pickles."""


def frame(kind: Kind, payload: bytes) -> bytes:
    """Give the bytes of a frame."""
    return _HEADER.pack(kind, len(payload)) + payload


class FrameReader:
    """Puts frames together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Kind, bytes]]:
        """Give the frames that are complete with `data`.

        Raises:
            ValueError: These are no frames.
        """
        self._pending += data
        while len(self._pending) >= _HEADER.size:
            name, length = _HEADER.unpack_from(self._pending)
            kind = _KINDS.get(name)
            if kind is None:
                raise ValueError(f"no frame begins with {name!r}")
            end = _HEADER.size + length
            if len(self._pending) < end:
                return
            with memoryview(self._pending) as view:
                payload = bytes(view[_HEADER.size : end])
            del self._pending[:end]
            yield kind, payload
