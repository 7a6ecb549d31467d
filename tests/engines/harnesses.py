"""The engines under test, as the suite needs them: workers are `spindle worker` processes with a real server."""

import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from spindle import Call, Executor, Journal, Spool, ToolContext, ToolRegistry, TurnRunner
from spindle.engines import EngineSettings, EngineTransport, open_transport, open_turns
from spindle.execution import StateKey
from spindle.testing.engine_suite import (
    VARIANT,
    SuiteReply,
    TurnReply,
    WorkerProcess,
    build_tools,
    build_turn_runner,
)

STATE_KEY = "the state key of the engine suite"
TURNS = "suite"
"""The name of the runner of the suite."""
WORKER_TIMEOUT_SECONDS = 6.0
"""Short enough for takeovers in tests, long enough for a busy machine."""


class EngineProcesses:
    """An engine with a server of its own: callers in this process, workers in others."""

    def __init__(self, url: str, folder: Path, restart: Callable[[], None]) -> None:
        self.folder = folder / "effects"
        self.folder.mkdir()
        self._state = folder
        self._restart = restart
        self.settings = EngineSettings(url=url, worker_timeout_seconds=WORKER_TIMEOUT_SECONDS)
        self.workers: list[WorkerProcess] = []

    async def __aenter__(self) -> "EngineProcesses":
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            for worker in self.workers:
                await worker.kill()

    def write_config(self, concurrency: int = 8, **engine: Any) -> Path:
        path = self._state / f"worker{len(self.workers)}.toml"
        options: dict[str, Any] = {
            "url": self.settings.url,
            "worker_timeout_seconds": WORKER_TIMEOUT_SECONDS,
            "concurrency": concurrency,
            "drain_seconds": 5,
            **engine,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
        modules = 'modules = ["spindle.testing.engine_suite.tools:build_tools"]'
        runner = f'{TURNS} = "spindle.testing.engine_suite.turn_scenarios:build_turn_runner"'
        path.write_text("\n".join(["[tools]", modules, "[engine]", *lines, "[engine.turns]", runner]))
        return path

    def command(self, *words: str) -> list[str]:
        """A `spindle` command with the configuration of the workers."""
        options = ["--config", str(self.write_config()), "--state", str(self._state / "state")]
        return [sys.executable, "-m", "spindle.cli.main", *words, *options]

    async def start_worker(
        self, *, concurrency: int = 8, variant: str = "", options: Sequence[str] = (), **engine: Any
    ) -> WorkerProcess:
        config = self.write_config(concurrency, **engine)
        command = [sys.executable, "-m", "spindle.cli.main", "worker", "--config", str(config)]
        worker = await WorkerProcess.start(
            [*command, "--state", str(self._state / "state"), *options],
            log=config.with_suffix(".log"),
            environ={VARIANT: variant, "SPINDLE_STATE_KEY": STATE_KEY},
        )
        self.workers.append(worker)
        return worker

    async def open(self, stack: AsyncExitStack) -> EngineTransport:
        return await stack.enter_async_context(
            open_transport(self.settings, spool=self.spool(), state_key=StateKey(STATE_KEY))
        )

    def spool(self) -> Spool:
        return Spool.files(self._state / "state" / "spool")

    async def open_executor(self, stack: AsyncExitStack, *, journaled: bool = False, **options: Any) -> Executor:
        journal = None
        if journaled:
            journal = await stack.enter_async_context(Journal.sqlite(self._state / "journal.sqlite"))
        transport = await self.open(stack)
        options = {"timeout_seconds": 150, "registry": ToolRegistry(build_tools())} | options
        return Executor(spool=self.spool(), journal=journal, transport=transport, state_key=STATE_KEY, **options)

    async def ask(self, calls: Sequence[Call], *, session_id: str, journaled: bool = False) -> list[SuiteReply]:
        async with AsyncExitStack() as stack:
            executor = await self.open_executor(stack, journaled=journaled)
            outcomes = await executor.execute_parallel(calls, ToolContext(session_id=session_id))
            return [SuiteReply.from_outcome(outcome) for outcome in outcomes]

    async def resume(self, ticket: str) -> SuiteReply:
        async with AsyncExitStack() as stack:
            executor = await self.open_executor(stack, journaled=True)
            return SuiteReply.from_outcome(await executor.resume(ticket))

    @asynccontextmanager
    async def open_runner(self) -> AsyncGenerator[TurnRunner]:
        """Open the runner of a caller, with the journal of the workers."""
        async with (
            open_turns(self.settings, TURNS) as engine,
            Journal.sqlite(self._state / "state" / "journal.sqlite") as journal,
        ):
            parts: dict[str, Any] = {"journal": journal, "spool": self.spool(), "state_key": STATE_KEY}
            yield build_turn_runner(tools=build_tools(), engine=engine, **parts)

    async def run_turn(self, message: str, *, turn_id: str) -> TurnReply:
        async with self.open_runner() as runner:
            return TurnReply.from_report(await runner.run(messages=[message], turn_id=turn_id))

    async def resume_turn(self, state: dict[str, Any], answers: Mapping[str, Any]) -> TurnReply:
        async with self.open_runner() as runner:
            return TurnReply.from_report(await runner.resume(state, answers))

    async def restart_engine(self) -> None:
        await anyio.to_thread.run_sync(self._restart)
