"""Killed at any instant, a journalled run loses no answer it gave, names every call that was cut off, repeats none."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from spindle import Journal
from tests.bounds import wait_until
from tests.execution.crashing_calls import NAMES, answer_of, ask, executor_in

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

ROOT = Path(__file__).resolve().parents[2]


class Killer:
    """Starts processes that execute batches, and kills them."""

    def __init__(self, process: "subprocess.Popen[str]", backend: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._ask: IO[str] = process.stdin
        self._output: IO[str] = process.stdout
        self._backend = backend
        self._chance = random.Random(backend)

    def kill_one(self, folder: Path, *, batches: float, within_seconds: float = 0.04) -> None:
        """Start one and kill it some time after a number of batches; half of one is requested and not yet answered."""
        said = folder / "said"
        lines = lines_of(said) + int(batches * 2) * len(NAMES)
        self._ask.write(f"{self._backend} {folder}\n")
        self._ask.flush()
        pid = int(self._output.readline().split()[1])
        wait_until(lambda: lines_of(said) >= lines)
        time.sleep(self._chance.random() * within_seconds)  # not to wait for something: any instant will do
        os.kill(pid, signal.SIGKILL)
        assert self._output.readline().split() == ["gone", str(pid)]


def lines_of(said: Path) -> int:
    return said.read_bytes().count(b"\n") if said.exists() else 0


@pytest.fixture
def killer(anyio_backend: str) -> Iterator[Killer]:
    program = [sys.executable, "-m", "tests.execution.crashing_calls"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield Killer(process, anyio_backend)


def read_reports(folder: Path) -> tuple[list[str], dict[str, str], Counter[str]]:
    """Which calls were asked, how those that were answered were answered, and how often each one ran."""
    asked: list[str] = []
    answered: dict[str, str] = {}
    said, ran = folder / "said", folder / "ran"
    for line in said.read_text().splitlines() if said.exists() else []:
        kind, call_id, *answer = line.split(" ")
        if kind == "asked":
            asked.append(call_id)
        else:
            answered[call_id] = " ".join(answer)
    return asked, answered, Counter(ran.read_text().split() if ran.exists() else [])


async def check(folder: Path) -> Counter[str]:
    """Compare what is known with the journal, then repeat every call; return the number of each ending."""
    asked, answered, ran = read_reports(folder)
    async with Journal.sqlite(folder / "journal.db") as journal:
        entries = {entry.tool_call_id: entry for entry in await journal.list(limit=None)}
        interrupted = {entry.tool_call_id for entry in await journal.interrupted()}
        finished = {call_id for call_id, entry in entries.items() if entry.state == "finished"}
        assert answered.keys() <= finished, "an answer that was given is lost"
        assert interrupted == entries.keys() - finished, "an interrupted call is not reported"
        assert ran.keys() <= entries.keys() <= set(asked), "a call ran that was not written down"

        outcomes = await ask(executor_in(folder, journal), asked)
        left = {entry.tool_call_id for entry in await journal.interrupted()}
    again = {each.tool_call_id: answer_of(each) for each in outcomes}
    assert [each.tool_call_id for each in outcomes] == asked
    assert {call_id: again[call_id] for call_id in answered} == answered, "an answer changed"

    now = read_reports(folder)[2]
    reruns = {call_id for call_id in now if now[call_id] > ran[call_id]}
    may_repeat = {call_id for call_id in interrupted if call_id.endswith(".idempotent")}
    assert (
        reruns
        == {call_id for call_id in asked if call_id not in finished | interrupted and _runs(call_id)} | may_repeat
    )
    assert max(now.values(), default=0) <= 1 + bool(may_repeat)
    assert left == interrupted - may_repeat
    assert all(again[call_id].startswith("interrupted ") for call_id in left)
    return Counter(
        {"answered": len(answered), "interrupted": len(interrupted), "finished": len(finished - answered.keys())}
    )


def _runs(call_id: str) -> bool:
    return not call_id.endswith(".nobody")


async def kill_and_check(killer: Killer, tmp_path: Path, *, kills: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for number in range(kills):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        killer.kill_one(folder, batches=number % 5 / 2)
        seen += await check(folder)
    return seen


@pytest.mark.slow
async def test_killed_at_several_instants_no_answer_is_lost_and_nothing_is_done_twice(
    killer: Killer, tmp_path: Path
) -> None:
    seen = await kill_and_check(killer, tmp_path, kills=6)
    for number in range(6, 60):  # a slow disk takes longer for each step: go on until both were met, later and later
        if min(seen["answered"], seen["interrupted"]) > 0:
            break
        (folder := tmp_path / f"{number}").mkdir()
        killer.kill_one(folder, batches=number % 5 / 2, within_seconds=0.02 * number)
        seen += await check(folder)

    assert min(seen["answered"], seen["interrupted"]) > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_killed_at_two_hundred_instants_no_answer_is_lost_and_nothing_is_done_twice(
    killer: Killer, tmp_path: Path
) -> None:
    seen = await kill_and_check(killer, tmp_path, kills=200)

    # Also killed between the writing of an answer and its being given: then it is known only to the journal.
    assert min(seen["answered"], seen["interrupted"], seen["finished"]) > 0
