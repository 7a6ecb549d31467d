"""What may be written to a spool, brought into one form: bounded pieces of bytes. No I/O."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterable, Mapping
from typing import Any, TypeAlias, cast

from spindle.artifacts.lines import encode_text
from spindle.errors import UsageError

Part: TypeAlias = str | bytes | bytearray | memoryview
Content: TypeAlias = Part | Iterable[Part] | AsyncIterable[Part]

PIECE_BYTES = 1 << 20

_WHOLE = (str, bytes, bytearray, memoryview)


async def pieces(content: Content) -> AsyncGenerator[bytes]:
    """Give content as bytes in pieces of at most 1 MiB; small parts are joined, text becomes UTF-8.

    Raises:
        UsageError: The content, or a part of it, is neither text nor bytes.
    """
    joiner = _Joiner()
    if isinstance(content, AsyncIterable):
        stream = aiter(cast("AsyncIterable[object]", content))
        try:
            async for part in stream:
                for piece in joiner.add(part):
                    yield piece
        finally:
            await _close(stream)
    else:
        for part in _parts(content):
            for piece in joiner.add(part):
                yield piece
    if rest := joiner.rest():
        yield rest


async def _close(stream: AsyncIterator[object]) -> None:
    close: Any = getattr(stream, "aclose", None)
    if close is not None:
        await close()


def _parts(content: object) -> Iterable[object]:
    if isinstance(content, _WHOLE):
        return (cast("object", content),)
    # A mapping would quietly lose its values.
    if isinstance(content, Iterable) and not isinstance(content, Mapping):
        return cast("Iterable[object]", content)
    kind = type(cast("object", content)).__name__
    raise UsageError(f"a spool keeps text, bytes, or an iterator of them, not {kind}; turn it into one of these")


class _Joiner:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: object) -> Iterable[bytes]:
        """Take a part; gives what is ready to be written. Most parts are single lines, so this is kept quick."""
        if isinstance(part, str) and len(part) <= PIECE_BYTES:
            data = encode_text(part)
        elif isinstance(part, bytes) and len(part) <= PIECE_BYTES:
            data = part
        else:
            return self._add_large(part)
        self._parts.append(data)
        self._size += len(data)
        return () if self._size < PIECE_BYTES else self._ready()

    def _add_large(self, part: object) -> Generator[bytes]:
        for data in _encoded(part):
            self._parts.append(data)
            self._size += len(data)
            if self._size >= PIECE_BYTES:
                yield from self._ready()

    def _ready(self) -> list[bytes]:
        joined = self.rest()
        whole = len(joined) - len(joined) % PIECE_BYTES
        if whole < len(joined):
            self._parts, self._size = [joined[whole:]], len(joined) - whole
        return [joined[start : start + PIECE_BYTES] for start in range(0, whole, PIECE_BYTES)]

    def rest(self) -> bytes:
        joined = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size = [], 0
        return joined


def _encoded(part: object) -> Generator[bytes]:
    """Give a part as bytes, a bounded slice at a time, so that a huge one is never copied whole."""
    if isinstance(part, str):
        for start in range(0, len(part), PIECE_BYTES):
            yield encode_text(part[start : start + PIECE_BYTES])
    elif isinstance(part, bytes | bytearray | memoryview):
        view = memoryview(cast("bytes", part)).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            yield bytes(view[start : start + PIECE_BYTES])
    else:
        raise UsageError(f"a spool keeps text and bytes; the iterator gave {type(part).__name__}")
