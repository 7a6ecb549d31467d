import anyio
import pytest

from spindle.artifacts.backends.memory import BytesReader
from spindle.artifacts.backends.temporary_file import temporary_copy

pytestmark = pytest.mark.anyio


async def test_the_file_goes_with_the_block() -> None:
    async with BytesReader(b"a\nb").local_path() as path:
        assert await anyio.Path(path).read_bytes() == b"a\nb"
        assert (await anyio.Path(path).stat()).st_mode & 0o077 == 0

    assert not await anyio.Path(path).exists()


async def test_the_file_goes_when_the_block_fails() -> None:
    seen: list[anyio.Path] = []

    async def fail() -> None:
        async with BytesReader(b"x").local_path() as path:
            seen.append(anyio.Path(path))
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert not await seen[0].exists()


async def test_the_file_goes_when_the_block_is_cancelled() -> None:
    seen: list[anyio.Path] = []

    with anyio.CancelScope() as scope:
        async with BytesReader(b"x").local_path() as path:
            seen.append(anyio.Path(path))
            scope.cancel()
            await anyio.sleep_forever()

    assert not await seen[0].exists()


async def test_large_content_is_copied_a_part_at_a_time() -> None:
    asked: list[int] = []

    def read(start: int, end: int) -> bytes:
        asked.append(end - start)
        return b"x" * (end - start)

    async with temporary_copy(read, 30_000_000) as path:
        assert (await anyio.Path(path).stat()).st_size == 30_000_000

    assert max(asked) < 10_000_000
