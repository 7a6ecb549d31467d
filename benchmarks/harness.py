"""How a subject compares with its floor, measured side by side so that a noisy machine disturbs both alike."""

import gc
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isawaitable
from itertools import repeat
from statistics import median, quantiles
from typing import Any, Literal, TypeAlias

from benchmarks.meters import METERS, PEAK_OF_PROCESS

SAMPLE_SECONDS = 0.001
"""A sample repeats its work until it takes about this long: far over the clock's grain, under a scheduler's slice."""

CPU_SAMPLE_SECONDS = 0.02
"""The same for CPU time, whose reading costs more; a slice of the scheduler does not disturb it."""

MIN_ROUNDS, MAX_ROUNDS, FRESH_ROUNDS, REPORTED_ROUNDS, SLOW_ROUNDS = 15, 500, 15, 2, 5
"""`SLOW_ROUNDS` are enough for work that would take more than `SLOW` times the seconds of a benchmark otherwise."""
SLOW = 4

LONG_SAMPLE_SECONDS = 0.02
"""Samples that long leave enough rubbish behind to be collected, off the clock, before the next one."""

Counts: TypeAlias = Literal["wall", "cpu", "memory"]
"""What a sample counts: seconds that passed, seconds of CPU (children included), or bytes at the peak."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fresh:
    """Code that is run by a fresh interpreter, once for each sample."""

    code: str
    whole_process: bool = False
    """Count the interpreter's start and end too, not only the code."""
    setup: str = ""
    """Run before the code, off the clock."""


@dataclass(frozen=True, slots=True)
class Reported:
    """Work elsewhere that is measured there; the function returns its seconds, and is called once for each round."""

    seconds: Callable[[], float]


Work: TypeAlias = Callable[..., Any] | Fresh | Reported


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """A subject, the floor it is measured against, and the ratio it aims at."""

    name: str
    floor: Work
    """Sync, async (awaited in one running loop), or `Fresh`."""
    subject: Work
    aim: float | None = None
    """Without an aim the ratio is printed for information."""
    direction: Literal["at most", "at least"] = "at most"
    """At most: the subject may cost `aim` floors. At least: the subject must be `aim` times as fast as the floor."""
    aim_seconds: float | None = None
    """For what a person waits for: the seconds that the subject itself may take."""
    setup: Callable[[], Any] | None = None
    """Made anew for each sample, off the clock, and handed to the work; such a sample is one call."""
    clock: Counts = "wall"
    floor_items: int = 1
    """The work of one call is this many items, and what it costs is divided by them: the cost of an item in a small
    batch against the cost of an item in a large one says how the cost grows."""
    subject_items: int = 1
    missing: Callable[[], str | None] | None = None
    """Returns why it cannot be measured on this machine, or `None`."""
    note: str = ""
    """Why the aim is missed where it is: where the time goes, and what would help. Printed with a missed aim."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """The seconds (or bytes) of one item, of the floor and of the subject, round by round."""

    benchmark: Benchmark
    floor: tuple[float, ...]
    subject: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median over the rounds; in each round both sides were measured back to back."""
        return median(map(self._compare, self.floor, self.subject))

    @property
    def p95_ratio(self) -> float:
        """The slow tail of the subject against the slow tail of the floor."""
        return self._compare(p95(self.floor), p95(self.subject))

    @property
    def met(self) -> bool | None:
        """Whether the aims are met; `None` where there are none."""
        aim, seconds = self.benchmark.aim, self.benchmark.aim_seconds
        if aim is None and seconds is None:
            return None
        is_quick = seconds is None or median(self.subject) <= seconds
        if aim is None:
            return is_quick
        return is_quick and (self.ratio <= aim if self.benchmark.direction == "at most" else self.ratio >= aim)

    def _compare(self, floor: float, subject: float) -> float:
        more, less = (subject, floor) if self.benchmark.direction == "at most" else (floor, subject)
        return more / less if less else float("inf") if more else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class NotMeasured:
    """A benchmark without a measurement, and the reason."""

    benchmark: Benchmark
    reason: str


def p95(seconds: tuple[float, ...]) -> float:
    """The value that 95 of 100 samples do not pass."""
    return quantiles(seconds, n=20, method="inclusive")[-1]


async def measure(benchmark: Benchmark, *, seconds: float = 2.0) -> Measurement:
    """Take samples of floor and subject in turn for about `seconds`, and for at least `MIN_ROUNDS` rounds.

    Work that is too slow for that many rounds has at least `SLOW_ROUNDS`.
    """
    floor = await _sampler(benchmark, benchmark.floor)
    subject = await _sampler(benchmark, benchmark.subject)
    least, most = MIN_ROUNDS, MAX_ROUNDS
    if isinstance(benchmark.subject, Fresh):
        least = most = FRESH_ROUNDS
    elif isinstance(benchmark.subject, Reported):
        least = most = REPORTED_ROUNDS
    floors: list[float] = []
    subjects: list[float] = []
    with _quiet_heap():
        began = time.perf_counter()

        def is_done() -> bool:
            rounds, took = len(floors), time.perf_counter() - began
            if rounds >= most:
                return True
            return took >= seconds if rounds >= least else rounds >= SLOW_ROUNDS and took >= SLOW * seconds

        while not is_done():
            # Who goes first changes, so that neither side always finds the caches the other one left.
            pair = [(floor, floors), (subject, subjects)]
            for sample, kept in pair if len(floors) % 2 else reversed(pair):
                kept.append(await sample())
    return Measurement(
        benchmark=benchmark,
        floor=tuple(each / benchmark.floor_items for each in floors),
        subject=tuple(each / benchmark.subject_items for each in subjects),
    )


Sampler: TypeAlias = Callable[[], Awaitable[float]]
"""Gives the seconds that one call took, or the bytes it needed, from one sample."""


async def _sampler(benchmark: Benchmark, work: Work) -> Sampler:
    counts, setup = benchmark.clock, benchmark.setup
    if isinstance(work, Fresh):
        return _fresh_sampler(work, counts)
    if isinstance(work, Reported):
        return _reported_sampler(work)
    if setup is not None:
        return _prepared_sampler(work, setup, counts)
    calls = await _calls_for_a_sample(work, counts)

    async def sample() -> float:
        return await _count(work, calls, counts) / calls

    return sample


def _prepared_sampler(work: Callable[..., Any], setup: Callable[[], Any], counts: Counts) -> Sampler:
    async def sample() -> float:
        made = setup()
        return await _count(lambda: work(made), 1, counts)

    return sample


def _reported_sampler(work: Reported) -> Sampler:
    async def sample() -> float:
        return work.seconds()

    return sample


FRESH_CODE: dict[Counts, tuple[str, str]] = {
    "wall": ("from time import perf_counter as _now\n", "_now()"),
    "cpu": ("from time import process_time as _now\n", "_now()"),
    "memory": (PEAK_OF_PROCESS, "_peak()"),
}


def _fresh_sampler(work: Fresh, counts: Counts) -> Sampler:
    beginning, reading = FRESH_CODE[counts]
    code = f"{beginning}{work.setup}\n_began = {reading}\n{work.code}\nprint({reading} - _began)"
    # Programs run from compiled files; the first sample, which may have to make them, only warms up.
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", work.code if work.whole_process else code]
    subprocess.run(command, capture_output=True, check=True, env=settings)

    async def sample() -> float:
        with METERS[counts]() as meter:
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=settings)  # noqa: ASYNC221 - nothing else may run meanwhile
        return meter.count if work.whole_process else float(done.stdout.split()[-1])

    return sample


async def _calls_for_a_sample(work: Callable[[], Any], counts: Counts) -> int:
    if counts == "memory":
        await _repeat(work, 1)
        return 1
    calls, enough = 1, SAMPLE_SECONDS if counts == "wall" else CPU_SAMPLE_SECONDS
    await _count(work, calls, "wall")  # the first call may build what later ones find ready
    while (took := await _count(work, calls, "wall")) < enough and calls < 1_000_000:
        calls = max(calls + 1, min(calls * 10, int(calls * enough / max(took, 1e-9))))
    return calls


async def _count(work: Callable[[], Any], calls: int, counts: Counts) -> float:
    """The seconds or bytes of `calls` calls, all awaited in the running loop if the work is async."""
    with METERS[counts]() as meter:
        await _repeat(work, calls)
    if meter.count > LONG_SAMPLE_SECONDS:
        gc.collect()
    return meter.count


async def _repeat(work: Callable[[], Any], calls: int) -> None:
    pending = work()
    if isawaitable(pending):
        await pending
        for _ in repeat(None, calls - 1):
            await work()
    else:
        for _ in repeat(None, calls - 1):
            work()


@contextmanager
def _quiet_heap() -> Generator[None]:
    """Collect now, and not while measuring."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
