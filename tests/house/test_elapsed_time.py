"""No test asserts on elapsed wall time: such a test fails on a busy machine. Bound work with `tests.bounds` instead."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CLOCKS = {"current_time", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time.time", "time_ns"}
CLOCK_MODULES = {"anyio", "asyncio", "time", "trio"}

EXCEPTIONS: set[str] = set()
"""Files that may measure wall time. This set stays empty."""


def is_clock_call(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)):
            return module in CLOCK_MODULES and (name in CLOCKS or f"{module}.{name}" in CLOCKS)
        case ast.Call(func=ast.Name(id=name)):
            return name in CLOCKS
        case _:
            return False


def clock_names(tree: ast.AST) -> set[str]:
    """Return the names that are assigned a reading of a clock."""
    readings = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and is_clock_call(node.value)]
    return {target.id for node in readings for target in node.targets if isinstance(target, ast.Name)}


def elapsed_time(source: str) -> Iterator[int]:
    """Yield the lines that compute elapsed wall time or assert on a reading of a clock."""
    if not any(name in source for name in CLOCKS):
        return  # most files; parsing them all takes seconds
    tree = ast.parse(source)
    names = clock_names(tree)

    def is_reading(node: ast.AST) -> bool:
        return is_clock_call(node) or (isinstance(node, ast.Name) and node.id in names)

    for node in ast.walk(tree):
        match node:
            case ast.Assert(test=test) if any(map(is_clock_call, ast.walk(test))):
                yield node.lineno
            case ast.BinOp(left=left, op=ast.Sub(), right=right) if is_reading(left) or is_reading(right):
                yield node.lineno
            case _:
                pass


def test_no_test_asserts_on_elapsed_wall_time(root: Path) -> None:
    found = [
        f"{path.relative_to(root)}:{line}"
        for path in sorted((root / "tests").rglob("*.py"))
        if path.relative_to(root).as_posix() not in EXCEPTIONS
        for line in elapsed_time(path.read_text(encoding="utf-8"))
    ]

    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "begun = time.perf_counter()\nwork()\nassert time.perf_counter() - begun < 5",
        "begun = monotonic()\nwork()\nended = monotonic()\nassert ended - begun < 5",
        "took = anyio.current_time() - begun",
        "assert time.time() < deadline",
    ],
)
def test_elapsed_wall_time_is_found(source: str) -> None:
    assert list(elapsed_time(source))


@pytest.mark.parametrize(
    "source",
    [
        "begun = time.process_time()\nwork()\nassert time.process_time() - begun < 5",
        "until = time.monotonic() + 60\nwhile not ready() and time.monotonic() < until:\n    pass",
        "assert time() == 5",
    ],
)
def test_cpu_time_and_deadlines_are_allowed(source: str) -> None:
    assert not list(elapsed_time(source))
