"""The embedded executor under test: every worker is a process with an executor; all of them share one journal.

A caller whose process dies asks another one again, as a program that restarts does.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.text import TextReceiveStream

from spindle import Call
from spindle.testing.engine_suite import VARIANT, SuiteReply, TurnReply

ROOT = Path(__file__).parents[2]


class EmbeddedWorker:
    """One process, with the requests it has not answered."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        self.is_alive = True
        self.ready = anyio.Event()
        self.replies: dict[int, list[dict[str, Any]]] = {}
        self._changed = anyio.Event()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def kill(self) -> None:
        self.is_alive = False
        with suppress(ProcessLookupError):  # it was killed before
            self._process.kill()
        await self._process.wait()
        self._notify()

    async def send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send(f"{json.dumps(request)}\n".encode())

    async def wait(self, number: int) -> list[dict[str, Any]] | None:
        """Return the replies of a request, or None if the process has died before."""
        while self.is_alive and number not in self.replies:
            await self._changed.wait()
        return self.replies.get(number)

    async def read(self) -> None:
        assert self._process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(self._process.stdout):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                if line.startswith("{"):
                    answer = json.loads(line)
                    self.replies[answer["id"]] = answer["replies"]
                else:
                    self.ready.set()
                self._notify()
        self.is_alive = False
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class EmbeddedProcesses:
    """The harness of the suite."""

    def __init__(self, folder: Path, tasks: anyio.abc.TaskGroup) -> None:
        self.folder = folder / "effects"
        self.folder.mkdir()
        self._state = folder
        self._tasks = tasks
        self._numbers = count()
        self._workers: list[EmbeddedWorker] = []
        self._started = anyio.Event()

    async def close(self) -> None:
        for worker in self._workers:
            await worker.kill()

    async def start_worker(self, *, concurrency: int = 8, variant: str = "") -> EmbeddedWorker:
        command = [sys.executable, "-m", "tests.engines.embedded_host", str(self._state), str(concurrency)]
        environ = {**os.environ, VARIANT: variant}
        worker = EmbeddedWorker(await anyio.open_process(command, stderr=None, env=environ, cwd=ROOT))
        self._tasks.start_soon(worker.read)
        await worker.ready.wait()
        self._workers.append(worker)
        self._started.set()
        self._started = anyio.Event()
        return worker

    async def ask(self, calls: Sequence[Call], *, session_id: str, journaled: bool = False) -> list[SuiteReply]:
        listed = [[call.tool_call_id, call.name, call.args] for call in calls]
        replies = await self._request({"calls": listed, "session_id": session_id})
        return [SuiteReply(**each) for each in replies]

    async def resume(self, ticket: str) -> SuiteReply:
        return SuiteReply(**(await self._request({"ticket": ticket}))[0])

    async def run_turn(self, message: str, *, turn_id: str) -> TurnReply:
        return _read_turn(await self._request({"turn": message, "turn_id": turn_id}))

    async def resume_turn(self, state: dict[str, Any], answers: Mapping[str, Any]) -> TurnReply:
        return _read_turn(await self._request({"state": state, "answers": answers}))

    async def restart_engine(self) -> None:
        """Kill all processes: the engine is in them."""
        killed = [worker for worker in self._workers if worker.is_alive]
        for worker in killed:
            await worker.kill()
        for _ in killed:
            await self.start_worker()

    async def _request(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        while True:
            living = [worker for worker in self._workers if worker.is_alive]
            if not living:
                await self._started.wait()
                continue
            number = next(self._numbers)
            replies = await self._ask_one(living[0], number, request)
            if replies is not None:
                return replies

    async def _ask_one(
        self, worker: EmbeddedWorker, number: int, request: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        try:
            await worker.send({**request, "id": number})
            return await worker.wait(number)
        except anyio.BrokenResourceError:
            return None  # it died meanwhile
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await worker.send({"cancel": number})
                await worker.wait(number)  # it has reached the executor when the request has ended
            raise


def _read_turn(replies: list[dict[str, Any]]) -> TurnReply:
    (plain,) = replies
    plain["calls"] = tuple((call, code) for call, code in plain["calls"])
    return TurnReply(**plain)
