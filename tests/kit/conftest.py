"""Real programs, run in a folder of their own, and what a reducer makes of their output."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from spindle import Ok
from spindle.execution import ReduceInfo
from spindle.kit.reducers import terminal_reducer


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What a command printed, and what the reducer leaves of it."""

    command: str
    exit_code: int
    text: str

    @property
    def reduced(self) -> str:
        result = Ok(self.text, structured={"exit_code": self.exit_code}, cost_usd=0.5)
        kept = terminal_reducer.reduce(result, ReduceInfo({"command": self.command}, 1))
        assert isinstance(kept, Ok)
        assert len(kept.value) <= len(self.text)
        assert (kept.structured, kept.cost_usd) == (result.structured, result.cost_usd)
        return kept.value


Shell = Callable[..., Ran]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Runs a line in a shell, in `tmp_path`, with nothing of this machine's own settings."""
    home = tmp_path.parent / f"{tmp_path.name}-home"
    home.mkdir(exist_ok=True)
    settings = {"HOME": str(home), "LC_ALL": "C.UTF-8", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}
    settings |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    for who in ("AUTHOR", "COMMITTER"):
        settings |= {f"GIT_{who}_NAME": "nobody", f"GIT_{who}_EMAIL": "nobody@example.test"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_", "GIT_"))}

    def run(
        command: str,
        *,
        called: str | None = None,
        env: dict[str, str] | None = None,
        ok: bool = False,
        at_home: bool = False,
    ) -> Ran:
        """`called` is the line as a model would have written it; `at_home` keeps this machine's registries."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=inherited | settings | ({"HOME": os.environ["HOME"]} if at_home else {}) | (env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        text = done.stdout.decode("utf-8", "surrogateescape")
        assert not ok or done.returncode == 0, text
        return Ran(command=called or command, exit_code=done.returncode, text=text)

    return run


def needs(program: str) -> None:
    """Skip, saying so, where `program` is not installed."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed here; its output is not tested")


@pytest.fixture
def need() -> Callable[[str], None]:
    return needs
