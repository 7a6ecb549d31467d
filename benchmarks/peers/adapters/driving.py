"""What every adapter does: the six calls, then the speed, then one line of JSON."""

import asyncio
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeAlias

from examples.hostile_calls.cases import (
    CASES,
    CLASH_CALL,
    DEADLINE_SECONDS,
    Case,
    Function,
    RawCall,
    hostile_tools,
    impostor_tool,
    refund_tool,
)

HANG_SECONDS = 3.0
TRIVIAL_CALLS, SYNC_CALLS, SYNC_SECONDS = 200, 60, 0.5
MIN_ROUNDS, MAX_ROUNDS, ROUNDS_SECONDS = 15, 200, 3.0
SHOWN_CHARS = 300


class Clock:
    """Measures from the model's reply to its next request; an adapter with a scripted model says when these are."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._ended: float | None = None

    def start(self) -> None:
        """The model has replied."""
        self._began = time.perf_counter()

    def stop(self) -> float:
        """The model is asked again; the first time counts."""
        if self._ended is None:
            self._ended = time.perf_counter()
        return self._ended - self._began


@dataclass(frozen=True, slots=True)
class Notes:
    """What the tools say when they are entered; a file, for a library may run them in another process."""

    path: Path

    @classmethod
    def fresh(cls) -> "Notes":
        """Begin an empty page."""
        handle, name = tempfile.mkstemp(prefix="notes-")
        os.close(handle)
        return cls(Path(name))

    def __call__(self, text: str) -> None:
        with self.path.open("a") as page:
            page.write(f"{text}\n")

    def lines(self, beginning: str = "") -> list[str]:
        """Give what was said so far."""
        return [line for line in self.path.read_text().splitlines() if line.startswith(beginning)]


Run: TypeAlias = Callable[[Sequence[RawCall], Clock], Awaitable[Mapping[str, str]]]
"""Runs one reply's calls; gives what the model reads for each, by call id."""


class Setup(Protocol):
    """Hands tools to a library, with its own kind of deadline if one is asked for and it has one."""

    def __call__(self, tools: Sequence[Function], deadline_seconds: float | None = None) -> Run: ...


@dataclass(kw_only=True, slots=True)
class Seen:
    """What became of one case."""

    entered: list[str] = field(default_factory=list[str])
    """The hostile call's tool, if it was entered, with the arguments it got."""
    answer: str | None = None
    """The beginning of what the model reads for the hostile call; `None` without an answer."""
    answer_chars: int = 0
    siblings_answered: int = 0
    siblings: int = 0
    raised: str | None = None
    """What came out of the batch, or of the registration, instead of answers."""
    seconds: float = 0.0
    skipped: str | None = None
    """Why this case cannot be put to the library."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """How long something took, and its floor in the same process."""

    floor_seconds: float
    seconds: float
    ratio: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """All that an adapter reports."""

    library: str
    version: str
    driven: str
    """Through which door the calls went in."""
    cases: dict[str, Seen]
    trivial: Speed
    """One call of a batch of `TRIVIAL_CALLS`."""
    sync: Speed
    """A whole batch of `SYNC_CALLS`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Single:
    """Seconds of one trivial call, in the fastest round; `None` where a library has no such thing."""

    with_deadline: float | None
    """The call alone, under a deadline that it does not reach."""
    whole_turn: float | None
    """A whole turn: the model requests the call, reads its result and answers."""


def report(
    setup: Setup,
    *,
    library: str,
    driven: str,
    parses_json: bool = True,
    streamed: Setup | None = None,
    has_deadline: bool = True,
    turn: Setup | None = None,
) -> None:
    """Run everything and print the line; with the argument `single`, only what one call costs.

    `driven` says through which door. `streamed` is for a library that reads a streamed reply in another way, and
    `turn` for one that has a model loop: it runs a whole turn.
    """
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if sys.argv[1:] == ["single"]:
        print(json.dumps(asdict(asyncio.run(_single(setup, turn, has_deadline=has_deadline)))), flush=True)
        os._exit(0)
    with tempfile.TemporaryDirectory() as tempfile.tempdir:
        cases, trivial, sync = asyncio.run(_measured(setup, streamed, parses_json=parses_json))
    line = Line(
        library=library, version=version(library), driven=driven, cases=cases, trivial=trivial, sync=sync
    )  # fmt: skip
    print(json.dumps(asdict(line)), flush=True)
    # Its threads may still hang, or its worker processes wait; it has been measured, and who started us tidies up.
    os._exit(0)


async def _measured(setup: Setup, streamed: Setup | None, *, parses_json: bool) -> tuple[dict[str, Seen], Speed, Speed]:
    cases = {case.key: await _case(setup, case) for case in CASES if parses_json or case.key != "truncated"}
    if not parses_json:
        cases["truncated"] = Seen(skipped="takes parsed arguments; broken JSON is its caller's")
    if streamed is not None:
        cases["truncated_streamed"] = await _case(streamed, CASES[0])
    cases["clash"] = await _clash(setup)
    return cases, await _trivial(setup), await _sync(setup)


async def _case(setup: Setup, case: Case) -> Seen:
    notes = Notes.fresh()
    deadline = DEADLINE_SECONDS if case.key == "hanging" else None
    run = setup(hostile_tools(notes, hang_seconds=HANG_SECONDS), deadline)
    await _asked(run, case.siblings)  # the first calls may build what later ones find ready
    seen = await _asked(run, case.calls, case.hostile)
    seen.entered = notes.lines(case.hostile.name)
    return seen


async def _clash(setup: Setup) -> Seen:
    notes = Notes.fresh()
    try:
        run = setup([refund_tool(notes), impostor_tool(notes)])
    except Exception as refused:  # noqa: BLE001 - a refusal to register is the answer
        return Seen(raised=_named(refused))
    seen = await _asked(run, [CLASH_CALL], CLASH_CALL)
    seen.entered = notes.lines()
    return seen


async def _asked(run: Run, calls: Sequence[RawCall], hostile: RawCall | None = None) -> Seen:
    seen = Seen(siblings=len(calls) - 1)
    clock = Clock()
    answers: Mapping[str, str] = {}
    try:
        answers = await run(calls, clock)
    except Exception as escaped:  # noqa: BLE001 - what escapes the batch is what is measured
        seen.raised = _named(escaped)
    seen.seconds = clock.stop()
    answer = answers.get(hostile.id) if hostile else None
    if answer is not None:
        seen.answer, seen.answer_chars = answer[:SHOWN_CHARS], len(answer)
    seen.siblings_answered = sum(call.id in answers for call in calls if call is not hostile)
    return seen


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:SHOWN_CHARS]


async def echo(text: str, times: int = 1) -> str:
    """Say a text again."""
    return text * times


def nap(number: int) -> str:
    """Block for half a second."""
    time.sleep(SYNC_SECONDS)
    return str(number)


async def _trivial(setup: Setup) -> Speed:
    """A batch of trivial async calls, against `asyncio.gather` of the bare function on the same JSON."""
    calls = [RawCall(f"c{n}", "echo", f'{{"text": "call {n}", "times": 2}}') for n in range(TRIVIAL_CALLS)]
    run = setup([echo])

    async def floor() -> float:
        clock = Clock()
        await asyncio.gather(*(echo(**json.loads(call.args)) for call in calls))
        return clock.stop()

    async def subject() -> float:
        clock = Clock()
        answers = await run(calls, clock)
        took = clock.stop()
        if any(f"call {n}call {n}" not in answers[f"c{n}"] for n in range(TRIVIAL_CALLS)):
            raise RuntimeError("a trivial call was not answered")
        return took

    await subject()
    pairs: list[tuple[float, float]] = []
    began = time.perf_counter()
    while len(pairs) < MIN_ROUNDS or (len(pairs) < MAX_ROUNDS and time.perf_counter() - began < ROUNDS_SECONDS):
        pairs.append((await floor(), await subject()))
    # The fastest round of each: a busy machine only ever adds.
    fastest, took = min(one for one, _ in pairs), min(two for _, two in pairs)
    return Speed(floor_seconds=fastest / TRIVIAL_CALLS, seconds=took / TRIVIAL_CALLS, ratio=took / fastest)


async def _sync(setup: Setup) -> Speed:
    """A batch of blocking calls, against as many threads that do nothing else."""
    loop, calls = asyncio.get_running_loop(), [RawCall(f"n{n}", "nap", f'{{"number": {n}}}') for n in range(SYNC_CALLS)]
    with ThreadPoolExecutor(SYNC_CALLS) as pool:
        clock = Clock()
        await asyncio.gather(*(loop.run_in_executor(pool, nap, n) for n in range(SYNC_CALLS)))
        floor = clock.stop()
    run, clock = setup([nap]), Clock()
    answers = await run(calls, clock)
    took = clock.stop()
    if len(answers) != SYNC_CALLS:
        raise RuntimeError(f"{SYNC_CALLS - len(answers)} blocking calls were not answered")
    return Speed(floor_seconds=floor, seconds=took, ratio=took / floor)


SINGLE_SECONDS, SINGLE_WARM_UP, LONG_DEADLINE_SECONDS = 1.0, 20, 30.0


async def _single(setup: Setup, turn: Setup | None, *, has_deadline: bool) -> Single:
    alone = await _fastest(setup([echo], LONG_DEADLINE_SECONDS), is_whole=False) if has_deadline else None
    return Single(with_deadline=alone, whole_turn=None if turn is None else await _fastest(turn([echo]), is_whole=True))


async def _fastest(run: Run, *, is_whole: bool) -> float:
    """The fastest of many rounds with one call: a busy machine only ever adds."""
    call = RawCall("c", "echo", '{"text": "call ", "times": 2}')
    rounds: list[float] = []
    began = time.perf_counter()
    while len(rounds) < SINGLE_WARM_UP or time.perf_counter() - began < SINGLE_SECONDS:
        clock, started = Clock(), time.perf_counter()
        answers = await run([call], clock)
        took = clock.stop()
        rounds.append(time.perf_counter() - started if is_whole else took)
        if "call call" not in answers["c"]:
            raise RuntimeError("the call was not answered")
    return min(rounds)
