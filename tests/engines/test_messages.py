"""Messages that cannot be read: another format, another spool, a changed spool entry."""

from typing import Any

import pytest

from spindle import Spool, ToolRegistry, tool
from spindle.engines import CallRunner, EngineAnswer, EngineSettings, EngineTransport
from spindle.execution import Request
from tests.engines.memory_engine import MemoryEngine

pytestmark = pytest.mark.anyio

SETTINGS = EngineSettings(url="temporal://127.0.0.1:1")


class Never:
    cancelled = False


@tool
async def long_text(size: int) -> str:
    """Return a long text."""
    return "x" * size


def request(**args: Any) -> Request:
    return Request(
        tool="long_text",
        args=args,
        tool_call_id="c1",
        checksum="0" * 64,
        idempotency_key="1" * 64,
        fingerprint=long_text.fingerprint,
        session_id="s1",
        turn_id=None,
        result_budget_chars=None,
        seconds_left=30,
    )


async def carry(engine: MemoryEngine, spool: Spool | None) -> Any:
    transport = EngineTransport(engine, SETTINGS, spool=spool)
    try:
        return await transport.execute(request(size=100_000), Never())
    finally:
        await transport.close()


async def test_a_worker_refuses_a_message_of_another_format() -> None:
    runner = CallRunner(ToolRegistry([long_text]))

    answer = await runner.run({"format": 999}, "c1", starts=1)

    assert answer["ok"] is False
    assert runner.stats.outcomes == {"not_available": 1}


async def test_a_result_in_a_spool_of_its_own_is_reported_as_unreadable() -> None:
    engine = MemoryEngine(CallRunner(ToolRegistry([long_text]), spool=Spool.memory()))

    result = await carry(engine, Spool.memory())

    assert (result.code, result.by, result.retryable) == ("execution_failed", "spindle", False)


async def test_a_large_result_without_a_spool_is_reported() -> None:
    engine = MemoryEngine(CallRunner(ToolRegistry([long_text])))

    result = await carry(engine, None)

    assert (result.code, result.by) == ("execution_failed", "spindle")


async def test_a_changed_spool_entry_is_not_believed() -> None:
    spool = Spool.memory()
    engine = MemoryEngine(CallRunner(ToolRegistry([long_text]), spool=spool))
    assert (await carry(engine, spool)).value == "x" * 100_000
    (entry,) = await spool.entries()
    await spool.write(entry.id, '{"value": "forged"}')

    transport = EngineTransport(_Recorded(engine), SETTINGS, spool=spool)
    result = await transport.execute(request(size=100_000), Never())
    await transport.close()

    assert getattr(result, "code", None) == "execution_failed"


class _Recorded(MemoryEngine):
    """Answers from what another engine has recorded: the event loop of that one is closed."""

    def __init__(self, other: MemoryEngine) -> None:
        super().__init__(other.runner)
        self.other = other

    async def start(self, call: Any) -> None:
        pass

    async def wait(self, call_id: str) -> Any:
        return EngineAnswer(status="finished", message=self.other.results[0])
