"""Figures of the code base: printed on each run, with limits that only go down."""

import ast
import re
import statistics
import subprocess
import sys
from pathlib import Path

from tests.house.sources import INDENTED_IMPORT, parse_matching, walk_statements

# A bare call visits a module for each step that ARCHITECTURE.md lists, and each visit counts twice: there and back.
# Fewer switches than about 60 would need the steps of several modules in one, beyond the limit of 400 lines.
LIMITS = {
    "modules": 643,  # doors included; grows with features, not with splits
    "largest module": 400,
    "Any in 1,000 lines": 12.0,
    "cast in 1,000 lines": 2.5,
    "own imports inside functions": 10,
    "modules loaded by Executor, TurnRunner, tool": 78,  # one is the list of lazy parts of a turn
    "module switches of one bare call": 74,  # aim: 40
    "files touched by one bare call": 22,  # aim: 14
}

TRACE = """
import sys
import anyio
from spindle import Call, Executor, ToolContext, ToolRegistry, tool

@tool
async def add(a: int, b: int) -> int:
    "Add."
    return a + b

executor = Executor(ToolRegistry([add]))
trail, trails = [], []

def profile(frame, event, arg):
    if event in ("call", "return"):
        code = frame if event == "call" else frame.f_back
        name = code.f_globals.get("__name__", "") if code else ""
        if name.startswith("spindle.") and (not trail or trail[-1] != name):
            trail.append(name)

async def main():
    for _ in range(3):
        await executor.execute_parallel([Call("c", "add", {"a": 40, "b": 2})], ToolContext(session_id="s"))
    for _ in range(5):  # a call may pause for the event loop on a busy machine
        trail.clear()
        sys.setprofile(profile)
        await executor.execute_parallel([Call("c", "add", {"a": 40, "b": 2})], ToolContext(session_id="s"))
        sys.setprofile(None)
        trails.append(list(trail))

anyio.run(main)
shortest = min(trails, key=len)
print(len(shortest) - 1, len(set(shortest)))
"""


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=50)
    return done.stdout.split()


def inner_imports(tree: ast.Module) -> int:
    """How many statements import our own modules below the top level, those for type checkers aside."""
    functions = [node for node in walk_statements(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return len(
        {
            (node.lineno, node.col_offset)
            for function in functions
            for node in walk_statements(function)
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "spindle"
        }
    )


def test_the_figures_of_the_code_base_do_not_get_worse(root: Path) -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((root / "src").rglob("*.py"))}
    sizes = sorted(len(text.splitlines()) for text in sources.values())
    thousands = sum(sizes) / 1000
    whole = "\n".join(sources.values())
    loaded = run("import sys; from spindle import Executor, TurnRunner, tool; print(*sys.modules)")
    switches, touched = map(int, run(TRACE))
    figures = {
        "modules": len(sizes),
        "median module": statistics.median(sizes),
        "p90 module": sizes[len(sizes) * 9 // 10],
        "largest module": sizes[-1],
        "Any in 1,000 lines": round(len(re.findall(r"\bAny\b", whole)) / thousands, 1),
        "cast in 1,000 lines": round(len(re.findall(r"\bcast\(", whole)) / thousands, 1),
        "own imports inside functions": sum(
            inner_imports(tree) for _, tree in parse_matching(sources, INDENTED_IMPORT)
        ),
        "modules loaded by Executor, TurnRunner, tool": sum(
            name == "spindle" or name.startswith("spindle.") for name in loaded
        ),
        "module switches of one bare call": switches,
        "files touched by one bare call": touched,
    }
    for name, value in figures.items():
        sys.stdout.write(f"{name}: {value}\n")

    assert not {name: value for name, value in figures.items() if name in LIMITS and value > LIMITS[name]}
