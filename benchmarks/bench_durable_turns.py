"""The latency of a whole turn with two calls: in this process without a journal, and where it survives a crash."""

from collections.abc import Awaitable, Callable
from functools import cache
from itertools import count
from pathlib import Path

from benchmarks.bench_journal import folder
from benchmarks.durable_stores import find_missing_postgres, start_postgres
from benchmarks.harness import Benchmark
from spindle import Call, DispatchContext, Journal, Reply, TurnRunner, tool

ids = count()


@tool
async def note(number: int) -> str:
    """Note a number."""
    return str(number)


async def ask(ctx: DispatchContext) -> Reply:
    """Request two calls one after the other, then answer."""
    done = ctx.iteration == 2
    return Reply("done") if done else Reply(calls=[Call(f"c{next(ids)}", "note", {"number": ctx.iteration})])


def build_runner(journal: Journal | None = None) -> TurnRunner:
    """A runner whose turns survive a crash if there is a journal."""
    key = None if journal is None else "a state key for benchmarks"
    return TurnRunner(executor_callback=ask, tools=[note], journal=journal, state_key=key)


def run_turn(get_runner: Callable[[], TurnRunner]) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        report = await get_runner().run(messages=["go"])
        assert report.ok, report.error

    return work


embedded = build_runner()
on_disk = build_runner(Journal.sqlite(Path(folder.name) / "turns.db"))


@cache
def in_postgres() -> TurnRunner:
    return build_runner(Journal.postgres(start_postgres()))


BENCHMARKS = [
    Benchmark(
        name="a turn with two calls that survives a crash, SQLite / without a journal",
        floor=run_turn(lambda: embedded),
        subject=run_turn(lambda: on_disk),
    ),
    Benchmark(
        name="a turn with two calls that survives a crash, PostgreSQL / without a journal",
        floor=run_turn(lambda: embedded),
        subject=run_turn(in_postgres),
        missing=find_missing_postgres,
    ),
]
