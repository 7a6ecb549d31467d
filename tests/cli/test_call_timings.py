"""The lines that `spindle journal show` prints of a call's way through its batch."""

from datetime import UTC, datetime

from spindle.cli.call_timings import describe_timing
from spindle.journal import JournalEntry


def build_entry(timing: str | None) -> JournalEntry:
    waits = [{"kind": "locks", "from": 1000, "to": 3000, "names": ["file:\x1b[31m"]}]
    events = [{"kind": "progress", "at": 1_500_000, "text": "half\nway"}]
    return JournalEntry(
        tool_call_id="c1",
        tool="t",
        checksum="c",
        idempotency_key="k",
        state="finished",
        args={},
        started_at=datetime(2026, 11, 18, tzinfo=UTC),
        attempts=1,
        result={} if timing is None else {"timing": timing, "waits": waits, "events": events},
        result_chars=4_000,
    )


def test_time_limits_and_events_are_listed_without_control_characters() -> None:
    line = "batch=a1-2 calls=3 written=5000 position=1 share=4000 began=1000 ended=5000 deadline=120000000 truncated"

    assert describe_timing(build_entry(line)) == [
        "call 2 of 3 in batch a1-2: queue 1.0 ms, locks 2.0 ms (file:\\x1b[31m), handler 2.0 ms",
        "deadline at 120.00 s, 4,000 characters of a share of 4,000, truncated",
        "1.50 s  progress  half\\nway",
    ]


def test_a_call_without_timing_has_no_lines() -> None:
    assert describe_timing(build_entry(None)) == []
