"""Durations of calls, counted in bins of a logarithmic scale, so that any number of calls takes the same memory."""

import math
from array import array
from typing import Final

BINS: Final = 96
FIRST_MS: Final = 0.05
"""The upper end of the first bin."""
STEP: Final = 1.2
"""Each bin ends at this many times the end of the one before: a quantile is off by less than that."""
_LOG_STEP: Final = math.log(STEP)


def find_bin(ms: float) -> int:
    """Return the bin of a duration; the last one has everything above half an hour."""
    if ms <= FIRST_MS:
        return 0
    # A duration at the end of a bin belongs to it, whatever the logarithm is rounded to.
    return min(BINS - 1, math.ceil(math.log(ms / FIRST_MS) / _LOG_STEP - 1e-9))


def get_bin_end(index: int) -> float:
    """Return the longest duration of a bin, in milliseconds."""
    return FIRST_MS * STEP**index


class DurationHistogram:
    """Counts durations; the longest is kept as it is."""

    __slots__ = ("_bins", "_high", "_low", "count", "max_ms")

    def __init__(self) -> None:
        self._bins = array("I", bytes(4 * BINS))
        self._low, self._high = BINS, -1
        self.count = 0
        self.max_ms: float | None = None

    def add(self, ms: float, index: int) -> None:
        """Count a duration, given with its bin: it is counted in many histograms."""
        self._bins[index] += 1
        self.count += 1
        # Without calls of min and max: this runs ten times for each call of the journal.
        if index < self._low:  # noqa: PLR1730
            self._low = index
        if index > self._high:  # noqa: PLR1730
            self._high = index
        if self.max_ms is None or ms > self.max_ms:
            self.max_ms = ms

    def merge(self, other: "DurationHistogram") -> None:
        """Count all durations of another one."""
        if other.max_ms is None:
            return
        for index in range(other._low, other._high + 1):
            self._bins[index] += other._bins[index]
        self._low, self._high = min(self._low, other._low), max(self._high, other._high)
        self.count += other.count
        self.max_ms = other.max_ms if self.max_ms is None else max(self.max_ms, other.max_ms)

    def find_quantile(self, share: float) -> float | None:
        """Return the duration in milliseconds that this share of calls does not exceed; `None` without calls."""
        if self.max_ms is None:
            return None
        left = max(1, math.ceil(share * self.count))
        for index in range(self._low, self._high + 1):
            held = self._bins[index]
            if held >= left:
                start = 0.0 if index == 0 else get_bin_end(index - 1)
                end = self.max_ms if index == self._high else get_bin_end(index)
                # Durations are taken as spread evenly over their bin.
                return min(self.max_ms, start + (end - start) * left / held)
            left -= held
        return self.max_ms
