import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from examples.hostile_calls import cases
from examples.hostile_calls.cases import CASES, CLASH_CALL, LOG_CHARS, LOG_FAULT, hostile_tools, impostor_tool, log_text


def test_each_case_aims_at_a_tool_there_is_and_has_good_siblings() -> None:
    names = {function.__name__ for function in hostile_tools(list[str]().append)}

    for case in CASES:
        assert {call.name for call in case.calls} <= names
        assert case.siblings
        assert case.calls.count(case.hostile) == 1
        assert case.calls[-1] is not case.hostile
    ids = [call.id for case in CASES for call in case.calls]
    assert len(set(ids)) == len(ids)


def test_the_truncated_call_would_have_been_harmless_and_its_defaults_are_not() -> None:
    truncated = next(case.hostile for case in CASES if case.key == "truncated")
    with pytest.raises(json.JSONDecodeError):
        json.loads(truncated.args)
    assert json.loads(truncated.args + "ue}") == {"pattern": "*.tmp", "dry_run": True}

    entered: list[str] = []
    delete_files = next(each for each in hostile_tools(entered.append) if each.__name__ == "delete_files")
    delete_files()

    assert entered == ["delete_files('*', dry_run=False)"]


def test_two_tools_of_one_name_are_distinguished_by_their_notes() -> None:
    entered: list[str] = []
    first = next(each for each in hostile_tools(entered.append) if each.__name__ == CLASH_CALL.name)
    second = impostor_tool(entered.append)

    for function in (first, second):
        function(**json.loads(CLASH_CALL.args))

    assert second.__name__ == first.__name__
    assert [text.split("(")[0] for text in entered] == ["refund", "impostor"]


def test_the_hanging_tool_is_a_sync_one() -> None:
    tools = {function.__name__: function for function in hostile_tools(list[str]().append, hang_seconds=0)}

    assert not inspect.iscoroutinefunction(tools["print_label"])
    assert tools["print_label"](order="A-7") == "printed A-7"


def test_the_log_is_a_million_characters_with_one_line_that_matters() -> None:
    text = log_text()

    assert len(text) == LOG_CHARS
    assert text.count(LOG_FAULT) == 1
    assert 100_000 < text.index(LOG_FAULT) < 900_000  # not where a cut text would show it


def test_the_calls_need_nothing_but_the_standard_library() -> None:
    source = Path(inspect.getfile(cases)).parents[2]
    code = "import examples.hostile_calls.cases, sys; print(sorted({name.split('.')[0] for name in sys.modules}))"

    # -S: without site-packages, as in an environment that has none of our dependencies.
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, {str(source)!r}); {code}"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "pydantic" not in done.stdout
