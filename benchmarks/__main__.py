"""`python -m benchmarks`: run every `BENCHMARKS` list of the `bench_*.py` files here, and print one table."""

import sys
from argparse import ArgumentParser
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter

import anyio

from benchmarks.agentdojo import __main__ as agentdojo
from benchmarks.flow_tasks import report as flow_tasks
from benchmarks.harness import Benchmark, Measurement, NotMeasured, measure
from benchmarks.table import render, row, summary
from benchmarks.tokens import render_table

QUICK_SECONDS = 0.2


def discover(folder: Path, wanted: list[str]) -> list[Benchmark]:
    """The benchmarks of the folder, file by file; with `wanted`, those whose name holds one of these texts."""
    modules = [import_module(f"benchmarks.{path.stem}") for path in sorted(folder.glob("bench_*.py"))]
    found: list[Benchmark] = [benchmark for module in modules for benchmark in module.BENCHMARKS]
    return [one for one in found if not wanted or any(text in one.name for text in wanted)]


async def measure_all(benchmarks: list[Benchmark], seconds: float) -> list[Measurement | NotMeasured]:
    """Measure one after the other, in one running loop; a benchmark that fails does not stop the others."""
    done: list[Measurement | NotMeasured] = []
    for benchmark in benchmarks:
        print(f"… {benchmark.name}", file=sys.stderr, flush=True)
        done.append(await measure_one(benchmark, seconds))
        # The table is printed at the end, and a run may be interrupted before.
        print(f"  {'  '.join(filter(None, row(done[-1])[1:]))}", file=sys.stderr, flush=True)
    return done


async def measure_one(benchmark: Benchmark, seconds: float) -> Measurement | NotMeasured:
    """Measure, or return why that was not possible."""
    reason = benchmark.missing() if benchmark.missing else None
    if reason is not None:
        return NotMeasured(benchmark=benchmark, reason=reason)
    try:
        return await measure(benchmark, seconds=seconds)
    except Exception as failed:  # noqa: BLE001 - the other rows are still worth printing
        said = str(failed).strip().splitlines()
        return NotMeasured(benchmark=benchmark, reason=f"FAILED: {type(failed).__name__}: {said[0] if said else ''}")


def main(argv: list[str] | None = None) -> int:
    """Print the tables; with `--enforce`, fail when an aim is missed."""
    parser = ArgumentParser(prog="python -m benchmarks", description="Ratios to floors measured in the same run.")
    parser.add_argument("names", nargs="*", help="run only the benchmarks whose name holds one of these texts")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each benchmark (default: 2)")
    parser.add_argument("--quick", action="store_true", help=f"the same as --seconds {QUICK_SECONDS}: rough figures")
    parser.add_argument("--enforce", action="store_true", help="exit with 1 when an aim is missed")
    options = parser.parse_args(argv)

    began = perf_counter()
    benchmarks = discover(Path(__file__).parent, options.names)
    if not benchmarks:
        parser.error("no benchmark has such a name")
    seconds = QUICK_SECONDS if options.quick else options.seconds
    measured = anyio.run(partial(measure_all, benchmarks, seconds))
    print(render(map(row, measured)))
    print(f"\n{summary(measured)}")
    if not options.names:
        print(f"\n{render_table()}")
        print(f"\n{flow_tasks.render_table(anyio.run(flow_tasks.measure_all))}\n", flush=True)
        agentdojo.print_table()
    print(f"\ntook {(perf_counter() - began) / 60:.1f} minutes", file=sys.stderr)
    is_missed = any(isinstance(one, NotMeasured) or one.met is False for one in measured)
    return 1 if options.enforce and is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
