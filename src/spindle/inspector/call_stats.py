"""Calls over time: counts, errors, durations, characters and cost, for windows from minutes to a week.

Each window has a fixed number of time slots and of tools, so that memory does not grow with the journal. A call belongs
to the slot in which it was started; what is known when it ends is added to that slot.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from spindle.calls import ErrCode
from spindle.inspector.durations import DurationHistogram, find_bin

WindowName: TypeAlias = Literal["15m", "1h", "6h", "24h", "7d"]

MAX_TOOLS: Final = 100
"""Tools that are counted by name in a window; calls of others are counted together."""
MAX_STRANGE_TOOLS: Final = 25
"""How many of them may be names that no tool has: models invent names."""
MAX_NAME_CHARS: Final = 200
MAX_CODES: Final = 16
"""Codes that are counted by name for one tool and slot."""
OTHER: Final = ""
"""The name of everything that is counted together."""
NEEDS_APPROVAL: Final[ErrCode] = "needs_approval"
NANODOLLARS: Final = 1_000_000_000
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeWindow:
    """A stretch of time until now, divided into slots."""

    name: WindowName
    slot_seconds: int
    slots: int

    @property
    def seconds(self) -> int:
        """Its length."""
        return self.slot_seconds * self.slots


WINDOWS: Final = (
    TimeWindow(name="15m", slot_seconds=15, slots=60),
    TimeWindow(name="1h", slot_seconds=60, slots=60),
    TimeWindow(name="6h", slot_seconds=300, slots=72),
    TimeWindow(name="24h", slot_seconds=900, slots=96),
    TimeWindow(name="7d", slot_seconds=7_200, slots=84),
)
MAX_SECONDS: Final = max(window.seconds for window in WINDOWS)


class CountedCall(NamedTuple):
    """What is counted of a call; times are microseconds since 1970."""

    tool: str
    started_at: int
    ended_at: int | None = None
    is_running: bool = False
    code: str | None = None
    """`None` unless it failed."""
    chars: int | None = None
    cost_usd: float | None = None


@dataclass(slots=True)
class CallCounts:
    """The calls of one slot, or of several."""

    calls: int = 0
    running: int = 0
    interrupted: int = 0
    """Calls without an outcome whose process is gone."""
    asked: int = 0
    """Calls that did not run because they need approval: they have not failed."""
    errors: int = 0
    chars: int = 0
    cost_nanodollars: int = 0
    durations: DurationHistogram = field(default_factory=DurationHistogram)
    codes: Counter[str] = field(default_factory=Counter[str])
    """Code → failed calls."""

    def add_end(self, end: "_End") -> None:
        """Count what is known of a call that is already counted."""
        if end.ms is None:
            self.running += end.is_running
            self.interrupted += not end.is_running
            return
        if end.code == NEEDS_APPROVAL:
            self.asked += 1
            return
        self.durations.add(end.ms, end.bin)
        self.chars += end.chars
        self.cost_nanodollars += end.cost_nanodollars
        code = end.code
        if code is not None:
            self.errors += 1
            self.codes[code if code in self.codes or len(self.codes) < MAX_CODES else OTHER] += 1

    def merge(self, other: "CallCounts") -> None:
        """Count all calls of another one."""
        self.calls += other.calls
        self.running += other.running
        self.interrupted += other.interrupted
        self.asked += other.asked
        self.errors += other.errors
        self.chars += other.chars
        self.cost_nanodollars += other.cost_nanodollars
        self.durations.merge(other.durations)
        self.codes += other.codes


class _End(NamedTuple):
    """What is added to each slot of a call, computed once for all of them."""

    is_running: bool
    ms: float | None
    bin: int
    chars: int
    cost_nanodollars: int
    code: str | None


def _build_end(call: CountedCall) -> _End:
    if call.ended_at is None:
        return _End(call.is_running, None, 0, 0, 0, None)
    ms = max(0, call.ended_at - call.started_at) / 1000
    cost = 0 if not call.cost_usd else round(call.cost_usd * NANODOLLARS)
    code = call.code if call.code is None or len(call.code) <= MAX_NAME_CHARS else OTHER
    return _End(call.is_running, ms, find_bin(ms), call.chars or 0, cost, code)


class WindowStats:
    """The calls of one window, in total and by tool."""

    def __init__(self, window: TimeWindow, is_known: Callable[[str], bool]) -> None:
        self.window = window
        self._slot_microseconds = window.slot_seconds * _MICROSECONDS
        self._is_known = is_known
        self._total: dict[int, CallCounts] = {}
        self._tools: dict[str, dict[int, CallCounts]] = {}
        self._revisions: Counter[str] = Counter()
        """Tool → how often something of it was counted."""

    def add(self, call: CountedCall, end: _End, now: float) -> str | None:
        """Count a call and return the name under which it is; `None` if it is too old, or of the future."""
        slot = call.started_at // self._slot_microseconds
        last = int(now // self.window.slot_seconds)
        if not last - self.window.slots < slot <= last:
            return None
        total = self._total.get(slot)
        if total is None:
            self._drop_before(last - self.window.slots + 1)
            total = self._total[slot] = CallCounts()
        name = call.tool if call.tool in self._tools else self._choose_name(call.tool)
        slots = self._tools.setdefault(name, {})
        counts = slots.get(slot)
        if counts is None:
            counts = slots[slot] = CallCounts()
        for each in (total, counts):
            each.calls += 1
            each.add_end(end)
        self._revisions[name] += 1
        return name

    def add_end(self, call: CountedCall, end: _End, name: str) -> None:
        """Replace a running call by its end, under the name that `add` has returned."""
        slot = call.started_at // self._slot_microseconds
        for counts in (self._total.get(slot), self._tools.get(name, {}).get(slot)):
            if counts is not None:  # otherwise it has left the window
                counts.running -= 1
                counts.add_end(end)
        if name in self._tools:
            self._revisions[name] += 1

    def get_range(self, now: float) -> tuple[int, int]:
        """Return the numbers of the first and the last slot."""
        last = int(now // self.window.slot_seconds)
        return last - self.window.slots + 1, last

    def list_slots(self, now: float) -> list[CallCounts]:
        """Return the calls of each slot, oldest first."""
        first, last = self.get_range(now)
        return [self._total.get(slot) or CallCounts() for slot in range(first, last + 1)]

    def list_tools(self, now: float) -> Iterator[tuple[str, CallCounts]]:
        """Yield the calls of each tool; `OTHER` has those of the tools without a place of their own."""
        for name, slots in self.list_tool_slots(now):
            yield name, merge_all(slots.values())

    def list_tool_slots(self, now: float) -> Iterator[tuple[str, dict[int, CallCounts]]]:
        """Yield the calls of each tool by the numbers of their slots."""
        first, last = self.get_range(now)
        for name, slots in list(self._tools.items()):
            if found := {slot: each for slot, each in list(slots.items()) if first <= slot <= last}:
                yield name, found

    def get_revision(self, is_shown: Callable[[str], bool]) -> int:
        """Return a number that changes whenever something of these tools was counted."""
        return sum(count for name, count in self._revisions.items() if is_shown(name))

    def _choose_name(self, tool: str) -> str:
        limit = MAX_TOOLS if self._is_known(tool) else MAX_STRANGE_TOOLS
        return tool if len(self._tools) < limit and len(tool) <= MAX_NAME_CHARS else OTHER

    def _drop_before(self, first: int) -> None:
        for slots in (self._total, *self._tools.values()):
            for slot in [each for each in slots if each < first]:
                del slots[slot]
        for name in [name for name, slots in self._tools.items() if not slots]:
            del self._tools[name], self._revisions[name]


class CallStats:
    """The calls of all windows."""

    def __init__(self, is_known: Callable[[str], bool] = lambda _tool: True) -> None:
        self.windows = {window.name: WindowStats(window, is_known) for window in WINDOWS}
        self.revision = 0
        """Changes whenever something was counted."""

    def get_revision(self, is_shown: Callable[[str], bool] | None) -> int:
        """Return a number that changes whenever something of these tools was counted; `None` for all of them."""
        longest = self.windows[WINDOWS[-1].name]
        return self.revision if is_shown is None else longest.get_revision(is_shown)

    def add(self, call: CountedCall, now: float) -> tuple[str | None, ...]:
        """Count a call; what it returns is needed to end it."""
        self.revision += 1
        end = _build_end(call)
        return tuple([stats.add(call, end, now) for stats in self.windows.values()])

    def add_end(self, call: CountedCall, names: tuple[str | None, ...]) -> None:
        """Count the end of a call that was counted as running."""
        self.revision += 1
        end = _build_end(call)
        for stats, name in zip(self.windows.values(), names, strict=True):
            if name is not None:
                stats.add_end(call, end, name)


def merge_all(counts: Iterable[CallCounts]) -> CallCounts:
    """Return the sum of counts."""
    total = CallCounts()
    for each in counts:
        total.merge(each)
    return total
