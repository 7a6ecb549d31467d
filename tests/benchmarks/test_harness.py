import gc
import subprocess
import sys

import pytest

from benchmarks.__main__ import measure_all
from benchmarks.harness import SLOW_ROUNDS, Benchmark, Fresh, Measurement, NotMeasured, Reported, measure
from benchmarks.meters import CpuTime, PeakMemory
from benchmarks.table import render, row, summary

pytestmark = pytest.mark.anyio


def nothing() -> None:
    """Work that costs nothing."""


class Clock:
    """A clock that only the measured work moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def one_second(self) -> None:
        self.now += 1

    async def hundred_seconds(self) -> None:
        self.now += 100


def measured(*, direction: str, aim: float | None = 2.0) -> Measurement:
    at = "at most" if direction == "at most" else "at least"
    benchmark = Benchmark(name="b", floor=nothing, subject=nothing, aim=aim, direction=at)
    return Measurement(benchmark=benchmark, floor=(1.0, 2.0, 4.0), subject=(3.0, 6.0, 12.0))


def test_at_most_is_what_the_subject_costs_in_floors() -> None:
    measurement = measured(direction="at most")

    assert measurement.ratio == 3.0
    assert measurement.p95_ratio == pytest.approx(3.0)
    assert measurement.met is False


def test_at_least_is_how_many_times_as_fast_the_subject_is() -> None:
    measurement = measured(direction="at least", aim=0.25)

    assert measurement.ratio == pytest.approx(1 / 3)
    assert measurement.met is True


def test_without_an_aim_nothing_is_met_or_missed() -> None:
    assert measured(direction="at most", aim=None).met is None


async def test_an_async_subject_is_awaited_and_compared_with_a_sync_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", clock)
    benchmark = Benchmark(name="b", floor=clock.one_second, subject=clock.hundred_seconds, aim=1.0)

    measurement = await measure(benchmark, seconds=0.05)

    assert len(measurement.floor) == len(measurement.subject) >= SLOW_ROUNDS
    assert measurement.ratio == pytest.approx(100)
    assert gc.isenabled()


async def test_each_sample_gets_what_setup_made_for_it_alone() -> None:
    seen: list[list[int]] = []
    benchmark = Benchmark(name="b", floor=seen.append, subject=seen.append, setup=lambda: [len(seen)])

    await measure(benchmark, seconds=0)

    assert seen == [[place] for place in range(2 * SLOW_ROUNDS)]


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # what is measured runs in processes of its own
async def test_fresh_code_is_measured_inside_its_own_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.harness.FRESH_ROUNDS", 2)
    short, long = "_now = lambda: _began + 1e-6", "_now = lambda: _began + 1e-4"  # what the code itself takes

    inside = await measure(Benchmark(name="b", floor=Fresh(code=short), subject=Fresh(code=long)))
    whole = await measure(Benchmark(name="b", floor=Fresh(code=long), subject=Fresh(code=long, whole_process=True)))

    assert inside.ratio == pytest.approx(100, rel=0.01)  # the start of the interpreter is not in it
    assert whole.ratio > 1  # starting a process takes longer than a ten-thousandth of a second


async def test_a_cost_is_divided_by_the_items_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", clock)
    benchmark = Benchmark(
        name="b", floor=clock.one_second, subject=clock.hundred_seconds, floor_items=2, subject_items=50
    )

    measurement = await measure(benchmark, seconds=0.05)

    assert measurement.ratio == pytest.approx(4)


async def test_memory_is_the_peak_of_one_call() -> None:
    benchmark = Benchmark(name="b", floor=lambda: bytes(100_000), subject=lambda: bytes(1_000_000), clock="memory")

    measurement = await measure(benchmark, seconds=0)

    assert measurement.ratio == pytest.approx(10, rel=0.1)
    assert "1 MB" in row(measurement)


def test_cpu_time_counts_children_that_ended_and_children_that_run() -> None:
    burn = "import time\nwhile time.process_time() < 0.1: pass\n"
    with CpuTime() as ended:
        subprocess.run([sys.executable, "-c", burn], check=True)
    with CpuTime() as running, subprocess.Popen(
        [sys.executable, "-c", f"{burn}print(flush=True)\ninput()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:  # fmt: skip
        assert child.stdout
        child.stdout.readline()
        with CpuTime() as idle:
            pass
        child.communicate(b"\n")

    assert ended.count >= 0.1
    assert running.count >= 0.1
    assert idle.count < 0.1


def test_memory_that_was_there_before_is_not_counted() -> None:
    before = bytes(1_000_000)
    with PeakMemory() as memory:
        after = bytes(1_000)

    assert memory.count < len(before)
    assert memory.count >= len(after)


async def test_a_benchmark_that_fails_or_is_missing_does_not_stop_the_others() -> None:
    def fail() -> None:
        raise ValueError("no such thing\nmore")

    failing = Benchmark(name="failing", floor=fail, subject=nothing)
    absent = Benchmark(name="absent", floor=nothing, subject=nothing, missing=lambda: "not installed")
    good = Benchmark(name="good", floor=nothing, subject=nothing, missing=lambda: None)

    first, second, third = await measure_all([failing, absent, good], 0)

    assert isinstance(first, NotMeasured)
    assert first.reason == "FAILED: ValueError: no such thing"
    assert isinstance(second, NotMeasured)
    assert second.reason == "not installed"
    assert isinstance(third, Measurement)
    assert "not installed" in render(map(row, [first, second, third]))


def test_missed_aims_are_listed_with_their_note() -> None:
    slow = Benchmark(name="slow", floor=nothing, subject=nothing, aim_seconds=1.0, note="The disk is busy.")
    quick = Benchmark(name="quick", floor=nothing, subject=nothing, aim_seconds=20.0, note="Nothing to say.")
    rows = [Measurement(benchmark=each, floor=(1.0, 2.0), subject=(3.0, 6.0)) for each in (slow, quick)]

    reported = summary(rows)

    assert "2 measured: 1 aims met, 1 missed; 0 not measured" in reported
    assert "MISSED slow: 3.00 x, aim at most 1 s\n         The disk is busy." in reported
    assert "quick" not in reported


async def test_work_elsewhere_reports_its_own_seconds() -> None:
    benchmark = Benchmark(name="b", floor=Reported(lambda: 6.0), subject=Reported(lambda: 2.0), direction="at least")

    measurement = await measure(benchmark, seconds=0)

    assert measurement.ratio == 3.0
