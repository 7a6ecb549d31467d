"""What a part of the soak found: counted facts, and every promise that was broken."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

MAX_SHOWN = 10


class BrokenPromiseError(AssertionError):
    """A promise was broken; the message has the seed that repeats the run."""


@dataclass(kw_only=True)
class Result:
    """One row of the final table."""

    name: str
    seed: int
    counts: Counter[str] = field(default_factory=Counter[str])
    broken: list[str] = field(default_factory=list[str])

    def expect(self, holds: object, promise: str) -> None:
        """Note a broken promise, so that one run shows all of them."""
        if not holds:
            self.broken.append(promise)

    def check(self) -> None:
        """Raise if a promise was broken.

        Raises:
            BrokenPromiseError: With the seed of the run.
        """
        if self.broken:
            shown = "\n  ".join(self.broken[:MAX_SHOWN])
            raise BrokenPromiseError(f"{self.name}, seed {self.seed}: {len(self.broken)} broken\n  {shown}")


COLUMNS = ("asked", "kills", "restarts", "acknowledged", "effects", "interrupted", "repeated")


def render(results: Sequence[Result]) -> str:
    """Return the table of all parts."""
    rows = [("part", *COLUMNS, "broken")]
    rows += [(each.name, *(f"{each.counts[name]:,}" for name in COLUMNS), str(len(each.broken))) for each in results]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_align(row, widths) for row in rows)


def _align(row: Iterable[str], widths: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
