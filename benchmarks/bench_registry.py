"""A registry of 10,000 tools: copied for a turn, filtered, merged, and asked for tools that do not exist."""

from pydantic import BaseModel

from benchmarks.harness import Benchmark
from spindle import Call, CallOutcome, Executor, Tool, ToolContext, ToolFilter, ToolRegistry
from spindle.tools import Entry


class Query(BaseModel):
    q: str
    limit: int = 10


def answer(args: Query, ctx: object, meta: object) -> str:  # noqa: ARG001  what a handler is given
    return args.q


def tools(start: int, end: int) -> list[Tool]:
    return [
        Tool(name=f"tool_{i}", description=f"Does {i}.", input_schema=Query, handler=answer) for i in range(start, end)
    ]


registry = ToolRegistry(tools(0, 10_000))
left, right = ToolRegistry(tools(0, 5_000)), ToolRegistry(tools(5_000, 10_000))
clashing = ToolRegistry(tools(4_000, 9_000))


def rows(of: ToolRegistry) -> dict[str, Entry]:
    """What a registry holds, as a bare dict: the floor of everything here."""
    return {tool.name: entry for tool in of if (entry := of.entry(tool.name))}


all_rows, left_rows, right_rows, clashing_rows = rows(registry), rows(left), rows(right), rows(clashing)
wanted = frozenset(f"tool_{i * 200}" for i in range(50))
only_wanted = ToolFilter(allowed_tools=wanted)

executor = Executor(ToolRegistry(tools(0, 1_000)))
known_calls = [Call(f"c{i}", f"tool_{i * 9}", b'{"q":"x"}') for i in range(100)]
unknown_calls = [Call(f"c{i}", f"toolx_{i * 9}", b'{"q":"x"}') for i in range(100)]


async def call_known() -> list[CallOutcome]:
    return await executor.execute_parallel(known_calls, ToolContext())


async def call_unknown() -> list[CallOutcome]:
    return await executor.execute_parallel(unknown_calls, ToolContext())


BENCHMARKS = [
    Benchmark(
        name="10,000 tools copied for a turn / dict.copy()",
        floor=all_rows.copy,
        subject=registry.copy,
        aim=1.2,
    ),
    Benchmark(
        name="10,000 tools filtered to 50 definitions / a list comprehension",
        floor=lambda: [entry for name, entry in all_rows.items() if name in wanted],
        subject=lambda: registry.definitions_json(only_wanted),
        aim=1,
    ),
    Benchmark(
        name="the same / looking up 50 entries and joining their JSON",
        floor=lambda: b",".join([all_rows[name].definition.json for name in wanted]),
        subject=lambda: registry.definitions_json(only_wanted),
        aim=10,
    ),
    Benchmark(
        name="the same, as fresh data / a list comprehension",
        floor=lambda: [entry for name, entry in all_rows.items() if name in wanted],
        subject=lambda: registry.to_definitions(only_wanted),
    ),
    Benchmark(
        name="two registries of 5,000 merged / dict union",
        floor=lambda: left_rows | right_rows,
        subject=lambda: ToolRegistry.merge([left, right]),
    ),
    Benchmark(
        name="the same, with 1,000 clashes / dict union",
        floor=lambda: left_rows | clashing_rows,
        subject=lambda: ToolRegistry.merge([left, clashing], on_collision="replace"),
    ),
    Benchmark(
        name="100 names that no tool of 1,000 has / 100 calls of tools",
        floor=call_known,
        subject=call_unknown,
        aim=12,
    ),
]
