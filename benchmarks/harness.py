"""How a subject compares with its floor, measured side by side so that a noisy machine disturbs both alike."""

import gc
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isawaitable
from itertools import repeat
from statistics import median, quantiles
from time import perf_counter
from typing import Any, Literal, TypeAlias

SAMPLE_SECONDS = 0.001
"""A sample repeats its work until it takes about this long: far over the clock's grain, under a scheduler's slice."""

MIN_ROUNDS, MAX_ROUNDS, FRESH_ROUNDS = 15, 500, 15

LONG_SAMPLE_SECONDS = 0.02
"""Samples that long leave enough rubbish behind to be collected, off the clock, before the next one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fresh:
    """Code that is run by a fresh interpreter, once for each sample."""

    code: str
    whole_process: bool = False
    """Count the interpreter's start and end too, not only the code."""


Work: TypeAlias = Callable[..., Any] | Fresh


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
    setup: Callable[[], Any] | None = None
    """Made anew for each sample, off the clock, and handed to the work; such a sample is one call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """The seconds of one call, of the floor and of the subject, round by round."""

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
        """Whether the aim is met; `None` where there is none."""
        aim = self.benchmark.aim
        if aim is None:
            return None
        return self.ratio <= aim if self.benchmark.direction == "at most" else self.ratio >= aim

    def _compare(self, floor: float, subject: float) -> float:
        return subject / floor if self.benchmark.direction == "at most" else floor / subject


def p95(seconds: tuple[float, ...]) -> float:
    """The value that 95 of 100 samples do not pass."""
    return quantiles(seconds, n=20, method="inclusive")[-1]


async def measure(benchmark: Benchmark, *, seconds: float = 2.0) -> Measurement:
    """Take samples of floor and subject in turn for about `seconds`, and for at least `MIN_ROUNDS` rounds."""
    floor = await _sampler(benchmark.floor, benchmark.setup)
    subject = await _sampler(benchmark.subject, benchmark.setup)
    fresh = isinstance(benchmark.subject, Fresh)
    least, most = (FRESH_ROUNDS, FRESH_ROUNDS) if fresh else (MIN_ROUNDS, MAX_ROUNDS)
    floors: list[float] = []
    subjects: list[float] = []
    with _quiet_heap():
        began = perf_counter()
        while len(floors) < least or (len(floors) < most and perf_counter() - began < seconds):
            # Who goes first changes, so that neither side always finds the caches the other one left.
            pair = [(floor, floors), (subject, subjects)]
            for sample, kept in pair if len(floors) % 2 else reversed(pair):
                kept.append(await sample())
    return Measurement(benchmark=benchmark, floor=tuple(floors), subject=tuple(subjects))


Sampler: TypeAlias = Callable[[], Awaitable[float]]
"""Gives the seconds that one call took, from one sample."""


async def _sampler(work: Work, setup: Callable[[], Any] | None) -> Sampler:
    if isinstance(work, Fresh):
        return _fresh_sampler(work)
    if setup is not None:
        return _prepared_sampler(work, setup)
    calls = await _calls_for_a_sample(work)

    async def sample() -> float:
        return await _time(work, calls) / calls

    return sample


def _prepared_sampler(work: Callable[..., Any], setup: Callable[[], Any]) -> Sampler:
    async def sample() -> float:
        made = setup()
        return await _time(lambda: work(made), 1)

    return sample


def _fresh_sampler(work: Fresh) -> Sampler:
    code = f"from time import perf_counter as _now\n_began = _now()\n{work.code}\nprint(_now() - _began)"
    # Programs run from compiled files; the first sample, which may have to make them, only warms up.
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=settings)

    async def sample() -> float:
        began = perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=settings)  # noqa: ASYNC221 - nothing else may run meanwhile
        whole = perf_counter() - began
        return whole if work.whole_process else float(done.stdout.split()[-1])

    return sample


async def _calls_for_a_sample(work: Callable[[], Any]) -> int:
    calls = 1
    await _time(work, calls)  # the first call may build what later ones find ready
    while (took := await _time(work, calls)) < SAMPLE_SECONDS and calls < 1_000_000:
        calls = max(calls + 1, min(calls * 10, int(calls * SAMPLE_SECONDS / max(took, 1e-9))))
    return calls


async def _time(work: Callable[[], Any], calls: int) -> float:
    """The seconds of `calls` calls, all awaited in the running loop if the work is async."""
    began = perf_counter()
    pending = work()
    if isawaitable(pending):
        await pending
        for _ in repeat(None, calls - 1):
            await work()
    else:
        for _ in repeat(None, calls - 1):
            work()
    took = perf_counter() - began
    del pending
    if took > LONG_SAMPLE_SECONDS:
        gc.collect()
    return took


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
