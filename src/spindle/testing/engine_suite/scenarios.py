"""The scenarios of the engine suite: what is asked, what is killed, and what must come of it.

An engine's tests implement `EngineHarness` and run each of `SCENARIOS`. The expected outcomes are the same everywhere.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias
from uuid import uuid4

import anyio
import anyio.abc

from spindle.calls import Call, CallOutcome, Err
from spindle.testing.engine_suite.tools import EFFECTS, RELEASE
from spindle.testing.engine_suite.worker_process import WAIT_SECONDS

_PAUSE_SECONDS: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteReply:
    """The outcome of a call, as the suite compares it."""

    code: str
    """`ok`, or the code of the error."""
    text: str
    ticket: str | None = None
    is_retryable: bool = False

    @classmethod
    def from_outcome(cls, outcome: CallOutcome) -> "SuiteReply":
        """Build the reply of an outcome."""
        result = outcome.result
        if isinstance(result, Err):
            return cls(code=result.code, text=result.error, ticket=result.ticket, is_retryable=result.retryable)
        return cls(code="ok", text=result.value)


class WorkerHandle(Protocol):
    """A running worker process."""

    @property
    def pid(self) -> int:
        """The id of the process."""
        ...

    async def kill(self) -> None:
        """Kill the process with SIGKILL and wait for its end."""
        ...


class EngineHarness(Protocol):
    """One engine under test: it starts workers with the tools of the suite, and asks for calls."""

    folder: Path
    """An empty folder that the tools of all workers write to."""

    async def start_worker(self, *, concurrency: int = 8, variant: str = "") -> WorkerHandle:
        """Start a worker process and wait until it takes calls; `variant` goes into its environment."""
        ...

    async def ask(self, calls: Sequence[Call], *, session_id: str, journaled: bool = False) -> list[SuiteReply]:
        """Run a batch as a new caller would, `journaled` with a journal; cancelling it cancels its calls."""
        ...

    async def resume(self, ticket: str) -> SuiteReply:
        """Approve the call of a ticket, as a new caller with the same journal."""
        ...

    async def restart_engine(self) -> None:
        """Kill the engine, not its workers, and start it again with the same data."""
        ...


@dataclass(kw_only=True)
class Case:
    """The state of one scenario: its harness, its session, and what its tools did so far."""

    harness: EngineHarness
    session_id: str = field(default_factory=lambda: f"suite-{uuid4().hex}")

    def call(self, tool: str, name: str) -> Call:
        """Build a call; the same tool and name are the same call."""
        return Call(f"{tool}-{name}", tool, {"folder": str(self.harness.folder), "name": name})

    async def ask(self, *calls: Call, journaled: bool = False) -> list[SuiteReply]:
        """Ask for calls, and again for those that are still running elsewhere."""
        while True:
            replies = await self.harness.ask(calls, session_id=self.session_id, journaled=journaled)
            if not any(reply.code == "not_available" and reply.is_retryable for reply in replies):
                return replies
            await anyio.sleep(_PAUSE_SECONDS)

    def effects(self) -> list[tuple[str, str, int]]:
        """Return the kind, the name and the process of each effect so far."""
        path = self.harness.folder / EFFECTS
        lines = path.read_text().splitlines() if path.exists() else []
        return [(kind, name, int(pid)) for kind, name, pid in (line.split() for line in lines)]

    def count(self, name: str, kind: str = "start") -> int:
        """Return how often an effect happened."""
        return Counter((each[0], each[1]) for each in self.effects())[kind, name]

    async def wait_for(self, name: str, kind: str = "start", times: int = 1) -> int:
        """Wait until an effect has happened so often; return the process of the last one."""
        with anyio.fail_after(WAIT_SECONDS):
            while self.count(name, kind) < times:  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(_PAUSE_SECONDS)
        return [pid for each, called, pid in self.effects() if (each, called) == (kind, name)][-1]

    def release(self) -> None:
        """Let every held call end."""
        (self.harness.folder / RELEASE).touch()


Scenario: TypeAlias = Callable[[Case], Awaitable[None]]


async def plain(case: Case) -> None:
    """Run one call."""
    await case.harness.start_worker()
    (reply,) = await case.ask(case.call("note", "a"))
    _expect(reply, "ok", "noted a")
    _expect_count(case, "a", 1)


async def parallel(case: Case) -> None:
    """Run calls side by side: none ends before all have started."""
    await case.harness.start_worker()
    names = [f"p{number}" for number in range(5)]
    pending = _Pending()
    async with anyio.create_task_group() as tasks:
        pending.start(tasks, case, *(case.call("hold", name) for name in names))
        for name in names:
            await case.wait_for(name)
        case.release()
    for name, reply in zip(names, pending, strict=True):
        _expect(reply, "ok", f"held {name}")
        _expect_count(case, name, 1)


async def worker_killed_between_steps(case: Case) -> None:
    """Kill the worker after one call; the next call runs on another one, the first is not repeated."""
    first = await case.harness.start_worker()
    (before,) = await case.ask(case.call("note", "one"))
    await first.kill()
    await case.harness.start_worker()
    (after,) = await case.ask(case.call("note", "two"))
    (again,) = await case.ask(case.call("note", "one"))
    for reply, text in ((before, "noted one"), (after, "noted two"), (again, "noted one")):
        _expect(reply, "ok", text)
    _expect_count(case, "one", 1)
    _expect_count(case, "two", 1)


async def worker_killed_inside_a_step(case: Case) -> None:
    """Kill the worker inside a call: a repeatable call runs again, the outcome of another one is unknown."""
    first = await case.harness.start_worker()
    pending = _Pending()
    async with anyio.create_task_group() as tasks:
        pending.start(tasks, case, case.call("hold", "once"), case.call("hold_again", "twice"))
        await case.wait_for("once")
        await case.wait_for("twice")
        await first.kill()
        case.release()
        await case.harness.start_worker()
    _expect(pending[0], "interrupted")
    _expect(pending[1], "ok", "held twice")
    _expect_count(case, "once", 1)
    _expect_count(case, "twice", 2)


async def engine_killed_and_restarted(case: Case) -> None:
    """Kill the engine during a call; the call ends, and what ended before is not repeated."""
    await case.harness.start_worker()
    (before,) = await case.ask(case.call("note", "early"))
    pending = _Pending()
    async with anyio.create_task_group() as tasks:
        pending.start(tasks, case, case.call("hold_again", "long"))
        await case.wait_for("long")
        await case.harness.restart_engine()
        case.release()
    (again,) = await case.ask(case.call("note", "early"))
    (later,) = await case.ask(case.call("note", "late"))
    _expect(pending[0], "ok", "held long")
    for reply, text in ((before, "noted early"), (again, "noted early"), (later, "noted late")):
        _expect(reply, "ok", text)
    _expect_count(case, "early", 1)
    _expect_count(case, "late", 1)


async def duplicate_start(case: Case) -> None:
    """Start the same call twice at once, and again after its end: one effect, one outcome."""
    await case.harness.start_worker()
    call = case.call("hold", "same")
    first = _Pending()
    second = _Pending()
    async with anyio.create_task_group() as tasks:
        first.start(tasks, case, call)
        await case.wait_for("same")
        second.start(tasks, case, call)
        await anyio.sleep(1)  # for the second start to arrive while the first is running
        case.release()
    (third,) = await case.ask(call)
    for reply in (*first, *second, third):
        _expect(reply, "ok", "held same")
    _expect_count(case, "same", 1)


async def cancel_queued(case: Case) -> None:
    """Cancel a call that waits for a worker: its body never starts."""
    await case.harness.start_worker(concurrency=1)
    waiting = case.call("note", "waiting")
    running = _Pending()
    async with anyio.create_task_group() as tasks:
        running.start(tasks, case, case.call("hold", "busy"))
        await case.wait_for("busy")
        with anyio.move_on_after(2):  # it cannot start, because the only worker is busy
            await case.ask(waiting)
        case.release()
    (later,) = await case.ask(case.call("note", "later"))
    _expect(running[0], "ok", "held busy")
    _expect(later, "ok", "noted later")
    _expect_count(case, "waiting", 0)  # the worker has been free since, and took a later call


async def cancel_running(case: Case) -> None:
    """Cancel a call that is running: its body receives the cancellation, and the record says so."""
    await case.harness.start_worker()
    call = case.call("hold", "stopped")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(case.ask, call)
        await case.wait_for("stopped")
        tasks.cancel_scope.cancel()
    await case.wait_for("stopped", "cancelled")
    (again,) = await case.ask(call)
    _expect(again, "cancelled")
    _expect_count(case, "stopped", 1)


async def approval_across_restart(case: Case) -> None:
    """Ask for approval, restart caller and worker, approve: the call runs once, however often it is approved."""
    first = await case.harness.start_worker()
    (asked,) = await case.ask(case.call("pay", "bill"), journaled=True)
    _expect(asked, "needs_approval")
    await first.kill()
    await case.harness.start_worker()
    paid = await case.harness.resume(asked.ticket or "")
    again = await case.harness.resume(asked.ticket or "")
    for reply in (paid, again):
        _expect(reply, "ok", "paid bill")
    _expect_count(case, "bill", 1)


async def another_worker_takes_over(case: Case) -> None:
    """Kill the one of two workers that runs a call: the other one runs it."""
    workers = {each.pid: each for each in (await case.harness.start_worker(), await case.harness.start_worker())}
    pending = _Pending()
    first = second = 0
    async with anyio.create_task_group() as tasks:
        pending.start(tasks, case, case.call("hold_again", "moved"))
        first = await case.wait_for("moved")
        await workers[first].kill()
        second = await case.wait_for("moved", times=2)
        case.release()
    _expect(pending[0], "ok", "held moved")
    _require({first, second} == set(workers), f"expected both workers to have run the call, got {first} and {second}")


async def fingerprint_mismatch(case: Case) -> None:
    """Ask for a call of a tool of which the worker has another version: it is refused."""
    await case.harness.start_worker(variant="other")
    (reply,) = await case.ask(case.call("greet", "you"))
    _expect(reply, "not_available")
    _expect_count(case, "you", 0)


SCENARIOS: Final[Mapping[str, Scenario]] = {
    each.__name__: each
    for each in (
        plain,
        parallel,
        worker_killed_between_steps,
        worker_killed_inside_a_step,
        engine_killed_and_restarted,
        duplicate_start,
        cancel_queued,
        cancel_running,
        approval_across_restart,
        another_worker_takes_over,
        fingerprint_mismatch,
    )
}
"""The scenarios by name."""


async def run_scenario(name: str, harness: EngineHarness) -> None:
    """Run one scenario.

    Raises:
        AssertionError: An outcome or an effect is not as expected.
        TimeoutError: Something did not happen in time.
    """
    with anyio.fail_after(2 * WAIT_SECONDS):
        await SCENARIOS[name](Case(harness=harness))


class _Pending(list[SuiteReply]):
    """The replies of calls that are asked for in a task; complete once the task has ended."""

    def start(self, tasks: anyio.abc.TaskGroup, case: Case, *calls: Call) -> None:
        """Ask for calls in a task."""

        async def ask() -> None:
            self.extend(await case.ask(*calls))

        tasks.start_soon(ask)


def _expect(reply: SuiteReply, code: str, text: str | None = None) -> None:
    _require(reply.code == code and text in {None, reply.text}, f"expected {code} {text or ''}, got {reply}")


def _expect_count(case: Case, name: str, count: int) -> None:
    _require(case.count(name) == count, f"expected {count} starts of {name!r}, got {case.effects()}")


def _require(condition: bool, problem: str) -> None:  # noqa: FBT001
    if not condition:
        raise AssertionError(problem)
