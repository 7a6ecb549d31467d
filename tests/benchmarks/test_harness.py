import gc

import pytest

from benchmarks.harness import MIN_ROUNDS, Benchmark, Fresh, Measurement, measure

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
    monkeypatch.setattr("benchmarks.harness.perf_counter", clock)
    benchmark = Benchmark(name="b", floor=clock.one_second, subject=clock.hundred_seconds, aim=1.0)

    measurement = await measure(benchmark, seconds=0.05)

    assert len(measurement.floor) == len(measurement.subject) >= MIN_ROUNDS
    assert measurement.ratio == pytest.approx(100)
    assert gc.isenabled()


async def test_each_sample_gets_what_setup_made_for_it_alone() -> None:
    seen: list[list[int]] = []
    benchmark = Benchmark(name="b", floor=seen.append, subject=seen.append, setup=lambda: [len(seen)])

    await measure(benchmark, seconds=0)

    assert seen == [[place] for place in range(2 * MIN_ROUNDS)]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # what is measured runs in processes of its own
async def test_fresh_code_is_measured_inside_its_own_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.harness.FRESH_ROUNDS", 2)
    short, long = "_now = lambda: _began + 1e-6", "_now = lambda: _began + 1e-4"  # what the code itself takes

    inside = await measure(Benchmark(name="b", floor=Fresh(code=short), subject=Fresh(code=long)))
    whole = await measure(Benchmark(name="b", floor=Fresh(code=long), subject=Fresh(code=long, whole_process=True)))

    assert inside.ratio == pytest.approx(100, rel=0.01)  # the start of the interpreter is not in it
    assert whole.ratio > 1  # starting a process takes longer than a ten-thousandth of a second
