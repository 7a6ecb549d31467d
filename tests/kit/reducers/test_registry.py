"""The ready-made reducers through their public door."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spindle import Err, Ok
from spindle.execution import ReduceInfo, safe_reduce
from spindle.kit.reducers import default_reducers, kanban_list_reducer, read_file_reducer, terminal_reducer

REDUCERS = [terminal_reducer, read_file_reducer, kanban_list_reducer]


def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def read(text: str, args: object) -> str:
    result = read_file_reducer.reduce(Ok(text), ReduceInfo(args, 0))
    assert isinstance(result, Ok)
    return result.value


def test_the_default_reducers_are_fresh_each_time_and_can_be_added_to() -> None:
    first, second = default_reducers(), default_reducers()

    assert [reducer.tool_name for reducer in first] == ["terminal", "read_file", "kanban_list"]
    assert first is not second
    assert first.get("terminal") is terminal_reducer


@pytest.mark.parametrize("reducer", REDUCERS, ids=lambda reducer: reducer.tool_name)
def test_a_failure_is_left_as_it_is(reducer: Any) -> None:
    failure = Err("execution_failed", "x\n" * 9000)

    assert reducer.reduce(failure, ReduceInfo({"command": "git status"}, 0)) is failure


@pytest.mark.parametrize(
    "args", [{"path": "a"}, {"path": "a", "start_line": None, "end_line": None}, None, {"lineStart": 1}]
)
def test_a_file_read_without_a_range_shows_its_size_and_200_lines(args: object) -> None:
    hint, *shown = read(lines(1240), args).split("\n")

    assert hint == "File is 1240 lines. Showing lines 1-200. Call read_file with start_line/end_line for more."
    assert shown == [f"line {number}" for number in range(1, 201)]


@dataclass
class ReadFileArgs:
    path: str = "a"
    start_line: int | None = None
    end_line: int | None = None


@pytest.mark.parametrize(
    "args",
    [
        {"path": "a", "start_line": 1},
        {"path": "a", "end_line": 900},
        {"start_line": 0},
        ReadFileArgs(start_line=5),
        ReadFileArgs(end_line=5),
    ],
)
def test_a_range_is_left_as_it_is(args: object) -> None:
    assert read(lines(900), args) == lines(900)


def test_arguments_may_be_an_object_of_the_schemas_class() -> None:
    assert read(lines(300), ReadFileArgs()).startswith("File is 300 lines.")


@pytest.mark.parametrize("text", [lines(200), lines(200).rstrip("\n"), "", "\n" * 200, "x" * 100_000])
def test_200_lines_are_left_as_they_are(text: str) -> None:
    assert read(text, {"path": "a"}) == text


def test_a_hint_that_would_make_a_file_longer_is_not_given() -> None:
    assert read("\n" * 210, {"path": "a"}) == "\n" * 210


def test_a_board_is_summarised_and_keeps_what_is_structured() -> None:
    items = [{"id": n, "title": "a title", "status": "todo", "updated_at": n} for n in range(30)]
    result = Ok(json.dumps(items), structured=items)

    reduced = kanban_list_reducer.reduce(result, ReduceInfo({}, 0))

    assert isinstance(reduced, Ok)
    assert reduced.value.startswith("Counts by status: todo=30. Top 5 open: 29: a title; 28:")
    assert reduced.structured is items


@pytest.mark.parametrize("command", ["cat log", "", None, 7, "pytest", "git status", "npm ci"])
def test_output_that_is_not_recognised_is_its_head_and_tail(command: object, shell: Callable[..., Any]) -> None:
    text = shell("seq 5000").text

    reduced = terminal_reducer.reduce(Ok(text), ReduceInfo({"command": command}, 0))

    assert isinstance(reduced, Ok)
    assert reduced.value.startswith("1\n2\n")
    assert reduced.value.endswith("\n4999\n5000") or command == "npm ci"
    assert len(reduced.value) < 1000


COMMANDS = [
    "git status",
    "git status -s",
    "pytest",
    "python -m unittest",
    "npx jest",
    "npx vitest",
    "npm test",
    "cargo test",
    "go test",
    "pip install x",
    "uv sync",
    "npm ci",
    "pnpm i",
    "yarn",
    "apt-get install x",
    "cargo build",
    "ls",
]
PIECES = [
    "On branch main",
    "Changes to be committed:",
    "\tmodified:   a",
    "Untracked files:",
    "\tb",
    " M a",
    "?? b",
    "R  a -> b",
    "## main",
    "1 .M N... 100644 100644 100644 a b path",
    "\0",
    "==== test session starts ====",
    "a.py ..F [ 50%]",
    "a.py::test_x PASSED",
    "==== FAILURES ====",
    "==== PASSES ====",
    "1 failed, 2 passed in 0.1s",
    "Ran 3 tests in 0.1s",
    "PASS a.test.js",
    "FAIL b.test.js",
    "  console.log",
    "Test Suites: 1 failed, 1 total",
    "      Tests  1 failed (1)",
    "stdout | a.js > x",
    "test a ... ok",
    "test result: ok. 1 passed",
    "failures:",
    "=== RUN   TestA",
    "--- PASS: TestA (0.0s)",
    "--- FAIL: TestA (0.0s)",
    "ok  \tp\t0.1s",
    "Collecting a",
    "ERROR: no",
    "Successfully installed a",
    "added 3 packages",
    "\x1b[31mred\x1b[0m",
    "50%\r100%",
    "",
]
texts = st.text(max_size=400) | st.lists(st.sampled_from(PIECES) | st.text(max_size=200), max_size=400).map("\n".join)
commands = st.sampled_from(COMMANDS) | st.text(max_size=60)


@given(texts, commands, st.none() | st.integers(-2, 2))
@example("x" * 9_000, "ls", None)
@example("\n" * 9_000, "npm ci", 1)
def test_no_output_of_no_command_is_lengthened_or_too_strange(text: str, command: str, exit_code: int | None) -> None:
    result = Ok(text, structured={"exit_code": exit_code})
    info = ReduceInfo({"command": command}, 1)

    reduced = terminal_reducer.reduce(result, info)

    assert isinstance(reduced, Ok)
    assert len(reduced.value) <= len(text)
    assert reduced == terminal_reducer.reduce(result, info)
    assert reduced.structured is result.structured


@pytest.mark.slow
@given(texts, st.sampled_from(REDUCERS), st.none() | st.dictionaries(st.text(), st.none() | st.text()))
def test_the_guard_has_nothing_to_say_about_the_ready_made_reducers(text: str, reducer: Any, args: Any) -> None:
    reported: list[str] = []

    safe_reduce(reducer, Ok(text), ReduceInfo(args, 0), warn=lambda message, error: reported.append(message))

    assert not reported


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "piece"),
    [
        ("pytest", "a::" * 300_000 + " PASSED x"),
        ("pytest", "1 passed in 1s\n" + "x.py s" * 150_000 + "!"),
        ("pytest", "1 passed in 1s\n" + "a.b " * 250_000),
        ("pytest", "1 passed in 1s\n" + "a::b PASSED (" * 80_000),
        ("go test", "ok  \tp\n" + "=== RUN   " * 100_000),
        ("cargo test", "error: x\n" + "test ... " * 100_000),
        ("python -m unittest", "Ran 1 test in 1s\n" + " ... " * 200_000),
        ("npm ci", "npm warn " * 100_000),
        ("git status", "On branch x\nChanges to be committed:\n\t" + "a (new commits" * 70_000),
        ("git status", "\x1b[" * 400_000 + "\x1b]" * 100_000),
        ("yarn", "\r" * 1_000_000),
    ],
)
@pytest.mark.timeout(10)
def test_a_hostile_line_takes_no_time(command: str, piece: str) -> None:
    terminal_reducer.reduce(Ok(piece), ReduceInfo({"command": command}, 0))
