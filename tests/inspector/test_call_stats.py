"""Counts of calls equal those that are computed from all calls at once."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.inspector.call_stats import (
    MAX_STRANGE_TOOLS,
    MAX_TOOLS,
    OTHER,
    WINDOWS,
    CallCounts,
    CallStats,
    CountedCall,
    TimeWindow,
    merge_all,
)
from spindle.inspector.durations import BINS, STEP, find_bin

NOW = 1_780_000_000.0
MICROSECONDS = 1_000_000
WEEK = 7 * 86_400


@st.composite
def counted_calls(draw: st.DrawFn) -> CountedCall:
    age = draw(st.one_of(st.integers(-120, 4_000), st.integers(0, 8 * 86_400))) * MICROSECONDS
    started = int(NOW * MICROSECONDS) - age - draw(st.integers(0, 999_999))
    tool = draw(st.sampled_from(("search", "fetch", "write")))
    if draw(st.integers(0, 5)) == 0:
        return CountedCall(tool, started, is_running=draw(st.booleans()))
    return CountedCall(
        tool,
        started,
        started + draw(st.integers(-10, 4_000_000_000)),
        code=draw(st.sampled_from((None, None, "timeout", "invalid_args", "needs_approval"))),
        chars=draw(st.one_of(st.none(), st.integers(0, 10**7))),
        cost_usd=draw(st.one_of(st.none(), st.integers(0, 10**6).map(lambda micros: micros / 10**6))),
    )


def get_ms(call: CountedCall) -> float:
    assert call.ended_at is not None
    return max(0, call.ended_at - call.started_at) / 1000


def check(counts: CallCounts, calls: list[CountedCall]) -> None:
    all_ended = [call for call in calls if call.ended_at is not None]
    ended = [call for call in all_ended if call.code != "needs_approval"]
    failed = [call.code for call in ended if call.code is not None]
    assert counts.calls == len(calls)
    assert counts.running == sum(call.is_running for call in calls)
    assert counts.interrupted == len(calls) - len(all_ended) - counts.running
    assert counts.asked == len(all_ended) - len(ended)
    assert (counts.errors, dict(counts.codes)) == (len(failed), dict(Counter(failed)))
    assert counts.chars == sum(call.chars or 0 for call in ended)
    assert counts.cost_nanodollars == sum(round((call.cost_usd or 0) * 10**9) for call in ended)
    durations = sorted(get_ms(call) for call in ended)
    assert counts.durations.max_ms == (durations[-1] if durations else None)
    for share in (0.01, 0.5, 0.95, 1):
        found = counts.durations.find_quantile(share)
        if not durations:
            assert found is None
            continue
        exact = durations[max(1, math.ceil(share * len(durations))) - 1]
        assert found is not None
        # Everything up to the end of the first bin, and everything from the start of the last one, is alike.
        most = durations[-1] if find_bin(exact) == BINS - 1 else max(exact * STEP, 0.05) + 0.001
        assert min(exact, 1_000_000) / STEP - 0.051 <= found <= most


def select(calls: list[CountedCall], window: TimeWindow) -> list[CountedCall]:
    last = int(NOW // window.slot_seconds)
    return [
        call for call in calls if 0 <= last - call.started_at // (window.slot_seconds * MICROSECONDS) < window.slots
    ]


@given(st.lists(counted_calls(), max_size=40), st.data())
def test_counts_equal_those_of_all_calls_at_once(calls: list[CountedCall], data: st.DataObject) -> None:
    stats = CallStats()
    # Some calls are seen while they run, and end later, in any order.
    is_late = data.draw(st.lists(st.booleans(), min_size=len(calls), max_size=len(calls)))
    late: list[tuple[CountedCall, tuple[str | None, ...]]] = []
    for call, ends_late in zip(calls, is_late, strict=True):
        if ends_late and not call.is_running:
            running = CountedCall(call.tool, call.started_at, is_running=True)
            late.append((call, stats.add(running, NOW)))
        else:
            stats.add(call, NOW)
    for call, names in data.draw(st.permutations(late)):
        stats.add_end(call, names)

    for window in WINDOWS:
        found = stats.windows[window.name]
        expected = select(calls, window)
        slots = found.list_slots(NOW)
        first, _ = found.get_range(NOW)
        assert len(slots) == window.slots
        for place, counts in enumerate(slots):
            slot = first + place
            check(counts, [c for c in expected if c.started_at // (window.slot_seconds * MICROSECONDS) == slot])
        check(merge_all(slots), expected)
        tools = dict(found.list_tools(NOW))
        assert set(tools) == {call.tool for call in expected}
        for tool, counts in tools.items():
            check(counts, [call for call in expected if call.tool == tool])


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.name)
def test_calls_leave_a_window_and_their_memory_is_released(window: TimeWindow) -> None:
    stats = CallStats()
    for step in range(3 * window.slots):
        now = NOW + step * window.slot_seconds
        stats.add(CountedCall(f"tool {step // window.slots}", int(now * MICROSECONDS)), now)

    found, now = stats.windows[window.name], NOW + (3 * window.slots - 1) * window.slot_seconds
    assert [counts.calls for counts in found.list_slots(now)] == [1] * window.slots
    assert [(name, counts.calls) for name, counts in found.list_tools(now)] == [("tool 2", window.slots)]
    assert len(found._total) <= window.slots  # pyright: ignore[reportPrivateUsage] - what it keeps


def test_a_call_that_ends_after_it_left_the_window_is_not_counted() -> None:
    stats = CallStats()
    start = int(NOW * MICROSECONDS)
    names = stats.add(CountedCall("slow", start, is_running=True), NOW)
    later = NOW + 2 * 3_600
    stats.add(CountedCall("other", int(later * MICROSECONDS)), later)
    stats.add_end(CountedCall("slow", start, start + 7_200 * MICROSECONDS), names)

    assert [name for name, _ in stats.windows["1h"].list_tools(later)] == ["other"]
    (slow,) = [counts for name, counts in stats.windows["6h"].list_tools(later) if name == "slow"]
    assert (slow.running, slow.durations.max_ms) == (0, 7_200_000)


def test_tools_beyond_the_limit_are_counted_together() -> None:
    stats = CallStats(lambda tool: tool.startswith("known"))
    for number in range(500):
        stats.add(CountedCall(f"invented {number}", int(NOW * MICROSECONDS)), NOW)
    for number in range(500):
        stats.add(CountedCall(f"known {number}", int(NOW * MICROSECONDS)), NOW)
    stats.add(CountedCall("x" * 100_000, int(NOW * MICROSECONDS)), NOW)

    tools = dict(stats.windows["1h"].list_tools(NOW))
    assert len(tools) <= MAX_TOOLS + 1
    assert sum(name.startswith("invented") for name in tools) == MAX_STRANGE_TOOLS
    assert tools[OTHER].calls == 1_001 - sum(counts.calls for name, counts in tools.items() if name != OTHER)
    assert sum(map(len, tools)) < 10_000


def test_codes_beyond_the_limit_are_counted_together() -> None:
    stats = CallStats()
    moment = int(NOW * MICROSECONDS)
    for number in range(100):
        stats.add(CountedCall("one", moment, moment, code=f"code {number}"), NOW)
    ((_, counts),) = stats.windows["1h"].list_tools(NOW)
    assert (counts.errors, len(counts.codes)) == (100, 17)
    assert counts.codes[OTHER] == 84
