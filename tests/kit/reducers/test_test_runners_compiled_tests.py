"""Against real runs of `cargo test` and `go test`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spindle.kit.reducers.test_runners import find_cargo_noise, find_go_noise

Shell = Callable[..., Any]
Need = Callable[[str], None]

RUST = """
fn idle() {}
#[cfg(test)]
mod tests {
    #[test] fn adds() { println!("printed by a passing test"); assert_eq!(1 + 1, 2); }
    #[test] fn breaks() { println!("printed by the failing test"); println!("test adds ... ok"); assert_eq!(1 + 1, 3); }
    #[test] #[ignore] fn later() {}
    GOOD
}
"""
GO = """
package thing

import ("fmt"; "testing")

func TestGood(t *testing.T) { t.Log("logged by a passing test"); fmt.Println("printed by a passing test") }
func TestBad(t *testing.T) { t.Log("said before"); t.Errorf("got %d, want %d", 1, 2) }
func TestParts(t *testing.T) {
    t.Run("fine", func(t *testing.T) { t.Log("logged by a passing part") })
    t.Run("wrong", func(t *testing.T) { t.Fatal("this part is wrong") })
}
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_cargo_keeps_failures_and_results_and_drops_what_passes(shell: Shell, tmp_path: Path, need: Need) -> None:
    need("cargo")
    good = "\n".join(f"#[test] fn good_{n}() {{}}" for n in range(50))
    shell("cargo init --quiet --lib --name thing .", at_home=True, ok=True)
    (tmp_path / "src" / "lib.rs").write_text(RUST.replace("GOOD", good), encoding="utf-8")

    ran = shell("cargo test --offline", at_home=True)

    assert ran.exit_code != 0
    for part in ("tests::breaks ... FAILED", "printed by the failing test", "test adds ... ok", "left: 2", "idle"):
        assert part in ran.reduced
    assert "test result: FAILED. 51 passed; 1 failed; 1 ignored" in ran.reduced
    assert "good_" not in ran.reduced
    assert "Compiling" not in ran.reduced

    (tmp_path / "src" / "lib.rs").write_text("fn broken() -> u8 { nothing }", encoding="utf-8")
    assert "error[E0425]" in shell("cargo test --offline", at_home=True).reduced


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_go_keeps_failures_and_packages_and_drops_what_passes(shell: Shell, tmp_path: Path, need: Need) -> None:
    need("go")
    (tmp_path / "go.mod").write_text("module example.test/thing\n", encoding="utf-8")
    (tmp_path / "thing_test.go").write_text(GO, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "empty.go").write_text("package empty\n", encoding="utf-8")

    ran = shell("go test -v ./...")

    assert ran.exit_code == 1
    for part in ("--- FAIL: TestBad", "said before", "got 1, want 2", "TestParts/wrong", "this part is wrong"):
        assert part in ran.reduced
    for part in ("TestGood", "by a passing", "=== RUN", "TestParts/fine", "no test files"):
        assert part in ran.text
        assert part not in ran.reduced
    assert "FAIL\texample.test/thing" in ran.reduced

    (tmp_path / "thing_test.go").write_text("package thing\n\nfunc broken() { nothing() }\n", encoding="utf-8")
    assert "undefined: nothing" in shell("go test ./...").reduced


def test_other_output_is_not_recognised() -> None:
    for noise in (find_cargo_noise, find_go_noise):
        assert noise([]) is None
        assert noise(["   Compiling thing", "=== RUN   TestGood"]) is None
