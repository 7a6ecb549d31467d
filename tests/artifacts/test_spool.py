import json
import sys
from pathlib import Path

import anyio
import pytest

from spindle.artifacts.spool import Spool
from spindle.errors import MissingExtraError, UsageError

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


@pytest.fixture(params=["memory", "files", "objects"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Spool:
    match request.param:
        case "memory":
            return Spool.memory()
        case "files":
            return Spool.files(tmp_path)
        case _:
            return Spool.objects("memory:///")


@pytest.mark.parametrize("url", ["nonsense", "ftp://host/x", "s3:///", ""])
def test_a_url_that_names_no_object_store_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Spool.objects(url)

    assert caught.value.field == "url"


def test_an_unknown_option_is_refused_and_no_key_is_shown() -> None:
    with pytest.raises(UsageError) as caught:
        Spool.objects("s3://bucket", secret_access_key="hidden-key", bogus=1)

    assert "hidden-key" not in str(caught.value)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)

    with pytest.raises(MissingExtraError) as caught:
        Spool.objects("memory:///")

    assert ".[objects]" in str(caught.value)


def test_one_spool_serves_one_event_loop_after_another(tmp_path: Path) -> None:
    spool = Spool.files(tmp_path)

    async def write_and_read(name: str) -> bytes:
        return await (await spool.write(name, name * 100_000)).read_all()

    for loop in ("asyncio", "trio", "asyncio"):
        assert anyio.run(write_and_read, loop, backend=loop) == loop.encode() * 100_000


async def test_naughty_strings_are_ids_and_contents_like_any_other(spool: Spool, shared_data: Path) -> None:
    naughty: list[str] = json.loads((shared_data / "naughty-strings" / "blns.json").read_text(encoding="utf-8"))
    names = sorted(set(naughty))[:120]

    for name in names:
        await spool.write(name, name)

    for name in names:
        reader = await spool.read(name)
        assert reader is not None
        assert (await reader.read_all()).decode() == name
        assert await reader.read_lines(0, 99) == (name.removeprefix("\ufeff").split("\n") if name else [])
    assert (await spool.stats()).count == len(names)


async def test_pruning_spares_an_id_that_was_written_again_meanwhile(spool: Spool) -> None:
    await spool.write("id", "old")
    (chosen,) = await spool._store.entries()  # pyright: ignore[reportPrivateUsage] - the race has no public door
    await spool.write("id", "new")

    assert await spool._store.delete("id", version=chosen.version) is False  # pyright: ignore[reportPrivateUsage]
    reader = await spool.read("id")
    assert reader is not None
    assert await reader.read_all() == b"new"
