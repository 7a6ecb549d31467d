"""`python -m benchmarks`: run every `BENCHMARKS` list of the `bench_*.py` files here, and print one table."""

import sys
from argparse import ArgumentParser
from functools import partial
from importlib import import_module
from pathlib import Path

import anyio

from benchmarks.harness import Benchmark, Measurement, measure
from benchmarks.table import render, row


def discover(folder: Path, wanted: list[str]) -> list[Benchmark]:
    """The benchmarks of the folder, file by file; with `wanted`, those whose name holds one of these texts."""
    modules = [import_module(f"benchmarks.{path.stem}") for path in sorted(folder.glob("bench_*.py"))]
    found: list[Benchmark] = [benchmark for module in modules for benchmark in module.BENCHMARKS]
    return [one for one in found if not wanted or any(text in one.name for text in wanted)]


async def measure_all(benchmarks: list[Benchmark], seconds: float) -> list[Measurement]:
    """Measure one after the other, in one running loop."""
    done: list[Measurement] = []
    for benchmark in benchmarks:
        print(f"… {benchmark.name}", file=sys.stderr, flush=True)
        done.append(await measure(benchmark, seconds=seconds))
    return done


def main(argv: list[str] | None = None) -> int:
    """Print the table; with `--enforce`, fail when an aim is missed."""
    parser = ArgumentParser(prog="python -m benchmarks", description="Ratios to floors measured in the same run.")
    parser.add_argument("names", nargs="*", help="run only the benchmarks whose name holds one of these texts")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each benchmark (default: 2)")
    parser.add_argument("--enforce", action="store_true", help="exit with 1 when an aim is missed")
    options = parser.parse_args(argv)

    benchmarks = discover(Path(__file__).parent, options.names)
    if not benchmarks:
        parser.error("no benchmark has such a name")
    measurements = anyio.run(partial(measure_all, benchmarks, options.seconds))
    print(render(map(row, measurements)))
    missed = [one.benchmark.name for one in measurements if one.met is False]
    print(f"\n{len(measurements)} measured, {len(missed)} missed" + "".join(f"\n  missed: {name}" for name in missed))
    return 1 if options.enforce and missed else 0


if __name__ == "__main__":
    sys.exit(main())
