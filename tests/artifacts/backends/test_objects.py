import gc
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from obstore.store import MemoryStore

from spindle.artifacts.backends.objects import PART_BYTES, ObjectClient, ObjectStore
from spindle.artifacts.spool import Spool
from spindle.errors import ArtifactGoneError, SpoolError

pytestmark = pytest.mark.anyio

NO_SERVER: dict[str, Any] = {
    "endpoint": "http://127.0.0.1:1",
    "access_key_id": "a",
    "secret_access_key": "very-secret",
    "region": "us-east-1",
    "allow_http": True,
    "retry_config": {"max_retries": 0},
}


@pytest.fixture
def objects() -> ObjectClient:
    return ObjectClient(MemoryStore())


def keys(objects: ObjectClient) -> list[str]:
    return sorted(key for folder in ("data", "notes") for key, _ in objects.list_keys(folder))


async def test_bytes_without_their_note_are_not_there(objects: ObjectClient) -> None:
    spool = Spool(ObjectStore(objects))
    await spool.write("id", "x")
    (note,) = [key for key in keys(objects) if key.startswith("notes/")]

    objects.remove([note])

    assert await spool.read("id") is None
    assert (await spool.stats()).count == 0


@pytest.mark.parametrize("damage", ["torn note", "shorter bytes", "no bytes"])
async def test_inconsistent_objects_are_not_read(objects: ObjectClient, damage: str) -> None:
    spool = Spool(ObjectStore(objects))
    await spool.write("id", "0123456789")
    data, note = keys(objects)
    match damage:
        case "torn note":
            objects.put(note, (objects.get(note) or b"")[:-5])
        case "shorter bytes":
            objects.put(data, b"012345678")
        case _:
            objects.remove([data])

    assert await spool.read("id") is None


async def test_bytes_changed_under_a_reader_are_an_error_not_an_answer(objects: ObjectClient) -> None:
    reader = await Spool(ObjectStore(objects)).write("id", "0123456789")
    objects.put(keys(objects)[0], b"0")

    with pytest.raises(SpoolError):
        await reader.read_all()


async def test_an_upload_in_parts_that_fails_leaves_nothing(objects: ObjectClient) -> None:
    async def failing() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * PART_BYTES
        raise LookupError

    with pytest.raises(LookupError):
        await Spool(ObjectStore(objects)).write("id", failing())

    assert keys(objects) == []


async def test_a_deleted_artifact_says_so_to_its_readers(objects: ObjectClient) -> None:
    spool = Spool(ObjectStore(objects))
    old = await spool.write("id", "old")
    new = await spool.write("id", "new")

    await spool.delete("id")

    assert keys(objects) == []
    for reader in (old, new):
        with pytest.raises(ArtifactGoneError):
            await reader.read_all()


async def test_a_replaced_version_is_removed_once_no_reader_has_it(objects: ObjectClient) -> None:
    spool = Spool(ObjectStore(objects, replaced_seconds=-1))
    old = await spool.write("id", "old")
    await spool.write("id", "new")
    await spool.stats()
    assert await old.read_all() == b"old"

    del old
    gc.collect()
    await spool.stats()

    assert len(keys(objects)) == 2


async def test_large_content_goes_up_in_parts_and_comes_back_in_ranges(objects: ObjectClient) -> None:
    line = b"0123456789abcde\n"
    lines = 3 * PART_BYTES // len(line) + 5

    reader = await Spool(ObjectStore(objects)).write("id", (line * 1000 for _ in range(lines // 1000)))

    count = lines // 1000 * 1000
    assert await reader.byte_length() == count * len(line)
    assert await reader.line_count() == count + 1
    assert await reader.read_lines(count - 1, count + 1) == ["0123456789abcde", ""]
    assert sum([len(chunk) async for chunk in reader.chunks()]) == count * len(line)


async def test_a_server_that_is_away_is_an_error_with_advice_and_no_keys() -> None:
    spool = Spool.objects("s3://bucket/prefix", **NO_SERVER)

    with anyio.fail_after(30):
        for act in (spool.write("id", "x"), spool.read("id"), spool.delete("id"), spool.stats()):
            with pytest.raises(SpoolError) as caught:
                await act
            assert "very-secret" not in str(caught.value)
