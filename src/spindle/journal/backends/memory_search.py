"""The order of the calls of a journal in memory, and the search over them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from spindle.journal.entries import Row
from spindle.journal.search import Scan, ScanStep, is_match
from spindle.journal.summaries import SummaryRow, to_summary_row

_MIN_REMOVED = 1_000


class CallOrder:
    """The sequence numbers of calls, oldest first; a call that is stored again becomes the newest."""

    def __init__(self) -> None:
        self._last = 0
        self._seqs: list[int] = []
        self._keys: list[str] = []
        self._by_key: dict[str, int] = {}

    def append(self, key: str) -> None:
        """Give a call the next number."""
        self._last += 1
        self._seqs.append(self._last)
        self._keys.append(key)
        self._by_key[key] = self._last
        # Earlier numbers of repeated calls stay in the lists until there are many.
        if len(self._seqs) > 2 * len(self._by_key) + _MIN_REMOVED:
            self._by_key = dict(sorted(self._by_key.items(), key=lambda item: item[1]))
            self._seqs, self._keys = list(self._by_key.values()), list(self._by_key)

    def get_seq(self, key: str) -> int:
        """Return the number of a call."""
        return self._by_key[key]

    def scan(self, rows: Mapping[str, Row], scan: Scan) -> ScanStep:
        """Run a step of a search over the rows."""
        found: list[SummaryRow] = []
        position, scanned = None, 0
        for seq, key in islice(self._iterate(scan), scan.max_rows):
            position, scanned = seq, scanned + 1
            if self._by_key[key] == seq and is_match(rows[key], scan):
                found.append(to_summary_row(seq, rows[key]))
                if len(found) == scan.limit:
                    return ScanStep(found, position, scanned, is_complete=False)
        return ScanStep(found, position, scanned, is_complete=scanned < scan.max_rows)

    def _iterate(self, scan: Scan) -> Iterator[tuple[int, str]]:
        places: Iterable[int]
        if scan.is_forward:
            places = range(bisect_right(self._seqs, scan.position or 0), len(self._seqs))
        else:
            end = len(self._seqs) if scan.position is None else bisect_left(self._seqs, scan.position)
            places = range(end - 1, -1, -1)
        return ((self._seqs[place], self._keys[place]) for place in places)
