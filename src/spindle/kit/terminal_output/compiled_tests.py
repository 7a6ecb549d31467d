"""What `cargo test` and `go test` say of tests that pass."""

import re

from spindle.kit.terminal_output.filtering import matching

CARGO_PROGRESS = re.compile(
    r" +(?:Compiling|Checking|Fresh|Dirty|Downloading|Downloaded|Locking|Blocking|Building|Packaging|Unpacking) |"
    r" +Updating (?:\S+ index|git repository)"
)
_CARGO_END = re.compile(r"test result: (?:ok|FAILED)\.|error(?:\[E\d+\])?: ")
_CARGO_PASSED = re.compile(r"test .* \.\.\. (?:ok|ignored.*)$|running \d+ tests?$")
_CARGO_FAILURES = re.compile(r"failures:$|---- .* ----$")


def cargo_noise(lines: list[str]) -> set[int] | None:
    """Compiling, and passing tests; warnings, errors, failures and each target's result stay."""
    if not any(_CARGO_END.match(line) for line in lines):
        return None
    noise = matching(lines, CARGO_PROGRESS)
    telling = False
    for number, line in enumerate(lines):
        if _CARGO_FAILURES.match(line) or line.startswith("test result: "):
            telling = not line.startswith("test result: ")  # what a failing test printed may look like anything
        elif not telling and _CARGO_PASSED.match(line):
            noise.add(number)
    return noise


_GO_END = re.compile(r"(?:ok  |FAIL)\t| *--- (?:FAIL|PASS|SKIP): |PASS$|FAIL$")
_GO_STEP = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME) +(\S*)")
_GO_VERDICT = re.compile(r" *--- (FAIL|PASS|SKIP): (\S+)")
_GO_TOTALS = re.compile(r"(?:ok  |FAIL|\?   )\t|PASS$|FAIL$|panic: |fatal error: |exit status |coverage: |# |testing: ")
_GO_EMPTY = re.compile(r"\?   \t.*\[no test files\]$|PASS$")


def go_noise(lines: list[str]) -> set[int] | None:
    """Steps and passing tests with what they printed, and packages without tests."""
    if not any(_GO_END.match(line) for line in lines):
        return None
    # A name may occur in several packages: it is quiet only if it never failed.
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
