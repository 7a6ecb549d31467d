from hypothesis import given
from hypothesis import strategies as st

from spindle.mcp.client.lifecycle import ATTEMPTS, MAX_WAIT_SECONDS, Backoff


def test_each_wait_is_twice_the_last_and_after_five_there_is_none() -> None:
    backoff = Backoff()

    assert [backoff.record_failure() for _ in range(7)] == [1, 2, 4, 8, 16, None, None]


@given(st.lists(st.booleans(), max_size=40))
def test_no_wait_is_longer_than_the_cap_and_a_success_begins_anew(failures: list[bool]) -> None:
    backoff, in_a_row = Backoff(), 0
    for failed in failures:
        if not failed:
            backoff.reset()
            in_a_row = 0
            continue
        in_a_row += 1
        wait = backoff.record_failure()
        assert (wait is None) == (in_a_row > ATTEMPTS)
        assert wait is None or 0 < wait <= MAX_WAIT_SECONDS
