import pytest

from spindle.kit.reducers.test_runners import get_test_noise


@pytest.mark.parametrize(
    "command",
    [
        "pytest",
        "pytest -x tests/a.py::test_b",
        ".venv/bin/pytest -q",
        "python -m pytest",
        "python3.11 -X dev -m pytest -q",
        "python -m coverage run -m pytest",
        "uv run pytest -q",
        "poetry run python -m pytest",
        "cd app && pytest 2>&1",
        "python -m unittest discover -v",
        "jest",
        "npx jest --ci",
        "npx --yes vitest run",
        "node_modules/.bin/jest",
        "node node_modules/jest/bin/jest.js",
        "node --test",
        "cd app && node --test --test-reporter=spec test/",
        "npm test",
        "npm t",
        "npm run test:unit -- --ci",
        "pnpm test",
        "pnpm vitest",
        "pnpm exec jest",
        "yarn test",
        "cargo test",
        "cargo +nightly test --all",
        "go test ./...",
    ],
)
def test_a_run_of_tests_is_known(command: str) -> None:
    assert get_test_noise(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "python pytest_like.py",
        "python -m",
        "python -m http.server",
        "uv run",
        "uv pip install pytest",
        "pip install pytest",
        "npm run build",
        "npm",
        "npx",
        "yarn run",
        "cargo build",
        "go build ./...",
        "echo pytest",
        "pytest | tail -5",
        "pytest && git push",
        "unittest-like",
    ],
)
def test_another_command_is_not_taken_for_one(command: str) -> None:
    assert get_test_noise(command) is None
