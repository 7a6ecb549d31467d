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
    "2.8 x in instructions (601 of 214 million), which a busy machine does not change. The modules of Python that "
    "Spindle needs (typing, dataclasses, inspect, logging, json, datetime), typing_extensions and anyio take about as "
    "long as the whole of `import pydantic`, which loads its models on first use only. Half of the rest are about 70 "
    "dataclasses, whose methods are compiled when a module is imported; compiling them on first use gives 1.7 x, and "
    "was turned down (docs/decisions)."
)
COLD_NOTE = (
    "In instructions, `list` needs 1.67 and `call` 1.99 billion. 0.75 of them are importing cyclopts with attrs, rich, "
    "and pydantic for the configuration and the kit's parameters; 0.05 are pydantic's search for plugins; the rest are "
    "the 104 or 157 modules of Spindle and, for `call`, asyncio and SQLite. What would help: parameters of the kit "
    "without pydantic, a table without rich where it has no colours, a smaller parser of command lines."
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
