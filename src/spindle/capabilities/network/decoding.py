"""Decoders of content codings that emit small pieces, so that size limits stop decompression bombs. No I/O."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

PIECE_BYTES = 65_536
_MAX_LAYERS = 2


class Decoder(Protocol):
    """An incremental decoder of one content coding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decode `data` and yield the result in pieces.

        Raises:
            ValueError: The data is damaged.
        """
        ...

    def finish(self) -> None:
        """Check that the stream is complete.

        Raises:
            ValueError: The end of the stream is missing.
        """
        ...


def build_decoder(content_encoding: Iterable[str]) -> Decoder | None:
    """Return a decoder for a Content-Encoding header, or None if it names no coding.

    Raises:
        ValueError: A coding is not supported, or there are too many.
    """
    names = [name.strip().lower() for value in content_encoding for name in value.split(",")]
    codings = [name for name in names if name not in {"", "identity"}]
    if len(codings) > _MAX_LAYERS:
        raise ValueError(f"it has {len(codings)} content codings; at most {_MAX_LAYERS} are supported")
    layers: list[Decoder] = []
    for name in reversed(codings):
        if name in {"gzip", "x-gzip"}:
            layers.append(_Gzip())
        elif name == "deflate":
            layers.append(_Deflate())
        else:
            raise ValueError(f"the content coding {name!r} is not supported and was not requested")
    if len(layers) == _MAX_LAYERS:
        return _NestedDecoder(*layers)
    return layers[0] if layers else None


class _Inflater(Protocol):
    """The part of a `zlib.decompressobj()` object that is used here."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Gzip:
    """A decoder for one or more gzip members; zero bytes between and after them are padding."""

    def __init__(self) -> None:
        self._member = _new_member()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._member.eof:
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._member = _new_member()
            self._begun = True
            yield from _inflate(self._member, data)
            data = self._member.unused_data

    def finish(self) -> None:
        if self._begun and not self._member.eof:
            raise ValueError("the gzip body ends too early")


class _Deflate:
    """A decoder for a zlib stream, or a raw deflate stream as some servers send it."""

    def __init__(self) -> None:
        self._head = b""
        self._stream: _Inflater | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None:
            self._head += data
            if len(self._head) < 2:
                return
            data = self._head
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._stream = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        if not self._stream.eof:
            yield from _inflate(self._stream, data)

    def finish(self) -> None:
        ended = self._stream is not None and self._stream.eof
        if self._head and not ended:
            raise ValueError("the deflate body ends too early")


class _NestedDecoder:
    """A decoder for two nested codings."""

    def __init__(self, outer: Decoder, inner: Decoder) -> None:
        self._outer, self._inner = outer, inner

    def feed(self, data: bytes) -> Iterator[bytes]:
        for piece in self._outer.feed(data):
            yield from self._inner.feed(piece)

    def finish(self) -> None:
        self._outer.finish()
        self._inner.finish()


def _new_member() -> _Inflater:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _inflate(stream: _Inflater, data: bytes) -> Iterator[bytes]:
    full = True
    # After a full piece the stream may hold more output even if all input is consumed.
    while (data or full) and not stream.eof:
        try:
            piece = stream.decompress(data, PIECE_BYTES)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        data, full = stream.unconsumed_tail, len(piece) == PIECE_BYTES
        if piece:
            yield piece
