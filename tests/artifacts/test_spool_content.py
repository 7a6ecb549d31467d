from collections.abc import AsyncIterator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.spool import PIECE_BYTES, Content, iter_pieces
from spindle.errors import UsageError

pytestmark = pytest.mark.anyio


async def collect(content: Content) -> list[bytes]:
    return [piece async for piece in iter_pieces(content)]


@given(parts=st.lists(st.one_of(st.text(max_size=5), st.binary(max_size=5)), max_size=20))
def test_parts_are_joined_in_order(parts: list[str | bytes]) -> None:
    whole = b"".join(part.encode() if isinstance(part, str) else part for part in parts)

    assert b"".join(anyio.run(collect, parts)) == whole


@pytest.mark.parametrize(
    "content", ["é" * 2_000_000, b"x" * 4_000_001, bytearray(3_000_000), memoryview(b"ab" * 2_000_000)]
)
async def test_large_content_comes_in_bounded_pieces(content: str | bytes | bytearray | memoryview) -> None:
    found = await collect(content)

    assert b"".join(found) == (content.encode() if isinstance(content, str) else bytes(content))
    assert len(found) > 1
    assert all(0 < len(piece) <= PIECE_BYTES for piece in found)


async def test_small_parts_are_joined_before_they_are_written() -> None:
    assert [len(piece) for piece in await collect(["line\n"] * 300_000)] == [
        PIECE_BYTES,
        300_000 * 5 - PIECE_BYTES,
    ]


async def test_a_view_of_wide_numbers_is_taken_as_its_bytes() -> None:
    assert await collect(memoryview(b"12345678").cast("I")) == [b"12345678"]


async def test_a_stream_left_early_is_closed() -> None:
    closed = anyio.Event()

    async def stream() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * PIECE_BYTES
        finally:
            closed.set()

    source = iter_pieces(stream())
    await anext(source)
    await source.aclose()

    assert closed.is_set()


@pytest.mark.parametrize("content", [None, 7, {"a": 1}, [None], [[b"x"]]])
async def test_values_other_than_text_and_bytes_are_refused(content: Content) -> None:
    with pytest.raises(UsageError):
        await collect(content)
