"""Killed at any instant, a journal loses no outcome that was acknowledged and names every call that was cut off."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from spindle.journal.journal import Journal
from tests.bounds import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

PROGRAM = Path(__file__).with_name("crashing_process.py")


class Killer:
    """Starts processes that journal, and kills them."""

    def __init__(self, process: "subprocess.Popen[str]", chance: random.Random) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._ask: IO[str] = process.stdin
        self._told: IO[str] = process.stdout
        self._chance = chance

    def kill_one(self, path: Path, *, lines: int = 0) -> None:
        """Start one on a journal and kill it at some instant: while it opens, or after it has said so many lines."""
        said = Path(f"{path}.said")
        lines += lines_of(said)
        self._ask.write(f"{path}\n")
        self._ask.flush()
        pid = int(self._told.readline().split()[1])
        wait_until(lambda: lines_of(said) >= lines)
        time.sleep(self._chance.random() * 0.04)  # not to wait for something: any instant will do
        os.kill(pid, signal.SIGKILL)
        assert self._told.readline().split() == ["gone", str(pid)]


def lines_of(said: Path) -> int:
    return said.read_bytes().count(b"\n") if said.exists() else 0


@pytest.fixture
def killer(anyio_backend: str) -> Iterator[Killer]:
    with subprocess.Popen(
        [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Killer(process, random.Random(anyio_backend))


def said_of(path: Path) -> dict[str, set[str]]:
    """Which calls were about to begin, known as begun, known as finished."""
    known: dict[str, set[str]] = {"i": set(), "b": set(), "f": set()}
    said = Path(f"{path}.said")
    for line in said.read_text().splitlines() if said.exists() else []:
        kind, name = line.split()
        known[kind].add(name)
    return known


async def check(path: Path) -> int:
    """Compare what the killed processes knew with what the journal tells; gives how many calls were cut off."""
    known = said_of(path)
    async with Journal.sqlite(path) as journal:
        entries = {entry.tool_call_id: entry for entry in await journal.list(limit=None)}
        interrupted = {entry.tool_call_id for entry in await journal.interrupted()}

    finished = {name for name, entry in entries.items() if entry.state == "finished"}
    assert known["f"] <= finished, "an acknowledged outcome was lost"
    assert known["b"] <= entries.keys(), "an acknowledged intent was lost"
    assert entries.keys() <= known["i"], "a call was invented"
    assert interrupted == entries.keys() - finished, "a call that was cut off is not told of"
    assert all(entries[name].result == {"value": name * 50} for name in finished)
    return len(interrupted)


async def kill_and_check(killer: Killer, tmp_path: Path, *, kills: int) -> int:
    cut_off = 0
    for number in range(kills):
        path = tmp_path / f"journal {number // 10}.db"
        killer.kill_one(path, lines=number % 4 * 12)
        cut_off = max(cut_off, await check(path))
    return cut_off


async def test_killed_at_several_instants_nothing_acknowledged_is_lost(killer: Killer, tmp_path: Path) -> None:
    assert await kill_and_check(killer, tmp_path, kills=6)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_killed_at_two_hundred_instants_nothing_acknowledged_is_lost(killer: Killer, tmp_path: Path) -> None:
    assert await kill_and_check(killer, tmp_path, kills=200)


async def test_killed_while_a_journal_is_made_leaves_something_that_opens(killer: Killer, tmp_path: Path) -> None:
    for number in range(2):
        path = tmp_path / f"{number}.db"
        killer.kill_one(path)
        await check(path)
