"""Calls over time as the page shows them: one point for each slot of a window, and its tools and errors."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from anyio.lowlevel import checkpoint

from spindle.inspector.call_follower import JournalCounter
from spindle.inspector.call_stats import NANODOLLARS, OTHER, CallCounts, WindowName, merge_all
from spindle.inspector.endpoints import ApiModel
from spindle.json_types import JsonObject

MAX_ERRORS: Final = 50


class CallNumbers(ApiModel):
    """Numbers of some calls; durations are of calls that have ended, in milliseconds."""

    calls: int
    errors: int
    running: int
    interrupted: int
    """Calls without an outcome whose process is gone."""
    asked: int
    """Calls that did not run because they need approval; an approved one is counted again when it runs."""
    p50_ms: float | None
    p95_ms: float | None
    max_ms: float | None
    result_chars: int
    cost_usd: float


class ActivityPoint(CallNumbers):
    """The calls that were started in one slot."""

    at: datetime
    """When the slot begins."""


class ToolActivity(CallNumbers):
    """The calls of one tool."""

    tool: str | None
    """`None` for the tools that are counted together."""


class ErrorCount(ApiModel):
    """How often calls of a tool failed with a code."""

    tool: str | None
    code: str | None
    """`None` for the codes that are counted together."""
    count: int


class JournalProgress(ApiModel):
    """How far the journal was read; until it was, older calls are missing."""

    calls: int
    """How many were read; for a profile, how many of its tools are in the window."""
    counted_from: datetime | None
    """Every call since then is counted; `None` if none was read yet, and for a profile."""
    is_complete: bool
    """Whether every call of the window is counted."""
    is_current: bool
    problem: str | None


class Activity(ApiModel):
    """The calls of one window."""

    window: WindowName
    started_from: datetime
    slot_seconds: int
    points: list[ActivityPoint]
    total: CallNumbers
    tools: list[ToolActivity]
    """The tools that took longest in their slowest twentieth of calls first."""
    errors: list[ErrorCount]
    """The most frequent first."""
    progress: JournalProgress
    revision: int
    """Changes when calls were counted since."""


async def build_activity(
    follower: JournalCounter,
    name: WindowName,
    clock: Callable[[], float] = time.time,
    *,
    is_shown: Callable[[str], bool] | None = None,
) -> Activity:
    """Return the calls of a window that were counted so far.

    With `is_shown`, all numbers are of the calls of these tools; calls that are counted together are left out.
    """
    stats, now = follower.stats.windows[name], clock()
    revision = follower.stats.get_revision(is_shown)
    seconds = stats.window.slot_seconds
    first, last = stats.get_range(now)
    slots = stats.list_slots(now) if is_shown is None else [CallCounts() for _ in range(first, last + 1)]
    tools: list[ToolActivity] = []
    errors: list[ErrorCount] = []
    for tool, by_slot in stats.list_tool_slots(now):
        if is_shown is not None:
            if not is_shown(tool):
                continue
            for slot, each in by_slot.items():
                slots[slot - first].merge(each)
        counts = merge_all(by_slot.values())
        tools.append(ToolActivity(tool=tool or None, **_describe(counts)))
        errors += [
            ErrorCount(tool=tool or None, code=None if code == OTHER else code, count=count)
            for code, count in counts.codes.items()
        ]
        await checkpoint()  # a hundred tools with a hundred slots each take longer than others should wait
    tools.sort(key=lambda each: (-(each.p95_ms or 0), -each.calls, each.tool or ""))
    errors.sort(key=lambda each: (-each.count, each.tool or "", each.code or ""))
    points = [
        ActivityPoint(at=_to_moment((first + place) * seconds), **_describe(counts))
        for place, counts in enumerate(slots)
    ]
    total = CallNumbers(**_describe(merge_all(slots)))
    progress = _describe_progress(follower, first * seconds)
    if is_shown is not None:
        problem = None if progress.problem is None else "the journal cannot be read now; calls may be missing"
        progress = progress.model_copy(update={"calls": total.calls, "counted_from": None, "problem": problem})
    return Activity(
        window=name,
        started_from=_to_moment(first * seconds),
        slot_seconds=seconds,
        points=points,
        total=total,
        tools=tools,
        errors=errors[:MAX_ERRORS],
        progress=progress,
        revision=revision,
    )


def _describe_progress(follower: JournalCounter, start: float) -> JournalProgress:
    known = follower.get_progress()
    counted_from = known.counted_from
    return JournalProgress(
        calls=known.calls,
        counted_from=None if counted_from is None else _to_moment(counted_from),
        is_complete=known.is_complete or (counted_from is not None and counted_from < start),
        is_current=known.is_current,
        problem=known.problem,
    )


def _describe(counts: CallCounts) -> JsonObject:
    durations = counts.durations
    return {
        "calls": counts.calls,
        "errors": counts.errors,
        "running": counts.running,
        "interrupted": counts.interrupted,
        "asked": counts.asked,
        "p50_ms": _round(durations.find_quantile(0.5)),
        "p95_ms": _round(durations.find_quantile(0.95)),
        "max_ms": _round(durations.max_ms),
        "result_chars": counts.chars,
        "cost_usd": counts.cost_nanodollars / NANODOLLARS,
    }


def _round(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 3)


def _to_moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
