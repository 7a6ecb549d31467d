"""What Jest and Vitest say of tests that pass."""

import re

from spindle.kit.terminal_output.filtering import matching

_JEST_END = re.compile(r"Test Suites: .*\btotal$")
_JEST_SUITE = re.compile(r"(PASS|FAIL) \S")
_JEST_TICK = re.compile(r" +[✓√] ")
_JEST_CONSOLE = re.compile(r"  console\.[a-z]+$")


def jest_noise(lines: list[str]) -> set[int] | None:
    """Passing suites with what they printed, and passing tests of failing suites."""
    if not any(_JEST_END.match(line) for line in lines):
        return None
    noise = matching(lines, _JEST_TICK)
    suite = ""
    printed: set[int] = set()
    for number, line in enumerate(lines):
        found = _JEST_SUITE.match(line)
        if found or (line and not line.startswith(" ")):
            suite = found[1] if found else ""
            noise |= printed if suite == "PASS" else set()
            printed = set()
        if suite == "PASS":
            noise.add(number)
        # Alone in a run, a suite prints before its own headline.
        if _JEST_CONSOLE.match(line) or printed:
            printed.add(number)
    return noise


_VITEST_END = re.compile(r" +Tests  .*\(\d+\)$")
_VITEST_TICK = re.compile(r" +[✓√↓] ")
_VITEST_FAILED = re.compile(r" FAIL  (?:\|[^|]+\| )?(\S+)")
_VITEST_STDOUT = re.compile(r"stdout \| (\S+)")


def vitest_noise(lines: list[str]) -> set[int] | None:
    """Passing files and tests, and what files without a failure printed."""
    if not any(_VITEST_END.match(line) for line in lines):
        return None
    failed = {found[1] for line in lines if (found := _VITEST_FAILED.match(line))}
    noise = matching(lines, _VITEST_TICK)
    printing = False
    for number, line in enumerate(lines):
        headline = _VITEST_STDOUT.match(line)
        if headline:
            printing = headline[1] not in failed
        if printing:
            noise.add(number)
        printing = printing and bool(line)
    return noise


def script_noise(lines: list[str]) -> set[int] | None:
    """`npm test` and the like: whichever of the two it ran."""
    found = jest_noise(lines)
    return found if found is not None else vitest_noise(lines)
