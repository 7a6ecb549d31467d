"""The timing of a call is read back from the journal, from any version."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spindle.execution import CallEvent, CallSpan, CallTiming
from spindle.journal import JournalEntry

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
LINE = (
    "batch=a1-2 calls=3 batch_deadline=9000000 admitted=100 intent=200..700 fit=6000..6500 written=6600 "
    "position=1 share=400 began=1000 ended=5000 deadline=8000000 truncated"
)


def build_entry(result: Any) -> JournalEntry:
    return JournalEntry(
        tool_call_id="c1",
        tool="t",
        checksum="c",
        idempotency_key="k",
        state="finished",
        args={},
        started_at=NOON,
        attempts=1,
        result=result,
        result_chars=390,
    )


def test_a_recorded_line_becomes_spans_in_order() -> None:
    wait = {"kind": "locks", "from": 1100, "to": 3000, "names": ["file:a"]}
    event = {"kind": "progress", "at": 4000, "text": "half"}
    timing = CallTiming.read(build_entry({"timing": LINE, "waits": [wait], "events": [event]}))

    assert timing is not None
    assert timing.spans == (
        CallSpan(kind="admission", start_ms=0.0, end_ms=0.1),
        CallSpan(kind="journal", start_ms=0.2, end_ms=0.7),
        CallSpan(kind="queue", start_ms=0.7, end_ms=1.0),
        CallSpan(kind="preparation", start_ms=1.0, end_ms=1.1),
        CallSpan(kind="locks", start_ms=1.1, end_ms=3.0, names=("file:a",)),
        CallSpan(kind="handler", start_ms=3.0, end_ms=5.0),
        CallSpan(kind="batch", start_ms=5.0, end_ms=6.0),
        CallSpan(kind="fit", start_ms=6.0, end_ms=6.5),
    )
    assert timing.events == (CallEvent(kind="progress", text="half", at_ms=4.0),)
    assert (timing.batch_id, timing.batch_calls, timing.position) == ("a1-2", 3, 1)
    assert (timing.started_ms, timing.ended_ms, timing.written_ms) == (3.0, 5.0, 6.6)
    assert (timing.deadline_ms, timing.batch_deadline_ms) == (8000.0, 9000.0)
    assert (timing.share_chars, timing.used_chars, timing.is_truncated, timing.is_spooled) == (400, 390, True, False)
    assert (NOON - timing.began_at).total_seconds() == 0.0002


def test_a_call_of_an_older_version_has_no_timing() -> None:
    assert CallTiming.read(build_entry({"value": "x"})) is None
    assert CallTiming.read(build_entry(None)) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["kind", "from", "to", "at"]), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["calls", "position", "began", "ended", "started", "answered", "written", "intent", "fit", "share"]
)
FACTS = st.tuples(NAMES, st.integers(-5, 1 << 70).map(str) | st.just("3..1") | st.text(max_size=5)).map("=".join)


@given(facts=st.lists(FACTS, max_size=10), waits=JSON, events=JSON)
def test_no_content_of_a_journal_breaks_the_reader(facts: list[str], waits: Any, events: Any) -> None:
    timing = CallTiming.read(build_entry({"timing": " ".join(["batch=x", *facts]), "waits": waits, "events": events}))

    assert timing is not None
    assert all(isinstance(span.start_ms, float) for span in timing.spans)


@given(line=JSON)
def test_a_line_that_is_none_has_no_timing(line: Any) -> None:
    timing = CallTiming.read(build_entry({"timing": line}))

    assert timing is None or "batch=" in line
