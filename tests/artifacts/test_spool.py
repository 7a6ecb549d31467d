import json
import sys
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.readers import build_line_index
from spindle.artifacts.spool import Manifest, Spool, SpoolEntry, compute_stats, select_overdue, to_file_name
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


@pytest.mark.slow
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


any_text = st.text(alphabet=st.characters(exclude_categories=[]))


def manifest(name: str = "id", turn_id: str | None = None, data: bytes = b"a\nb") -> Manifest:
    return Manifest(id=name, turn_id=turn_id, created_at=1.5, version="v1", index=build_line_index(data))


@given(name=any_text, turn_id=st.one_of(st.none(), any_text), blocks=st.integers(0, 3))
def test_a_note_is_read_back_as_it_was(name: str, turn_id: str | None, blocks: int) -> None:
    note = manifest(name, turn_id, b"line\n" * 13_108 * blocks)

    assert Manifest.from_bytes(note.to_bytes()) == note


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_one_wrong_bit_anywhere_is_noticed(place: int, bit: int) -> None:
    data = bytearray(manifest().to_bytes())
    data[place % len(data)] ^= 1 << bit

    assert Manifest.from_bytes(bytes(data)) is None


def test_a_torn_note_is_noticed_at_every_length() -> None:
    data = manifest().to_bytes()

    assert [n for n in range(len(data)) if Manifest.from_bytes(data[:n]) is not None] == []


@given(first=any_text, second=any_text)
def test_names_are_safe_and_only_equal_for_equal_ids(first: str, second: str) -> None:
    assert (to_file_name(first) == to_file_name(second)) == (first == second)
    assert len(to_file_name(first)) == 64
    assert to_file_name(first).isalnum()


def test_ids_that_differ_only_by_case_have_names_that_differ_by_more() -> None:
    assert to_file_name("Call").lower() != to_file_name("call").lower()


def entry(name: str, created_at: float, byte_length: int) -> SpoolEntry:
    return SpoolEntry(id=name, turn_id=None, byte_length=byte_length, created_at=created_at, version="v")


entries = st.lists(st.builds(entry, st.uuids().map(str), st.integers(0, 100), st.integers(0, 50)), max_size=15)


@given(kept=entries, max_bytes=st.integers(0, 300), max_age=st.integers(0, 120))
def test_the_kept_entries_fit_and_no_entry_is_removed_needlessly(
    kept: list[SpoolEntry], max_bytes: int, max_age: int
) -> None:
    gone = select_overdue(kept, max_bytes=max_bytes, max_age_seconds=max_age, now=100)
    stays = [one for one in kept if one not in gone]

    assert sum(one.byte_length for one in stays) <= max_bytes
    assert all(100 - one.created_at <= max_age for one in stays)
    if gone and 100 - gone[-1].created_at <= max_age:
        # The last to go was young enough: it went because the rest did not fit with it.
        assert sum(one.byte_length for one in [*stays, gone[-1]]) > max_bytes
    if gone and stays:
        assert max(one.created_at for one in gone) <= min(one.created_at for one in stays)


def test_no_limit_lets_nothing_go() -> None:
    assert select_overdue([entry("a", 0, 10**12)], max_bytes=None, max_age_seconds=None, now=10**12) == []


def test_the_count_of_nothing_has_no_oldest() -> None:
    stats = compute_stats([])

    assert (stats.count, stats.bytes, stats.oldest) == (0, 0, None)
