"""A batch with telemetry against the same batch without: while no SDK is set up, and with one that keeps nothing."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from benchmarks.bench_executor import batch_of, ctx
from benchmarks.bench_tool import search_orders
from benchmarks.harness import Benchmark
from spindle import Executor, ToolRegistry
from spindle.telemetry import telemetry

REGISTRY = ToolRegistry([search_orders])


def sdk(sampler: Sampler) -> dict[str, Any]:
    return {
        "tracer_provider": TracerProvider(sampler=sampler, shutdown_on_exit=False),
        "meter_provider": MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False),
    }


def executed(count: int, *interceptors: Any) -> Any:
    executor, calls = Executor(REGISTRY, interceptors=interceptors), batch_of(count)

    async def work() -> None:
        await executor.execute_parallel(calls, ctx)

    return work


BENCHMARKS = [
    Benchmark(
        name="telemetry off, a batch of one / without", floor=executed(1), subject=executed(1, telemetry()), aim=1.05
    ),
    Benchmark(
        name="telemetry off, a batch of 200 / without",
        floor=executed(200),
        subject=executed(200, telemetry()),
        aim=1.05,
    ),
    Benchmark(
        name="telemetry on, a batch of 200 / without",
        floor=executed(200),
        subject=executed(200, telemetry(**sdk(ALWAYS_ON))),
    ),
]
