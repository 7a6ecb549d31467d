"""Against real runs of Jest, Vitest and node's own test runner."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spindle.kit.reducers.test_runners import (
    find_jest_noise,
    find_node_noise,
    find_script_noise,
    find_tap_noise,
    find_vitest_noise,
)

Shell = Callable[..., Any]

GOOD = """
describe("sums", () => {
  test("adds", () => { console.log("printed by a passing file"); expect(1 + 1).toBe(2); });
  test("adds more", () => expect(2 + 1).toBe(3));
});
"""
BAD = """
describe("differences", () => {
  test("subtracts", () => { console.log("printed by a failing file"); expect(3 - 1).toBe(1); });
  test("is fine", () => expect(2).toBe(2));
  test.skip("comes later", () => {});
});
"""


def install(shell: Shell, tmp_path: Path, package: str, *, prelude: str = "", script: str) -> None:
    manifest = f'{{"name": "app", "version": "1.0.0", "type": "{"module" if prelude else "commonjs"}", '
    (tmp_path / "package.json").write_text(manifest + f'"scripts": {{"test": "{script}"}}}}', encoding="utf-8")
    (tmp_path / "good.test.js").write_text(prelude + GOOD, encoding="utf-8")
    (tmp_path / "bad.test.js").write_text(prelude + BAD, encoding="utf-8")
    shell(f"npm install {package}", at_home=True, ok=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_jest_keeps_failures_and_drops_what_passes(shell: Shell, tmp_path: Path, need: Callable[[str], None]) -> None:
    need("npm")
    install(shell, tmp_path, "jest", script="jest")

    for command in ("npx jest", "npx jest --verbose", "npm test", "CI=1 npm run test"):
        ran = shell(command, at_home=True)
        assert ran.exit_code == 1
        for part in ("FAIL", "differences › subtracts", "Expected: 1", "Received: 2", "printed by a failing file"):
            assert part in ran.reduced
        assert "Tests:       1 failed, 1 skipped, 3 passed, 5 total" in ran.reduced
        assert "Test Suites: 1 failed, 1 passed, 2 total" in ran.reduced

    for command in ("npx jest good", "npx jest --verbose good"):
        passing = shell(command, at_home=True)
        assert passing.exit_code == 0
        assert "Tests:       2 passed, 2 total" in passing.reduced
        assert "adds" not in passing.reduced
        assert "printed by a passing file" not in passing.reduced


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_vitest_keeps_failures_and_drops_what_passes(shell: Shell, tmp_path: Path, need: Callable[[str], None]) -> None:
    need("npm")
    prelude = 'import { describe, test, expect } from "vitest";\n'
    install(shell, tmp_path, "vitest@3", prelude=prelude, script="vitest run")

    for command in ("npx vitest run", "npx vitest run --reporter=verbose", "npm test"):
        ran = shell(command, at_home=True)
        assert ran.exit_code == 1
        for part in ("bad.test.js > differences > subtracts", "expected 2 to be 1", "printed by a failing file"):
            assert part in ran.reduced
        assert "1 failed | 3 passed | 1 skipped (5)" in ran.reduced
        assert "Failed Tests 1" in ran.reduced

    passing = shell("npx vitest run good", at_home=True)
    assert "2 passed (2)" in passing.reduced
    assert "printed by a passing file" not in passing.reduced


NODE_TESTS = """
const test = require("node:test");
const assert = require("node:assert");
for (let number = 0; number < 60; number++) test("passes " + number, () => {});
test("breaks on seven", () => assert.equal(7, 8));
test("group", async (t) => {
  await t.test("inner passes", () => {});
  await t.test("inner fails", () => { throw new Error("boom\\nok 1 - not a test"); });
});
test("comes later", { skip: true }, () => {});
"""


@pytest.mark.slow
@pytest.mark.parametrize("reporter", ["spec", "tap"])
def test_node_test_keeps_the_names_of_failing_tests(
    shell: Shell, tmp_path: Path, need: Callable[[str], None], reporter: str
) -> None:
    need("node")
    need("npm")
    script = f"node --test --test-reporter={reporter}"
    (tmp_path / "package.json").write_text(f'{{"name": "app", "scripts": {{"test": "{script}"}}}}', encoding="utf-8")
    (tmp_path / "app.test.js").write_text(NODE_TESTS, encoding="utf-8")

    for command in (script, "npm test"):
        ran = shell(command)

        assert ran.exit_code == 1
        for part in ("breaks on seven", "7 == 8", "group", "inner fails", "boom", "ok 1 - not a test", "fail 3"):
            assert part in ran.reduced
        for part in ("passes", "comes later"):
            assert part not in ran.reduced


SPEC: str = """✔ passes 0 (3.902943ms)
✔ passes 1 (0.192169ms)
✖ breaks on seven (1.108308ms)
▶ group
  ✔ inner passes (0.122669ms)
  ✖ inner fails (0.195054ms)
✖ group (1.471026ms)
﹣ comes later (0.454849ms) # SKIP
ℹ tests 6
ℹ suites 0
ℹ pass 3
ℹ fail 3

✖ failing tests:

test at app.test.js:5:1
✖ breaks on seven (1.108308ms)
  AssertionError [ERR_ASSERTION]: 7 == 8

test at app.test.js:8:11
✖ inner fails (0.195054ms)
  Error: boom
  ok 1 - not a test
"""


def test_spec_output_keeps_the_names_and_details_of_failures() -> None:
    lines = SPEC.splitlines()

    noise = find_node_noise(lines)

    assert noise is not None
    assert noise == find_script_noise(lines)
    assert [lines[number] for number in sorted(noise)] == [
        "✔ passes 0 (3.902943ms)",
        "✔ passes 1 (0.192169ms)",
        "  ✔ inner passes (0.122669ms)",
        "﹣ comes later (0.454849ms) # SKIP",
    ]


TAP: str = """TAP version 13
# Subtest: parses
ok 1 - parses
  ---
  duration_ms: 0.1
  ...
# Subtest: writes
not ok 2 - writes
  ---
  error: |-
    ok 3 - this is a message
  ...
# Subtest: reads
not ok 3 - reads # TODO later
1..3
# tests 3
# fail 1
"""


def test_tap_output_keeps_the_name_and_details_of_failures() -> None:
    lines = TAP.splitlines()

    noise = find_tap_noise(lines)

    assert noise is not None
    assert [line for number, line in enumerate(lines) if number not in noise] == [
        "TAP version 13",
        "# Subtest: writes",
        "not ok 2 - writes",
        "  ---",
        "  error: |-",
        "    ok 3 - this is a message",
        "  ...",
        "1..3",
        "# tests 3",
        "# fail 1",
    ]


def test_other_output_is_not_recognised() -> None:
    for noise in (find_jest_noise, find_vitest_noise, find_script_noise):
        assert noise([]) is None
        assert noise(["Tests: some", "PASS everything", "✓ fine"]) is None
