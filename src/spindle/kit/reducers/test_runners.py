"""Recognizes commands that run tests, and finds progress and passing tests in their output, to leave them out."""

import re

from spindle.kit.reducers.lines import NoiseFilter, drop_options, find_matching, get_program, split_command

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
"""Searched for, not matched: a pattern for the name before it would backtrack without bound on a malicious line."""
_PASSED_BY_WORKER = re.compile(r"\[gw\d+\] \[ *\d+%\] (?:PASSED|SKIPPED|XFAIL) ")
_SCHEDULED = re.compile(r"\S+::\S+ $")
_PASSED_IN_SUMMARY = re.compile(r"PASSED ")


def find_pytest_noise(lines: list[str]) -> set[int] | None:
    """Find settings, progress and passing tests; failures, errors, warnings and summaries are kept."""
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
    """Find the section titles; a title inside the failures was printed by a failing test and is ignored."""
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
    # A failure that is reported in full below need not be shown as a letter too.
    return failures_follow and bool(_DOTS_WITH_FAILURES.match(line))


_UNITTEST_END = re.compile(r"Ran \d+ tests? in [\d.]+s$")
_UNITTEST_DOTS = re.compile(r"[.sxFEu]+$")
_UNITTEST_RULE = re.compile(r"={70}$")
_UNITTEST_PASSED = re.compile(r".* \.\.\. (?:ok|expected failure|skipped .*)$")
_UNITTEST_NAME = re.compile(r"test\w* \([\w.]+\)$")


def find_unittest_noise(lines: list[str]) -> set[int] | None:
    """Find dots and passing tests, up to the first failure."""
    if not any(_UNITTEST_END.match(line) for line in lines):
        return None
    begins = next((number for number, line in enumerate(lines) if _UNITTEST_RULE.match(line)), len(lines))
    progress = lines[:begins]
    passed = find_matching(progress, _UNITTEST_PASSED)
    # A test with a docstring takes two lines: its name, then the docstring with the outcome.
    names = {number for number in find_matching(progress, _UNITTEST_NAME) if number + 1 in passed}
    return passed | names | find_matching(progress, _UNITTEST_DOTS)


_JEST_END = re.compile(r"Test Suites: .*\btotal$")
_JEST_SUITE = re.compile(r"(PASS|FAIL) \S")
_JEST_TICK = re.compile(r" +[✓√] ")
_JEST_CONSOLE = re.compile(r"  console\.[a-z]+$")


def find_jest_noise(lines: list[str]) -> set[int] | None:
    """Find passing suites with their output, and passing tests of failing suites."""
    if not any(_JEST_END.match(line) for line in lines):
        return None
    noise = find_matching(lines, _JEST_TICK)
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
        # The output of a single suite comes before its headline.
        if _JEST_CONSOLE.match(line) or printed:
            printed.add(number)
    return noise


_VITEST_END = re.compile(r" +Tests  .*\(\d+\)$")
_VITEST_TICK = re.compile(r" +[✓√↓] ")
_VITEST_FAILED = re.compile(r" FAIL  (?:\|[^|]+\| )?(\S+)")
_VITEST_STDOUT = re.compile(r"stdout \| (\S+)")


def find_vitest_noise(lines: list[str]) -> set[int] | None:
    """Find passing files and tests, and the output of files without a failure."""
    if not any(_VITEST_END.match(line) for line in lines):
        return None
    failed = {found[1] for line in lines if (found := _VITEST_FAILED.match(line))}
    noise = find_matching(lines, _VITEST_TICK)
    printing = False
    for number, line in enumerate(lines):
        headline = _VITEST_STDOUT.match(line)
        if headline:
            printing = headline[1] not in failed
        if printing:
            noise.add(number)
        printing = printing and bool(line)
    return noise


_TAP_START = re.compile(r"TAP version 1[34]$")
_TAP_POINT = re.compile(r"( *)(not ok|ok)(?: \d+)?(?: - (.*))?$")
_TAP_HEADLINE = re.compile(r"( *)# Subtest: (.*)$")
_TAP_INNER_PLAN = re.compile(r" +1\.\.\d+$")
_TAP_DIRECTIVE = re.compile(r" # (?:SKIP|TODO)\b", re.IGNORECASE)


def find_tap_noise(lines: list[str]) -> set[int] | None:
    """Find passing and skipped tests in TAP, the format `node --test` writes into a pipe; failures keep their name."""
    if not any(_TAP_START.match(line) for line in lines):
        return None
    noise = find_matching(lines, _TAP_INNER_PLAN)
    headlines: dict[tuple[str, str], int] = {}
    details_end, is_passing = "", False
    for number, line in enumerate(lines):
        if details_end:  # a test's details may contain any text
            if is_passing:
                noise.add(number)
            else:
                noise.discard(number)
            details_end = "" if line == details_end else details_end
        elif headline := _TAP_HEADLINE.match(line):
            headlines[headline[1], headline[2]] = number
        elif point := _TAP_POINT.match(line):
            indent, name = point[1], _TAP_DIRECTIVE.split(point[3] or "")[0]
            started = headlines.pop((indent, name), None)
            is_passing = point[2] == "ok" or bool(_TAP_DIRECTIVE.search(line))
            if is_passing:
                noise |= {number} if started is None else {number, started}
            if number + 1 < len(lines) and lines[number + 1] == f"{indent}  ---":
                details_end = f"{indent}  ..."
    return noise


_NODE_SPEC_END = re.compile(r"ℹ tests \d+$")  # noqa: RUF001 -- the sign that node prints
_NODE_SPEC_TICK = re.compile(r" *[✔﹣] ")
_NODE_SPEC_SUITE = re.compile(r"( *)▶ (.*)$")
_NODE_SPEC_FAILURES = "✖ failing tests:"


def find_node_spec_noise(lines: list[str]) -> set[int] | None:
    """Find passing and skipped tests and suites in the format `node --test` writes to a terminal."""
    if not any(_NODE_SPEC_END.match(line) for line in lines):
        return None
    end = lines.index(_NODE_SPEC_FAILURES) if _NODE_SPEC_FAILURES in lines else len(lines)
    progress = lines[:end]
    noise = find_matching(progress, _NODE_SPEC_TICK)
    passed = {re.sub(r" \([\d.]+ms\).*$", "", progress[number]) for number in noise}
    suites = ((number, _NODE_SPEC_SUITE.match(line)) for number, line in enumerate(progress))
    return noise | {number for number, suite in suites if suite and f"{suite[1]}✔ {suite[2]}" in passed}


def find_node_noise(lines: list[str]) -> set[int] | None:
    """Find the noise of `node --test`."""
    found = find_tap_noise(lines)
    return found if found is not None else find_node_spec_noise(lines)


def find_script_noise(lines: list[str]) -> set[int] | None:
    """Find the noise of a test script, which may run jest, vitest or node's own runner."""
    finders = (find_jest_noise, find_vitest_noise, find_node_noise)
    return next((found for find in finders if (found := find(lines)) is not None), None)


CARGO_PROGRESS = re.compile(
    r" +(?:Compiling|Checking|Fresh|Dirty|Downloading|Downloaded|Locking|Blocking|Building|Packaging|Unpacking) |"
    r" +Updating (?:\S+ index|git repository)"
)
_CARGO_END = re.compile(r"test result: (?:ok|FAILED)\.|error(?:\[E\d+\])?: ")
_CARGO_PASSED = re.compile(r"test .* \.\.\. (?:ok|ignored.*)$|running \d+ tests?$")
_CARGO_FAILURES = re.compile(r"failures:$|---- .* ----$")


def find_cargo_noise(lines: list[str]) -> set[int] | None:
    """Find build progress and passing tests; warnings, errors, failures and each target's result are kept."""
    if not any(_CARGO_END.match(line) for line in lines):
        return None
    noise = find_matching(lines, CARGO_PROGRESS)
    telling = False
    for number, line in enumerate(lines):
        if _CARGO_FAILURES.match(line) or line.startswith("test result: "):
            telling = not line.startswith("test result: ")  # a failing test's output may look like anything
        elif not telling and _CARGO_PASSED.match(line):
            noise.add(number)
    return noise


_GO_END = re.compile(r"(?:ok  |FAIL)\t| *--- (?:FAIL|PASS|SKIP): |PASS$|FAIL$")
_GO_STEP = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME) +(\S*)")
_GO_VERDICT = re.compile(r" *--- (FAIL|PASS|SKIP): (\S+)")
_GO_TOTALS = re.compile(r"(?:ok  |FAIL|\?   )\t|PASS$|FAIL$|panic: |fatal error: |exit status |coverage: |# |testing: ")
_GO_EMPTY = re.compile(r"\?   \t.*\[no test files\]$|PASS$")


def find_go_noise(lines: list[str]) -> set[int] | None:
    """Find steps, passing tests with their output, and packages without tests."""
    if not any(_GO_END.match(line) for line in lines):
        return None
    # A name may occur in several packages: it is dropped only if it never failed.
    verdicts = [found.groups() for line in lines if (found := _GO_VERDICT.match(line))]
    failed = {name for verdict, name in verdicts if verdict == "FAIL"}
    passed = {name for verdict, name in verdicts if verdict == "PASS"} - failed
    noise: set[int] = set()
    running = ""
    for number, line in enumerate(lines):
        step, verdict = _GO_STEP.match(line), _GO_VERDICT.match(line)
        if step or verdict:
            running = step[1] if step else verdict[2] if verdict else ""
        elif _GO_TOTALS.match(line):
            running = ""
        if step or _GO_EMPTY.match(line) or (running and running in passed):
            noise.add(number)
    return noise


_WORDS = "progress and passing tests"
_RUNNERS = {
    "pytest": NoiseFilter(find_pytest_noise, _WORDS),
    "py.test": NoiseFilter(find_pytest_noise, _WORDS),
    "unittest": NoiseFilter(find_unittest_noise, _WORDS),
    "jest": NoiseFilter(find_jest_noise, _WORDS),
    "jest.js": NoiseFilter(find_jest_noise, _WORDS),
    "vitest": NoiseFilter(find_vitest_noise, _WORDS),
    "vitest.mjs": NoiseFilter(find_vitest_noise, _WORDS),
    "node --test": NoiseFilter(find_node_noise, _WORDS),
    "npm test": NoiseFilter(find_script_noise, _WORDS),
    "cargo": NoiseFilter(find_cargo_noise, _WORDS),
    "go": NoiseFilter(find_go_noise, _WORDS),
}
_PYTHON = re.compile(r"python[\d.]*$")
_ENVIRONMENTS = {"uv", "poetry", "pdm", "hatch", "pipenv", "rye"}
_NODE_RUNNERS = {"npx", "bunx", "node"}
_NODE_MANAGERS = {"npm", "pnpm", "yarn", "bun"}
_TEST_SCRIPT = re.compile(r"(?:test|tst|t)(?::[\w:-]+)?$")


def get_test_noise(command: str) -> NoiseFilter | None:
    """Return the noise filter for `command` if it runs tests."""
    runner = _runner(split_command(command) or [])
    return _RUNNERS.get(runner)


def _runner(words: list[str]) -> str:
    name, rest = get_program(words), drop_options(words[1:])
    if _PYTHON.match(name):
        return _python_module(words)
    if name in _ENVIRONMENTS and rest[:1] == ["run"]:
        return _runner(words[words.index(rest[1]) :]) if len(rest) > 1 else ""
    if name in {"cargo", "go"}:
        return name if rest[:1] in (["test"], ["t"]) else ""
    if name == "node" and "--test" in words:
        return "node --test"
    if name in _NODE_RUNNERS:
        return get_program(rest)
    if name in _NODE_MANAGERS:
        return _node_script(rest)
    return name


def _python_module(words: list[str]) -> str:
    if "-m" not in words[:-1]:
        return ""
    module = words[words.index("-m") + 1 :]
    if module[0] in {"coverage", "trace"}:
        return _python_module(module)
    return module[0] if module[0] in {"pytest", "unittest"} else ""


def _node_script(rest: list[str]) -> str:
    words = rest[1:] if rest[:1] in (["run"], ["exec"], ["x"], ["dlx"]) else rest
    if not words:
        return ""
    if words[0] in {"jest", "vitest"}:
        return words[0]
    return "npm test" if _TEST_SCRIPT.match(words[0]) else ""
