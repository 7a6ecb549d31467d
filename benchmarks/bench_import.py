"""What importing Spindle costs a program that has just started."""

from benchmarks.harness import Benchmark, Fresh

_PYDANTIC, _MODELS = Fresh(code="import pydantic"), Fresh(code="from pydantic import BaseModel, TypeAdapter")
_ALL = "from spindle import *"
_TOOLS = "from spindle import tool, Tool, ToolContext, ToolRegistry"

BENCHMARKS = [
    Benchmark(name="import spindle / import pydantic", floor=_PYDANTIC, subject=Fresh(code="import spindle"), aim=1.6),
    # The door opens a part of the house for each name, so these are what a program really pays.
    Benchmark(name="from spindle import tool, … / import pydantic", floor=_PYDANTIC, subject=Fresh(code=_TOOLS)),
    Benchmark(name="from spindle import * / from pydantic import BaseModel", floor=_MODELS, subject=Fresh(code=_ALL)),
    Benchmark(
        name="the first, with the interpreter's start",
        floor=Fresh(code="import pydantic", whole_process=True),
        subject=Fresh(code="import spindle", whole_process=True),
    ),
]
