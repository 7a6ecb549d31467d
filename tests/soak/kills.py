"""Kills processes that run journalled batches or turns at random instants, and PostgreSQL under them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from tests.bounds import wait_until
from tests.journal.postgres_server import Server
from tests.soak import batches, turns
from tests.soak.results import Result

ROOT = Path(__file__).resolve().parents[2]
KILLS_OF_A_STORY = 12
"""After this many kills the journal is compared with what was said, and another one is begun."""
RESTART_EVERY = 6
MAX_LINES = {"batches": 30, "turns": 8}
MAX_SECONDS = {"batches": 0.06, "turns": 0.3}
"""After a random number of lines, a kill comes at a random instant of about the duration of a batch or a turn."""


class Killer:
    """Starts processes of one story after the other, and kills them."""

    def __init__(self, process: "subprocess.Popen[str]", chance: random.Random) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self._chance = chance

    def kill_one(self, story: list[str], folder: Path, disturb: Callable[[], None] | None) -> None:
        """Start a process, let it work, disturb it on request, and kill it."""
        said = folder / "said"
        lines = _count_lines(said) + self._chance.randrange(1, MAX_LINES[story[0]])
        self._input.write(f"{json.dumps(story)}\n")
        self._input.flush()
        pid = int(self._output.readline().split()[1])
        _wait_for_lines(folder, lines)
        if disturb is not None:
            disturb()
            if self._chance.random() < 0.5:  # it goes on, or it is killed while it reconnects
                _wait_for_lines(folder, _count_lines(said) + self._chance.randrange(1, MAX_LINES[story[0]]))
        time.sleep(self._chance.random() * MAX_SECONDS[story[0]])  # not to wait for something: any instant will do
        os.kill(pid, signal.SIGKILL)
        assert self._output.readline().split() == ["gone", str(pid)]


def _wait_for_lines(folder: Path, lines: int) -> None:
    failed = folder / "failed"
    wait_until(lambda: _count_lines(folder / "said") >= lines or failed.exists(), lambda: f"{lines} lines in {folder}")
    assert not failed.exists(), failed.read_text()


def _count_lines(said: Path) -> int:
    return said.read_bytes().count(b"\n") if said.exists() else 0


@contextmanager
def start_killer(chance: random.Random) -> Generator[Killer]:
    """Start the program that forks the processes."""
    program = [sys.executable, "-m", "tests.soak.killed"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield Killer(process, chance)


async def run_kills(
    name: str,
    kind: str,
    folder: Path,
    open_place: Callable[[Path], str],
    *,
    kills: int,
    seed: int,
    server: Server | None = None,
) -> Result:
    """Run one part of the soak and return what was found; with a server, it is restarted every now and then.

    `open_place` returns a new journal for a story: the path of a file, or the address of a database.
    """
    result = Result(name=name, seed=seed)
    chance = random.Random(f"{seed} {name}")
    story = {"batches": batches, "turns": turns}[kind]

    def restart() -> None:
        assert server is not None
        server.kill()
        if chance.random() < 0.5:
            time.sleep(chance.random())  # an outage of any length
        server.restart()
        result.counts["restarts"] += 1

    with start_killer(chance) as killer:
        for number, first in enumerate(range(0, kills, KILLS_OF_A_STORY)):
            own = folder / f"{kind}{number}"
            own.mkdir()
            place = open_place(own)
            words = [kind, ("asyncio", "trio")[number % 2], str(own), place]
            for kill in range(first, min(first + KILLS_OF_A_STORY, kills)):
                is_disturbed = server is not None and kill % RESTART_EVERY == RESTART_EVERY // 2
                killer.kill_one(words, own, restart if is_disturbed else None)
                result.counts["kills"] += 1
            await story.check(own, place, result)
    return result
