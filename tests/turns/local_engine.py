"""An engine without a server: it runs turns in this process, as the workers of an engine do it."""

from collections.abc import Callable
from typing import Any, cast

import anyio

from spindle import DispatchContext, Journal, Spool, TurnRunner
from spindle.concurrency import BackgroundTask, spawn_background
from spindle.errors import EngineUnavailableError, InvalidTurnStateError, JournalError, TurnConflictError
from spindle.turns import TurnRest
from tests.turns.suspended_scene import Shop


class LocalRun:
    """One run of a turn."""

    def __init__(self) -> None:
        self.cancel = anyio.Event()
        self.answered = 0
        self.suspended_at = 0
        self.rest: TurnRest | None = None
        self.steps: list[str] = []
        self.task: BackgroundTask | None = None
        self.changed = anyio.Event()

    def notify(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class LocalEngine:
    """Calls `advance` of a new runner for each iteration, which knows nothing of the iterations before."""

    def __init__(self, build_worker: Callable[[], TurnRunner]) -> None:
        self._build_worker = build_worker
        self.runs: dict[str, LocalRun] = {}
        self.is_down = False
        self.log: list[tuple[str, Any]] = []

    async def start(self, run_id: str, turn_id: str) -> None:
        self._check("start", turn_id)
        if run_id not in self.runs:
            run = self.runs[run_id] = LocalRun()
            run.task = spawn_background(lambda: self._drive(run, turn_id), name="turn")

    async def wait(self, run_id: str, *, after: int) -> TurnRest:
        run = self.runs[run_id]
        while True:
            if run.rest is not None:
                return run.rest
            if run.suspended_at > after:
                return "suspended"
            await run.changed.wait()

    async def answer(self, run_id: str, *, step: int) -> None:
        self._check("answer", step)
        run = self.runs[run_id]
        run.answered = max(run.answered, step)
        run.notify()

    async def cancel(self, run_id: str) -> None:
        self._check("cancel", None)
        if run_id in self.runs:
            self.runs[run_id].cancel.set()
            self.runs[run_id].notify()

    def lose(self, run_id: str) -> None:
        """Terminate a run, as an operator would."""
        run = self.runs[run_id]
        assert run.task is not None
        run.task.cancel()
        run.rest = "lost"
        run.notify()

    def _check(self, method: str, fact: Any) -> None:
        if self.is_down:
            raise EngineUnavailableError("down")
        self.log.append((method, fact))

    async def _drive(self, run: LocalRun, turn_id: str) -> None:
        while run.rest is None:
            try:
                found = await self._build_worker().advance(turn_id, cancel=run.cancel)
            except InvalidTurnStateError:
                run.rest = "lost"
            except (JournalError, TurnConflictError):
                await anyio.sleep(0.01)  # an engine starts the iteration again
            else:
                run.steps.append(found.status)
                if found.status == "ended":
                    run.rest = "ended"
                elif found.status == "suspended":
                    run.suspended_at = found.step
                    run.notify()
                    while run.answered <= found.step and not run.cancel.is_set():
                        await run.changed.wait()
            run.notify()


class EngineShop(Shop):
    """The shop of the suspended turns, whose turns run on an engine; the model counts what it has said before."""

    def __init__(self, journal: Journal, *script: Any, **settings: Any) -> None:
        super().__init__(journal, *script, **{"spool": Spool.memory(), **settings})
        self.asked: list[int] = []
        self.engine = LocalEngine(self.build_worker)

    async def model(self, ctx: DispatchContext) -> Any:
        self.asked.append(ctx.iteration)
        said: Any = self.script[ctx.iteration]
        if isinstance(said, Exception):
            raise said
        return await cast("Any", said)(ctx) if callable(said) else said

    def build_worker(self) -> TurnRunner:
        facts: dict[str, Any] = {"executor_callback": self.model, "tools": self.tools, "journal": self.journal}
        return TurnRunner(**facts, **self.settings)

    def runner(self, **settings: Any) -> TurnRunner:
        return super().runner(executor_callback=self.model, engine=self.engine, **settings)
