import pytest

from spindle.artifacts.backends.memory import BytesReader
from spindle.artifacts.spool import Spool

pytestmark = pytest.mark.anyio


async def test_text_and_its_bytes_read_alike() -> None:
    for data in ("é\nb", "é\nb".encode()):
        assert await BytesReader(data).read_lines(0, 9) == ["é", "b"]


async def test_a_reader_outlives_the_deletion_of_its_artifact() -> None:
    spool = Spool.memory()
    reader = await spool.write("id", "still here")

    await spool.delete("id")

    assert await reader.read_all() == b"still here"


async def test_later_changes_of_a_buffer_do_not_reach_the_artifact() -> None:
    buffer = bytearray(b"before")
    reader = await Spool.memory().write("id", buffer)

    buffer[:] = b"after!"

    assert await reader.read_all() == b"before"
