"""What pytest and unittest say of tests that pass."""

import re

from spindle.kit.terminal_output.filtering import matching

_PYTEST_END = re.compile(
    r"(?:=+ )?(?:no tests ran|\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s(?: \([\d:, a-z]+\))?(?: =+)?$"
)
_TITLE = re.compile(r"=+ ([A-Za-z][^=]*) =+$")
_PROGRESS, _SUMMARY = "test session starts", "short test summary info"
_FAILURES = ("ERRORS", "FAILURES")
_SETTINGS = re.compile(
    r"(?:platform|cachedir:|rootdir:|configfile:|testpaths:|plugins:|hypothesis profile|metadata:|asyncio: mode|"
    r"timeout: |timeout method:|timeout func_only:|Using --randomly|created: \d|\d+ workers \[|bringing up nodes|"
    r"scheduling tests via|collecting )"
)
_PERCENT = r"(?: +\[ *\d+(?:%|/\d+)\])?$"
_DOTS = re.compile(r"(?:\S.*\.\w+ )?[.sxX,]+" + _PERCENT)
_DOTS_WITH_FAILURES = re.compile(r"(?:\S.*\.\w+ )?[.,FEsxXR]+" + _PERCENT)
_PASSED = re.compile(r" (?:PASSED|SKIPPED|XFAIL)(?: \([^()]*\))?" + _PERCENT)
"""Searched for, not matched: with a name of any shape before it, a hostile line would take forever."""
_PASSED_BY_WORKER = re.compile(r"\[gw\d+\] \[ *\d+%\] (?:PASSED|SKIPPED|XFAIL) ")
_SCHEDULED = re.compile(r"\S+::\S+ $")
_PASSED_IN_SUMMARY = re.compile(r"PASSED ")


def pytest_noise(lines: list[str]) -> set[int] | None:
    """Settings, progress and passing tests; failures, errors, warnings and summaries stay."""
    if not any(_PYTEST_END.match(line) for line in lines):
        return None
    titles = _titles(lines)
    failures_follow = not {*_FAILURES, _SUMMARY}.isdisjoint(titles.values())
    noise: set[int] = set()
    section = _PROGRESS
    for number, line in enumerate(lines):
        section = titles.get(number, section)
        if _is_pytest_noise(section, line, failures_follow=failures_follow):
            noise.add(number)
    return noise


def _titles(lines: list[str]) -> dict[int, str]:
    """Where sections begin; what looks like one amid the failures was printed by a failing test."""
    titles = {number: found[1] for number, line in enumerate(lines) if (found := _TITLE.match(line))}
    failures = [number for number, title in titles.items() if title in _FAILURES]
    first, last = (failures[0], failures[-1]) if failures else (len(lines), 0)
    return {
        number: title
        for number, title in titles.items()
        if not (title == _PROGRESS and number > first) and not (title == "PASSES" and number < last)
    }


def _is_pytest_noise(section: str, line: str, *, failures_follow: bool) -> bool:
    if section == "PASSES":
        return True
    if section == _SUMMARY:
        return bool(_PASSED_IN_SUMMARY.match(line))
    if section != _PROGRESS:
        return False
    if any(pattern.match(line) for pattern in (_TITLE, _SETTINGS, _DOTS, _PASSED_BY_WORKER, _SCHEDULED)):
        return True
    if "::" in line and _PASSED.search(line):
        return True
    # A failure that is told in full below need not be told as a letter too.
    return failures_follow and bool(_DOTS_WITH_FAILURES.match(line))


_UNITTEST_END = re.compile(r"Ran \d+ tests? in [\d.]+s$")
_UNITTEST_DOTS = re.compile(r"[.sxFEu]+$")
_UNITTEST_RULE = re.compile(r"={70}$")
_UNITTEST_PASSED = re.compile(r".* \.\.\. (?:ok|expected failure|skipped .*)$")
_UNITTEST_NAME = re.compile(r"test\w* \([\w.]+\)$")


def unittest_noise(lines: list[str]) -> set[int] | None:
    """Dots and passing tests, up to where the failures begin."""
    if not any(_UNITTEST_END.match(line) for line in lines):
        return None
    begins = next((number for number, line in enumerate(lines) if _UNITTEST_RULE.match(line)), len(lines))
    progress = lines[:begins]
    passed = matching(progress, _UNITTEST_PASSED)
    # With a docstring a test takes two lines: its name, and the docstring with what became of it.
    names = {number for number in matching(progress, _UNITTEST_NAME) if number + 1 in passed}
    return passed | names | matching(progress, _UNITTEST_DOTS)
