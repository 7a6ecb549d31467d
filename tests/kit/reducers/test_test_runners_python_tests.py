"""Against real runs of pytest and unittest."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from spindle.kit.reducers.test_runners import find_pytest_noise, find_unittest_noise

Shell = Callable[..., Any]

MIXED = """
    import warnings
    import pytest

    @pytest.mark.parametrize("number", range(80))
    def test_good(number):
        print("printed by a passing test")

    def test_bad():
        print("printed by the failing test")
        print("=== test session starts ===")
        print("collecting evidence")
        value = 1
        assert value == 2, "one is not two"

    @pytest.fixture
    def broken():
        raise RuntimeError("no such fixture value")

    def test_error(broken):
        pass

    def test_warns():
        warnings.warn("take care")

    @pytest.mark.skip(reason="later")
    def test_skipped():
        pass
"""
STORY = [
    "assert value == 2",
    "one is not two",
    "printed by the failing test",
    "collecting evidence",
    "RuntimeError: no such fixture value",
    "UserWarning: take care",
    "FAILED test_mixed.py::test_bad",
    "ERROR test_mixed.py::test_error",
    "1 failed, 81 passed, 1 skipped, 1 warning, 1 error in ",
]


def run_pytest(shell: Shell, options: str) -> Any:
    quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return shell(f"{sys.executable} -m pytest -p no:cacheprovider {options}", called=f"pytest {options}", env=quick)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    (tmp_path / "test_mixed.py").write_text(dedent(MIXED), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "options", ["-v", "-q", *(pytest.param(each, marks=pytest.mark.slow) for each in ("", "-rA", "--color=yes -v"))]
)
@pytest.mark.usefixtures("mixed")
def test_failures_stay_with_their_context_and_passing_tests_go(shell: Shell, options: str) -> None:
    ran = run_pytest(shell, options)

    assert ran.exit_code == 1
    assert [part for part in STORY if part not in ran.reduced] == []
    assert "printed by a passing test" not in ran.reduced
    assert "test_good" not in ran.reduced
    assert "rootdir" not in ran.reduced
    assert len(ran.reduced) < len(ran.text)


@pytest.mark.slow
@pytest.mark.usefixtures("mixed")
def test_a_run_without_tracebacks_still_names_its_failures(shell: Shell) -> None:
    ran = run_pytest(shell, "-v --tb=no -rN")

    assert "test_mixed.py::test_bad FAILED" in ran.reduced
    assert "test_mixed.py::test_error ERROR" in ran.reduced
    assert "test_good" not in ran.reduced


@pytest.mark.slow
@pytest.mark.usefixtures("mixed")
def test_progress_letters_stay_if_nothing_else_shows_the_failures(shell: Shell) -> None:
    ran = run_pytest(shell, "--tb=no -rN")

    assert any(set("FE") <= set(line) for line in ran.reduced.split("\n"))


@pytest.mark.slow
@pytest.mark.usefixtures("mixed")
def test_a_run_that_passes_is_its_summary(shell: Shell) -> None:
    ran = run_pytest(shell, "-v -k good")

    assert ran.exit_code == 0
    assert "80 passed, 4 deselected in " in ran.reduced
    assert "test_good" not in ran.reduced
    assert len(ran.reduced) < 300


@pytest.mark.slow
def test_an_error_while_collecting_stays(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import no_such_module\n", encoding="utf-8")

    ran = run_pytest(shell, "")

    assert "ModuleNotFoundError: No module named 'no_such_module'" in ran.reduced
    assert "Interrupted: 1 error during collection" in ran.reduced


@pytest.mark.slow
def test_output_that_is_not_a_test_run_is_unchanged(shell: Shell) -> None:
    ran = run_pytest(shell, "no_such_file.py --no-such-option")

    assert "unrecognized arguments" in ran.text
    assert ran.reduced == ran.text


UNITTEST = '''
    import unittest

    class Case(unittest.TestCase):
        def test_bad(self):
            """Bad, and says so."""
            self.assertEqual(1 + 1, 3, "two is not three")

        def test_documented(self):
            """A passing test with words."""

        def test_error(self):
            raise KeyError("missing")

        @unittest.skip("later")
        def test_skipped(self):
            pass

    for number in range(60):
        setattr(Case, f"test_good_{number}", lambda self: None)
'''


@pytest.mark.parametrize("options", ["", "-v"])
def test_unittest_keeps_its_failures_and_its_end(shell: Shell, tmp_path: Path, options: str) -> None:
    (tmp_path / "test_case.py").write_text(dedent(UNITTEST), encoding="utf-8")

    ran = shell(f"{sys.executable} -m unittest {options} test_case")

    # Whether a skipped test was run is a matter of the Python: 63 or 64.
    count = next(line for line in ran.text.splitlines() if line.startswith("Ran 6"))
    for part in (
        "FAIL: test_bad",
        "two is not three",
        "KeyError: 'missing'",
        count,
        "failures=1, errors=1",
    ):
        assert part in ran.reduced
    assert "test_good" not in ran.reduced
    assert "A passing test with words." not in ran.reduced
    assert "...." not in ran.reduced


def test_other_output_is_not_recognised() -> None:
    assert find_pytest_noise(["12 passengers in 3 cars"]) is None
    assert find_pytest_noise([]) is None
    assert find_unittest_noise(["Ran out of memory"]) is None
