"""What starting costs: importing Spindle into a program, and a cold `spindle` command that a person waits for."""

import atexit
from tempfile import TemporaryDirectory

from benchmarks.harness import Benchmark, Fresh

folder = TemporaryDirectory(prefix="spindle-bench-")
atexit.register(folder.cleanup)

PYDANTIC = Fresh(code="import pydantic")
MODELS = Fresh(code="from pydantic import BaseModel, TypeAdapter")
PYTHON = Fresh(code="import pydantic", whole_process=True)
PROGRAM = Fresh(code="from spindle import tool, Executor, TurnRunner")


IMPORT_NOTE = (
    "The modules of Python that Spindle needs (typing, dataclasses, inspect, logging, json, datetime) and anyio "
    "take about as long as the whole of `import pydantic`, which loads its models on first use only. Half of the rest "
    "are 74 dataclasses, whose methods are compiled when a module is imported; then come annotated_types and the "
    "modules of artifacts, which records and results need."
)
COLD_NOTE = (
    "A quarter of it is importing cyclopts and rich, a sixth pydantic for the configuration, a tenth asyncio; the rest "
    "are the 100 modules of Spindle and of the kit's tools, whose names and descriptions are printed."
)


def command(*words: str) -> Fresh:
    """The command in a process of its own, in an empty folder, as its script starts it."""
    arguments = ["spindle", *words]
    start = f"import os, sys; os.chdir({folder.name!r}); sys.argv = {arguments!r}"
    code = f"{start}; from spindle.cli.main import main; main()"
    return Fresh(code=code, whole_process=True)


BENCHMARKS = [
    Benchmark(name="import spindle / import pydantic", floor=PYDANTIC, subject=Fresh(code="import spindle"), aim=1.25),
    # A door loads the module of each name, so these imports are what a program really pays for.
    Benchmark(
        name="from spindle import tool, Executor, TurnRunner / import pydantic",
        floor=PYDANTIC,
        subject=PROGRAM,
        aim=1.25,
        clock="cpu",
        note=IMPORT_NOTE,
    ),
    Benchmark(name="the same / from pydantic import BaseModel", floor=MODELS, subject=PROGRAM, clock="cpu"),
    Benchmark(
        name="from spindle import * / from pydantic import BaseModel",
        floor=MODELS,
        subject=Fresh(code="from spindle import *"),
        clock="cpu",
    ),
    Benchmark(
        name="spindle list, cold / python -c 'import pydantic'",
        floor=PYTHON,
        subject=command("list"),
        aim_seconds=0.3,
        note=COLD_NOTE,
    ),
    Benchmark(
        name="spindle call, cold / python -c 'import pydantic'",
        floor=PYTHON,
        subject=command("call", "calculate", "expression=1+2"),
        aim_seconds=0.3,
        note=COLD_NOTE,
    ),
]
