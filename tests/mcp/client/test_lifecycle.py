from hypothesis import given
from hypothesis import strategies as st

from spindle.mcp.client.lifecycle import MAX_WAIT_SECONDS, Backoff


def test_each_wait_is_twice_the_last_up_to_the_cap() -> None:
    backoff = Backoff(jitter=lambda: 1.0)

    assert [backoff.record_failure() for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_jitter_reduces_a_wait_by_at_most_a_half() -> None:
    assert Backoff(jitter=lambda: 0.0).record_failure() == 0.5


def test_thousands_of_failures_keep_the_wait_at_the_cap() -> None:
    assert Backoff(failures=100_000, jitter=lambda: 1.0).record_failure() == MAX_WAIT_SECONDS


@given(st.lists(st.booleans(), max_size=40))
def test_a_success_starts_the_waits_again(failures: list[bool]) -> None:
    backoff, in_a_row = Backoff(), 0
    for failed in failures:
        if not failed:
            backoff.reset()
            in_a_row = 0
            continue
        longest = min(2**in_a_row, MAX_WAIT_SECONDS)
        assert longest / 2 <= backoff.record_failure() <= longest
        in_a_row += 1
