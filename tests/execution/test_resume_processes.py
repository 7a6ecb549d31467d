"""Several processes answer the same tickets, in one journal, and are killed: the effect of a call happens once."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Call, Executor, ToolContext, ToolRegistry
from tests.bounds import wait_until
from tests.execution.answering import KEY, build_tool, open_journal
from tests.execution.calling import err

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

ROOT = Path(__file__).resolve().parents[2]
ANSWERS: Sequence[dict[str, Any]] = ({}, {"args": {"amount": 1_000}}, {"approved": False}, {})


class Answerer:
    """Another process that answers tickets."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout
        self._is_ready = False

    def send(self, ticket: str, **answer: Any) -> None:
        self._input.write(json.dumps({"ticket": ticket, **answer}) + "\n")
        self._input.flush()

    def receive(self) -> list[Any]:
        line = self._output.readline()
        assert line, "the process has ended"
        return json.loads(line)

    def wait_ready(self) -> None:
        if not self._is_ready:
            assert self._output.readline() == "ready\n"
        self._is_ready = True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of a journal that several processes open."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_dsn")
    return str(tmp_path / "journal.db")


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    return tmp_path / "effects"


@pytest.fixture
def start(shared: str, effects: Path) -> Iterator[Callable[[], Answerer]]:
    with ExitStack() as stack:

        def start_one() -> Answerer:
            program = [sys.executable, "-m", "tests.execution.answering", shared, str(effects)]
            process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
            stack.enter_context(process)
            stack.callback(process.kill)
            return Answerer(process)

        yield start_one


async def get_tickets(shared: str, effects: Path, amounts: Sequence[int]) -> list[str]:
    async with open_journal(shared) as journal:
        executor = Executor(ToolRegistry([build_tool(effects)]), journal=journal, state_key=KEY)
        calls = [Call(f"c{number}", "pay", {"amount": amount}) for number, amount in enumerate(amounts)]
        outcomes = await executor.execute_parallel(calls, ToolContext("s1", turn_id="t1"))
    return [err(outcome).ticket or "" for outcome in outcomes]


def read_effects(effects: Path) -> list[tuple[str, str]]:
    lines = effects.read_text().splitlines() if effects.exists() else []
    return [(line.split()[0], line.split()[1]) for line in lines]


async def read_status(shared: str, ticket: str) -> str:
    async with open_journal(shared) as journal:
        assert journal.states is not None
        record = await journal.states.get("approval", ticket.partition("-")[0])
    assert record is not None
    return record.status


@pytest.mark.slow  # the next test has two processes too, and test_tickets.py has such races in this one
@pytest.mark.parametrize("count", [10, 50])
async def test_of_racing_answers_of_processes_one_has_its_effect(
    shared: str, effects: Path, start: Callable[[], Answerer], count: int
) -> None:
    tickets = await get_tickets(shared, effects, range(1, count + 1))
    answerers = [start() for _ in range(3)]
    for answerer in answerers:
        answerer.wait_ready()

    for number, ticket in enumerate(tickets):
        for own, answerer in enumerate(answerers):
            answerer.send(ticket, by=f"p{own}", **ANSWERS[(number + own) % len(ANSWERS)])
    answers = [[answerer.receive() for _ in tickets] for answerer in answerers]

    ran = dict(read_effects(effects))
    assert set(Counter(call for call, _ in read_effects(effects)).values()) <= {1}
    for number, said in enumerate(zip(*answers, strict=True)):
        texts = {text for is_ok, text, *_ in said if is_ok}
        refusals = {reason for is_ok, _, _, reason in said if not is_ok}
        amount = ran.get(f"c{number}")
        assert texts == (set() if amount is None else {f"paid {amount}"})
        assert refusals <= {"already_answered", None}
        assert amount is not None or None in refusals  # it was denied


@pytest.mark.slow
async def test_a_process_killed_while_it_runs_an_approved_call_leaves_it_interrupted(
    shared: str, effects: Path, start: Callable[[], Answerer]
) -> None:
    [ticket] = await get_tickets(shared, effects, [0])
    first, second = start(), start()
    first.wait_ready()
    second.wait_ready()
    first.send(ticket, by="ann")
    wait_until(lambda: bool(read_effects(effects)))
    running = await read_status(shared, ticket)
    second.send(ticket, approved=False)
    other = second.receive()

    first.kill()
    second.send(ticket, by="ben")
    same = second.receive()
    second.send(ticket)
    again = second.receive()

    assert (running, other[2:]) == ("executing", ["denied", "already_answered"])
    assert same == again == [False, "", "interrupted", None]
    assert len(read_effects(effects)) == 1
    assert await read_status(shared, ticket) == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 15])
async def test_an_answer_repeated_after_a_kill_at_any_instant_has_one_effect_at_most(
    shared: str, effects: Path, start: Callable[[], Answerer], kills: int
) -> None:
    chance = random.Random(17)
    tickets = await get_tickets(shared, effects, range(1, kills + 1))
    next_one = start()
    for number, ticket in enumerate(tickets):
        killed, next_one = next_one, start()
        killed.wait_ready()
        killed.send(ticket)
        await anyio.sleep(chance.random() * 0.03)  # not to wait for something: any instant will do
        killed.kill()
        next_one.wait_ready()
        next_one.send(ticket)
        is_ok, text, code, _ = next_one.receive()
        runs = [amount for call, amount in read_effects(effects) if call == f"c{number}"]
        assert len(runs) <= 1
        assert (is_ok, text) == (True, f"paid {number + 1}") or code == "interrupted"
        assert runs or not is_ok
