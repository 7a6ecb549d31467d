"""What `import spindle` costs a program that has just started."""

from benchmarks.harness import Benchmark, Fresh


def beside(statement: str, *, whole_process: bool = False) -> tuple[Fresh, Fresh]:
    """`statement` as the floor, and `import spindle` as the subject, measured in the same way."""
    return Fresh(code=statement, whole_process=whole_process), Fresh(code="import spindle", whole_process=whole_process)


_pydantic = beside("import pydantic")
_process = beside("import pydantic", whole_process=True)
_models = beside("from pydantic import BaseModel, TypeAdapter")

BENCHMARKS = [
    Benchmark(name="import spindle / import pydantic", floor=_pydantic[0], subject=_pydantic[1], aim=1.6),
    Benchmark(name="the same, with the interpreter's start", floor=_process[0], subject=_process[1]),
    # `import pydantic` alone loads little of it; this is what every program that has a model pays.
    Benchmark(name="import spindle / from pydantic import BaseModel", floor=_models[0], subject=_models[1]),
]
