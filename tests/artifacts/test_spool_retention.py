from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.spool import SpoolEntry, compute_stats, select_overdue


def entry(name: str, created_at: float, byte_length: int) -> SpoolEntry:
    return SpoolEntry(id=name, turn_id=None, byte_length=byte_length, created_at=created_at, version="v")


entries = st.lists(st.builds(entry, st.uuids().map(str), st.integers(0, 100), st.integers(0, 50)), max_size=15)


@given(kept=entries, max_bytes=st.integers(0, 300), max_age=st.integers(0, 120))
def test_what_stays_fits_and_nothing_goes_needlessly(kept: list[SpoolEntry], max_bytes: int, max_age: int) -> None:
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
