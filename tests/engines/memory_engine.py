"""An engine in memory: the smallest `EngineClient`, with a worker that the test drives."""

import asyncio
from typing import Any

from spindle.engines import CallRunner, EngineAnswer, EngineCall
from spindle.errors import EngineUnavailableError


class MemoryEngine:
    """Runs each call once, in a task of the client's own event loop, unless a test sets another behaviour."""

    def __init__(self, runner: CallRunner) -> None:
        self.runner = runner
        self.calls: dict[str, EngineCall] = {}
        self.is_down = False
        self.starts = 1
        """The number of starts that the worker receives, as if others had died before."""
        self.cancelled: list[str] = []
        self.results: list[dict[str, Any]] = []
        """The messages of all results."""
        self.is_closed = False
        self.refusal: Exception | None = None
        """Raised for every start, if it is set."""
        self._answers: dict[str, asyncio.Future[EngineAnswer]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def _check(self) -> None:
        if self.is_down:
            raise EngineUnavailableError("down")

    async def connect(self) -> None:
        self._check()

    async def start(self, call: EngineCall) -> None:
        self._check()
        if self.refusal is not None:
            raise self.refusal
        if call.id not in self.calls:
            self.calls[call.id] = call
            self._answers[call.id] = asyncio.get_running_loop().create_future()
            self._tasks[call.id] = asyncio.create_task(self._run(call))

    async def _run(self, call: EngineCall) -> None:
        try:
            message = await self.runner.run(call.message, call.id, starts=self.starts)
            self.results.append(message)
            answer = EngineAnswer(status="finished", message=message)
        except asyncio.CancelledError:
            answer = EngineAnswer(status="cancelled")
        if not self._answers[call.id].done():
            self._answers[call.id].set_result(answer)

    async def wait(self, call_id: str) -> EngineAnswer:
        self._check()
        return await asyncio.shield(self._answers[call_id])

    async def cancel(self, call_id: str) -> None:
        self.cancelled.append(call_id)
        if call_id in self._tasks:
            self._tasks[call_id].cancel()

    async def close(self) -> None:
        self.is_closed = True
