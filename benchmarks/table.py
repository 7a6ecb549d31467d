"""The measurements as a table of plain text."""

from collections.abc import Iterable
from statistics import median

from benchmarks.harness import Measurement

HEADER = ("benchmark", "floor", "subject", "median", "p95", "aim", "")
VERDICTS = {True: "met", False: "MISSED", None: ""}


def row(measurement: Measurement) -> tuple[str, ...]:
    """One measurement, as the cells under `HEADER`."""
    benchmark = measurement.benchmark
    faster = " faster" if benchmark.direction == "at least" else ""
    return (
        benchmark.name,
        duration(median(measurement.floor)),
        duration(median(measurement.subject)),
        times(measurement.ratio),
        times(measurement.p95_ratio),
        "" if benchmark.aim is None else f"{benchmark.direction} {times(benchmark.aim)}{faster}",
        VERDICTS[measurement.met],
    )


def render(rows: Iterable[tuple[str, ...]]) -> str:
    """Rows under the header, each column as wide as its widest cell, numbers to the right."""
    cells = [HEADER, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if 0 < place < 5 else cell.ljust(width) for place, (cell, width) in enumerate(pairs)
        )
        for pairs in (zip(line, widths, strict=True) for line in cells)
    ]
    return "\n".join(line.rstrip() for line in lines)


def duration(seconds: float) -> str:
    """A duration in the unit in which it reads best."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def times(ratio: float) -> str:
    """A ratio, with as many digits as mean something."""
    return f"{ratio:.0f} x" if ratio >= 100 else f"{ratio:.2f} x"
