from pathlib import Path

import pytest

from spindle.artifacts import Spool
from spindle.artifacts.browsing import SpoolListing
from spindle.artifacts.spool import NoteStamp, SpoolEntry

pytestmark = pytest.mark.anyio


class SlowClock:
    """Time that moves when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "files"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Spool:
    clock = iter(range(10_000))

    def tick() -> float:
        return float(next(clock))

    return Spool.memory(clock=tick) if request.param == "memory" else Spool.files(tmp_path / "spool", clock=tick)


async def collect(listing: SpoolListing, count: int) -> list[str]:
    found: list[str] = []
    after: NoteStamp | None = None
    while True:
        page = await listing.read_page(after=after, count=count)
        found += [entry.id for entry in page.entries]
        if page.next is None:
            return found
        after = page.next


async def test_pages_put_together_give_all_entries_newest_first(spool: Spool) -> None:
    names = [f"turn/{n}" for n in range(23)]
    for name in names:
        await spool.write(name, name * 3)
    found = await collect(SpoolListing(spool), 5)
    assert found == names[::-1]


async def test_a_listing_is_kept_for_a_while(spool: Spool) -> None:
    clock = SlowClock()
    listing = SpoolListing(spool, max_age_seconds=3, clock=clock)
    await spool.write("a", "1")
    assert [entry.id for entry in (await listing.read_page()).entries] == ["a"]
    await spool.write("b", "2")
    assert [entry.id for entry in (await listing.read_page()).entries] == ["a"]
    clock.now = 4
    assert [entry.id for entry in (await listing.read_page()).entries] == ["b", "a"]


async def test_an_artifact_that_was_deleted_meanwhile_is_left_out(spool: Spool) -> None:
    for name in "abc":
        await spool.write(name, name)
    listing = SpoolListing(spool, clock=SlowClock())
    await listing.read_page(count=1)
    await spool.delete("b")
    assert [entry.id for entry in (await listing.read_page()).entries] == ["c", "a"]


async def test_a_filter_reads_a_bounded_number_of_notes(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.artifacts.browsing.listing.MAX_READ_NOTES", 10)
    for n in range(30):
        await spool.write(f"{n}", "x")
    listing = SpoolListing(spool)

    async def is_wanted(entry: SpoolEntry) -> bool:
        return entry.id == "0"

    first = await listing.read_page(count=10, is_wanted=is_wanted)
    assert (first.entries, first.count) == ((), 30)
    found: list[str] = []
    after = first.next
    while after is not None:
        page = await listing.read_page(after=after, count=10, is_wanted=is_wanted)
        found += [entry.id for entry in page.entries]
        after = page.next
    assert found == ["0"]


async def test_a_store_that_only_lists_everything_is_paged_too() -> None:
    class PlainStore:
        async def entries(self) -> list[SpoolEntry]:
            return [SpoolEntry(id=f"{n}", turn_id=None, byte_length=1, created_at=n % 3, version="1") for n in range(6)]

    spool = Spool(PlainStore())  # type: ignore[arg-type]  # only lists
    assert await collect(SpoolListing(spool), 4) == ["5", "2", "4", "1", "3", "0"]
