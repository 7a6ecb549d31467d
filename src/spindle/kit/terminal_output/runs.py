"""Which commands run tests."""

import re

from spindle.kit.terminal_output.command import bare, program, words_after_cd
from spindle.kit.terminal_output.compiled_tests import cargo_noise, go_noise
from spindle.kit.terminal_output.filtering import Noise
from spindle.kit.terminal_output.javascript_tests import jest_noise, script_noise, vitest_noise
from spindle.kit.terminal_output.python_tests import pytest_noise, unittest_noise

_WORDS = "progress and passing tests"
_RUNNERS = {
    "pytest": Noise(pytest_noise, _WORDS),
    "py.test": Noise(pytest_noise, _WORDS),
    "unittest": Noise(unittest_noise, _WORDS),
    "jest": Noise(jest_noise, _WORDS),
    "jest.js": Noise(jest_noise, _WORDS),
    "vitest": Noise(vitest_noise, _WORDS),
    "vitest.mjs": Noise(vitest_noise, _WORDS),
    "npm test": Noise(script_noise, _WORDS),
    "cargo": Noise(cargo_noise, _WORDS),
    "go": Noise(go_noise, _WORDS),
}
_PYTHON = re.compile(r"python[\d.]*$")
_ENVIRONMENTS = {"uv", "poetry", "pdm", "hatch", "pipenv", "rye"}
_NODE_RUNNERS = {"npx", "bunx", "node"}
_NODE_MANAGERS = {"npm", "pnpm", "yarn", "bun"}
_TEST_SCRIPT = re.compile(r"(?:test|tst|t)(?::[\w:-]+)?$")


def run_noise(command: str) -> Noise | None:
    """What to leave out of the output of `command`, when it is a run of tests."""
    runner = _runner(words_after_cd(command) or [])
    return _RUNNERS.get(runner)


def _runner(words: list[str]) -> str:
    name, rest = program(words), bare(words[1:])
    if _PYTHON.match(name):
        return _python_module(words)
    if name in _ENVIRONMENTS and rest[:1] == ["run"]:
        return _runner(words[words.index(rest[1]) :]) if len(rest) > 1 else ""
    if name in {"cargo", "go"}:
        return name if rest[:1] in (["test"], ["t"]) else ""
    if name in _NODE_RUNNERS:
        return program(rest)
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
