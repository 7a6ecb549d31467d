"""Pictures of the page as small PNG files: a browser writes 24 bits for each pixel, of which few are different."""

import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import chain

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: 3, 6: 4}
"""Of the colour types that browsers write."""
MAX_COLOURS = 256


def read_chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the kind and the content of each chunk."""
    position = len(_SIGNATURE)
    while position < len(png):
        length = int.from_bytes(png[position : position + 4], "big")
        yield png[position + 4 : position + 8], png[position + 8 : position + 8 + length]
        position += length + 12


def count_rows(png: bytes) -> int:
    """Return how many different rows of pixels a picture has: a blank one has a few."""
    stride, packed = _get_stride(png), _unpack(png)
    return len({packed[start : start + stride + 1] for start in range(0, len(packed), stride + 1)})


def reduce_colours(png: bytes) -> bytes:
    """Return the picture with its most frequent colours, and the others replaced by the nearest of them."""
    channels = _CHANNELS[png[25]]
    rows = [list(zip(*(row[each::channels] for each in range(3)), strict=True)) for row in _decode(png)]
    counted = Counter(chain.from_iterable(rows))
    palette = _choose_palette(counted)
    nearest = {colour: _find_nearest(palette, colour) for colour in counted}
    pixels = b"".join(b"\0" + bytes(nearest[colour] for colour in row) for row in rows)
    header = png[16:24] + bytes((8, 3, 0, 0, 0))  # eight bits for each pixel, an index of the palette
    parts = [
        (b"IHDR", header),
        (b"PLTE", b"".join(map(bytes, palette))),
        (b"IDAT", zlib.compress(pixels, 9)),
        (b"IEND", b""),
    ]
    return _SIGNATURE + b"".join(_write_chunk(kind, content) for kind, content in parts)


def _choose_palette(counted: "Counter[tuple[int, ...]]") -> list[tuple[int, ...]]:
    """Return one colour of each region of the colour space, so that a red dot stays red, and the most frequent ones."""
    regions: dict[tuple[int, ...], tuple[int, ...]] = {}
    for colour, _ in counted.most_common():
        regions.setdefault(tuple(value >> 5 for value in colour), colour)
    chosen = dict.fromkeys(list(regions.values())[: MAX_COLOURS // 2])
    for colour, _ in counted.most_common(MAX_COLOURS):
        if len(chosen) < MAX_COLOURS:
            chosen[colour] = None
    return list(chosen)


def _find_nearest(palette: list[tuple[int, ...]], colour: tuple[int, ...]) -> int:
    return min(
        range(len(palette)), key=lambda index: sum((a - b) ** 2 for a, b in zip(palette[index], colour, strict=True))
    )


def _write_chunk(kind: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")


def _get_stride(png: bytes) -> int:
    return int.from_bytes(png[16:20], "big") * _CHANNELS[png[25]]


def _unpack(png: bytes) -> bytes:
    return zlib.decompress(b"".join(content for kind, content in read_chunks(png) if kind == b"IDAT"))


def _decode(png: bytes) -> Iterator[bytearray]:
    """Yield the bytes of each row, by the five filters of PNG."""
    stride, packed, step = _get_stride(png), _unpack(png), _CHANNELS[png[25]]
    above = bytearray(stride)
    for start in range(0, len(packed), stride + 1):
        kind, row = packed[start], bytearray(packed[start + 1 : start + stride + 1])
        for index in range(stride) if kind else ():
            left, corner = (row[index - step], above[index - step]) if index >= step else (0, 0)
            up = above[index]
            guess = (0, left, up, (left + up) // 2, 0)[kind] if kind < 4 else _guess(left, up, corner)
            row[index] = (row[index] + guess) & 255
        above = row
        yield row


def _guess(left: int, up: int, corner: int) -> int:
    by_left, by_up, by_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    if by_left <= by_up and by_left <= by_corner:
        return left
    return up if by_up <= by_corner else corner
