"""Processes that share a PostgreSQL journal: one of them runs each call; only calls of dead ones are interrupted."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, Protocol, cast
from urllib.parse import quote

import asyncpg
import pytest

from tests.bounds import wait_until
from tests.journal.postgres_fixtures import execute

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
WAITING = "SELECT count(*) FROM pg_locks WHERE relation = 'spindle_calls'::regclass AND NOT granted"


class Process:
    """Another process that has the journal open."""

    def __init__(self, process: "subprocess.Popen[str]", dsn: str, name: str) -> None:
        self.pid = process.pid
        self._process = process
        self._dsn = dsn
        self._session = f"FROM pg_stat_activity WHERE application_name = '{name}'"

    def ask(self, *words: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._process.communicate(timeout=30)[1]
        return json.loads(line)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)
        self._await_no_session()

    def sessions(self) -> set[int]:
        """The processes of the server that serve it."""
        return {pid for (pid,) in asyncio.run(execute(self._dsn, f"SELECT pid {self._session}"))}

    def cut_off(self) -> None:
        """End its connection, from the server's side."""
        asyncio.run(execute(self._dsn, f"SELECT pg_terminate_backend(pid) {self._session}"))

    def _await_no_session(self) -> None:
        wait_until(lambda: not self.sessions())

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def warnings(self) -> str:
        """End it well; gives what it logged."""
        logged = self._process.communicate(timeout=30)[1]
        self._await_no_session()
        return logged


class Start(Protocol):
    """Starts a process; it takes others for gone so long after a restart."""

    def __call__(self, *, grace_seconds: float = 0) -> Process: ...


@pytest.fixture
def start(postgres_dsn: str) -> Iterator[Start]:
    names = (f"process {number}" for number in count())

    def start(*, grace_seconds: float = 0) -> Process:
        name = next(names)
        dsn = f"{postgres_dsn}&application_name={quote(name)}"
        command = [sys.executable, "-m", "tests.journal.backends.postgres_process", dsn, str(grace_seconds)]
        process = stack.enter_context(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
            )
        )
        stack.callback(process.kill)
        return Process(process, postgres_dsn, name)

    with ExitStack() as stack:
        yield start


def test_live_processes_do_not_change_each_others_calls(start: Start) -> None:
    one, other = start(), start()
    assert one.ask("begin", "a", "b") == [None, None]
    assert other.ask("begin", "b", "c") == ["started", None]

    assert other.ask("list") == one.ask("list") == {"a": "started", "b": "started", "c": "started"}
    assert other.ask("finish", "c", "a") == {"error": "E_JOURNAL", "field": "idempotency_key"}
    assert one.ask("finish", "b") == "done"
    assert other.ask("begin", "a", "b", "c") == ["started", "finished", "finished"]


def test_a_killed_process_leaves_its_calls_interrupted_and_no_others(start: Start) -> None:
    killed, living, later = start(), start(), start()
    killed.ask("begin", "cut", "off", "ended")
    killed.ask("finish", "ended")
    living.ask("begin", "runs")
    killed.kill()

    assert living.ask("begin", "cut", "new") == ["interrupted", None]
    assert later.ask("list") == {
        "cut": "interrupted",
        "off": "interrupted",
        "ended": "finished",
        "runs": "started",
        "new": "started",
    }
    assert later.ask("finish", "cut") == "done"
    assert later.ask("repeat", "off") == [None]
    assert living.ask("list")["off"] == "started"


def test_unfinished_calls_of_an_exited_process_are_interrupted(start: Start) -> None:
    ended, living = start(), start()
    ended.ask("begin", "a", "b")
    ended.ask("finish", "a")
    ended.warnings()

    assert living.ask("list") == {"a": "finished", "b": "interrupted"}


def test_calls_stay_started_after_their_process_closed_its_journal(start: Start) -> None:
    closed, living = start(), start()
    closed.ask("begin", "a")
    assert closed.ask("close") == "closed"

    assert living.ask("begin", "a") == ["started"]
    closed.kill()
    assert living.ask("begin", "a") == ["interrupted"]


def test_one_of_many_processes_may_run_each_call(start: Start, postgres_dsn: str) -> None:
    processes = [start() for _ in range(4)]
    ask_all(processes, "open")
    held = Event()
    with ThreadPoolExecutor(1) as pool:
        holder = pool.submit(asyncio.run, hold_back(postgres_dsn, len(processes), held))
        assert held.wait(30)
        won = ask_all(processes, "race", "150")
        holder.result(30)

    assert sorted(int(name) for names in won for name in names) == list(range(150))
    assert sum(bool(names) for names in won) > 1, "they did not race"


def ask_all(processes: Sequence[Process], *words: str) -> list[Any]:
    """Ask all of them at once."""

    def ask(process: Process) -> Any:
        return process.ask(*words)

    with ThreadPoolExecutor(len(processes)) as pool:
        return list(pool.map(ask, processes))


async def hold_back(dsn: str, number: int, held: Event) -> None:
    """Block all writers until that many are waiting."""
    connection = await cast("Any", asyncpg).connect(dsn, timeout=30)
    async with asyncio.timeout(20), connection.transaction():
        await connection.execute("LOCK TABLE spindle_calls IN EXCLUSIVE MODE")
        held.set()
        while await connection.fetchval(WAITING) < number:  # noqa: ASYNC110 - the server has no notification of waiting sessions
            await asyncio.sleep(0.01)
    await connection.close()


def test_processes_create_the_tables_concurrently(start: Start) -> None:
    processes = [start() for _ in range(4)]
    begun = ask_all(processes, "race", "4")

    assert sorted(name for names in begun for name in names) == list("0123")
    assert len(processes[0].ask("list")) == 4


def test_a_forked_child_does_not_keep_its_dead_parent_alive(start: Start) -> None:
    parent, living = start(), start()
    parent.ask("begin", "a")
    child = parent.ask("fork")
    try:
        assert parent.ask("begin", "b") == [None], "the parent still has its connection"
        assert living.ask("begin", "a", "b") == ["started", "started"]
        parent.kill()
        assert living.ask("begin", "a", "b") == ["interrupted", "interrupted"]
    finally:
        os.kill(child, signal.SIGKILL)


def test_process_reconnects_after_its_connection_was_cut(start: Start) -> None:
    cut, other = start(), start()
    cut.ask("begin", "a")
    other.ask("open")
    [before] = cut.sessions()
    cut.cut_off()
    wait_until(lambda: not cut.sessions() <= {before})

    assert other.ask("begin", "a") == ["started"]
    assert cut.ask("finish", "a") == "done"


def test_process_marked_as_gone_logs_a_warning_and_writes_its_outcomes(start: Start) -> None:
    paused, judge = start(), start()
    paused.ask("begin", "a", "b")
    paused.pause()
    paused.cut_off()
    wait_until(lambda: not paused.sessions())
    assert judge.ask("list") == {"a": "interrupted", "b": "interrupted"}
    assert judge.ask("repeat", "b") == [None]
    paused.resume()

    assert paused.ask("list") == {"a": "interrupted", "b": "started"}
    assert paused.ask("finish", "a", "b") == {"error": "E_JOURNAL", "field": "idempotency_key"}
    assert judge.ask("list") == {"a": "finished", "b": "started"}
    assert judge.ask("finish", "b") == "done"
    assert "interrupted: 1" in paused.warnings()


def test_no_run_is_marked_as_gone_during_the_grace_period(start: Start) -> None:
    paused, patient, hasty = start(), start(grace_seconds=3600), start()
    paused.ask("begin", "a")
    paused.pause()
    paused.cut_off()
    wait_until(lambda: not paused.sessions())

    assert patient.ask("begin", "a") == ["started"]
    assert hasty.ask("begin", "a") == ["interrupted"]
    paused.resume()
