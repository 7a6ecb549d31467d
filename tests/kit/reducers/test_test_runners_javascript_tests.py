"""Against real runs of Jest and Vitest, installed by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spindle.kit.reducers.test_runners import find_jest_noise, find_script_noise, find_vitest_noise

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


def test_what_neither_of_them_printed_is_not_recognised() -> None:
    for noise in (find_jest_noise, find_vitest_noise, find_script_noise):
        assert noise([]) is None
        assert noise(["Tests: some", "PASS everything", "✓ fine"]) is None
