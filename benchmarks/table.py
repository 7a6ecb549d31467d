"""The measurements as a table of plain text."""

from collections.abc import Iterable
from statistics import median
from textwrap import fill

from benchmarks.harness import Benchmark, Measurement, NotMeasured

HEADER = ("benchmark", "floor", "subject", "median", "p95", "aim", "")
VERDICTS = {True: "met", False: "MISSED", None: ""}
UNITS = {"wall": "", "cpu": " CPU", "memory": " memory"}


def row(measured: Measurement | NotMeasured) -> tuple[str, ...]:
    """One measurement, as the cells under `HEADER`."""
    benchmark = measured.benchmark
    name = f"{benchmark.name}{UNITS[benchmark.clock] and ',' + UNITS[benchmark.clock]}"
    if isinstance(measured, NotMeasured):
        return (name, "-", "-", "-", "-", _aim(benchmark), measured.reason)
    amount = size if benchmark.clock == "memory" else duration
    return (
        name,
        amount(median(measured.floor)),
        amount(median(measured.subject)),
        times(measured.ratio),
        times(measured.p95_ratio),
        _aim(benchmark),
        VERDICTS[measured.met],
    )


def _aim(benchmark: Benchmark) -> str:
    faster = " faster" if benchmark.direction == "at least" else ""
    aims = [
        "" if benchmark.aim is None else f"{benchmark.direction} {times(benchmark.aim)}{faster}",
        "" if benchmark.aim_seconds is None else f"at most {duration(benchmark.aim_seconds)}",
    ]
    return ", ".join(filter(None, aims))


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


def summary(measured: Iterable[Measurement | NotMeasured]) -> str:
    """How many were measured, and the aims that were missed or could not be measured, each with its note."""
    rows = list(measured)
    done = [one for one in rows if isinstance(one, Measurement)]
    missed = [one for one in done if one.met is False]
    absent = [one for one in rows if isinstance(one, NotMeasured)]
    met = sum(one.met is True for one in done)
    lines = [f"{len(done)} measured: {met} aims met, {len(missed)} missed; {len(absent)} not measured"]
    for one in missed:
        lines.append(f"  MISSED {one.benchmark.name}: {times(one.ratio)}, aim {_aim(one.benchmark)}")
        if one.benchmark.note:
            indent = " " * 9
            lines.append(fill(one.benchmark.note, 118, initial_indent=indent, subsequent_indent=indent))
    lines += [f"  not measured: {one.benchmark.name}: {one.reason}" for one in absent]
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """A duration in the unit in which it reads best."""
    for unit, size_of_unit in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size_of_unit:
            return f"{seconds / size_of_unit:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def size(amount: float) -> str:
    """A number of bytes in the unit in which it reads best."""
    for unit, size_of_unit in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if amount >= size_of_unit:
            return f"{amount / size_of_unit:.3g} {unit}"
    return f"{amount:.0f} B"


def times(ratio: float) -> str:
    """A ratio, with as many digits as mean something."""
    return f"{ratio:.0f} x" if ratio >= 100 else f"{ratio:.2f} x"
