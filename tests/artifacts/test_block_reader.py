import anyio
import pytest

from spindle.artifacts.backends.memory import BytesReader
from spindle.artifacts.readers import MAX_TEXT_BYTES, Match, Search, SpoolReader

pytestmark = pytest.mark.anyio


async def test_context_that_is_too_long_is_cut() -> None:
    long = "é" * 3_000_000
    reader = BytesReader(f"{long}\n{long}\nneedle\n{long}\nend")

    before, match, after, end = await reader.search(Search(pattern="^needle$", before=1, after=2))

    assert match == Match(2, "needle")
    assert end == Match(4, "end")
    for context in (before, after):
        assert context.is_context
        assert context.text.startswith("éé")
        assert len(context.text.encode()) < MAX_TEXT_BYTES + 100


async def test_a_byte_order_mark_is_left_out_of_context_too() -> None:
    reader = BytesReader("\ufefffirst\nsecond")

    assert await reader.search(Search(pattern="second", before=5)) == [Match(0, "first"), Match(1, "second")]


async def test_a_search_can_be_cancelled_between_two_steps() -> None:
    reader = BytesReader(b"x" * 80_000_000)

    with anyio.move_on_after(0) as scope:
        await reader.search(Search(pattern="[yz]x*$"))

    assert scope.cancelled_caught


async def test_a_reader_has_the_shape_that_artifacts_ask_for() -> None:
    assert isinstance(BytesReader(b""), SpoolReader)
    assert not isinstance("text", SpoolReader)


async def test_chunks_can_be_read_repeatedly() -> None:
    reader = BytesReader(b"0123456789")

    assert [chunk async for chunk in reader.chunks(4)] == [chunk async for chunk in reader.chunks(4)]
    assert [chunk async for chunk in BytesReader(b"").chunks()] == []
