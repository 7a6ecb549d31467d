"""A batch of calls: duplicates, resource locks, and the supervised tasks that run it."""

import math
import time
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from spindle.artifacts.spool import Spool
from spindle.calls import Err
from spindle.concurrency import (
    BackgroundTask,
    absorb_cancel_requests,
    get_asyncio_task,
    spawn_background,
    start_background,
)
from spindle.execution.admission import AdmissionContext
from spindle.execution.budget import Budget
from spindle.execution.call_state import AdmittedCall, CallState, Slots
from spindle.execution.call_trace import find_clock
from spindle.execution.cancellation import GRACE_SECONDS, build_timeout, find_traces, get_task, is_pause_due, pause
from spindle.execution.failures import to_err
from spindle.execution.results import HandlerResult, without_cost
from spindle.execution.settings import Engine
from spindle.tools.context import ToolContext, ToolRunner
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.execution.approval import Approve
    from spindle.execution.call_trace import WaitKind
    from spindle.execution.interceptors import BatchObserver
    from spindle.execution.journaling import BatchJournal


class Batch(AdmissionContext):
    """The state shared by all calls of one batch."""

    __slots__ = (
        "_leaders",
        "approve",
        "attachments",
        "budget",
        "caller",
        "clock",
        "deadline",
        "engine",
        "followers",
        "has_locks",
        "journal",
        "observers",
        "slots",
        "spool",
        "trace",
        "watch",
    )

    def __init__(
        self,
        calls: int,
        engine: Engine,
        *,
        registry: ToolRegistry,
        filter: ToolFilter | None,
        context: ToolContext,
        explain_repairs: bool,
        runner: ToolRunner,
        budget: Budget,
        attachments: Sequence[Any],
        spool: Spool | None,
        approve: "Approve | None",
        journal: "BatchJournal | None",
        observers: Sequence["BatchObserver"],
        slots: Slots,
    ) -> None:
        self.registry, self.filter, self.context, self.runner = registry, filter, context, runner
        self.backends, self.redactor, self.explain_repairs = engine.backends, engine.redactor, explain_repairs
        self.share = budget.chars_for_each(calls)
        self.engine = engine
        self.budget = budget
        self.caller = get_asyncio_task()
        """The asyncio task that runs the batch; `None` on trio."""
        self.clock: Callable[[], float] = anyio.current_time if self.caller is None else self.caller.get_loop().time
        """The clock of the event loop; `anyio.current_time` looks for the loop each time."""
        seconds = engine.batch_timeout_seconds
        self.deadline = math.inf if seconds is None else self.clock() + seconds
        self.attachments = attachments
        self.spool = spool
        self.approve = approve
        self.journal = journal
        self.clock = find_clock(self.caller) if journal and self.caller else self.clock
        self.trace = journal and journal.trace(self.clock, self.deadline, calls=calls, is_asyncio=bool(self.caller))
        self.observers = observers
        self.slots = slots
        self.watch: Callable[[float], None] | None = None
        """Look at the calls again at a time, if not before; `None` while no one waits for them."""
        self._leaders: dict[Hashable, AdmittedCall] | None = None if calls == 1 else {}
        self.followers: list[tuple[AdmittedCall, AdmittedCall]] = []
        """Calls that share the result of another call, each with that call."""
        self.has_locks = False

    def set_deadline(self, state: AdmittedCall, now: float, deadline: float) -> None:
        """Set when the time of a call is over, on the clock of the event loop."""
        state.deadline = deadline
        if deadline != math.inf:
            state.ctx.deadline = time.monotonic() + deadline - now
            if self.watch is not None:
                self.watch(deadline)

    @contextmanager
    def stop_clock(
        self, state: AdmittedCall, kind: "WaitKind" = "approval", *, seconds: float = math.inf
    ) -> Generator[None]:
        """Stop the clock of a call, for some seconds, while it waits for a person or for others; not of the batch."""
        began = now = self.clock()
        left = state.deadline - now
        self.set_deadline(state, now, min(now + left + seconds, self.deadline))
        try:
            yield
        finally:
            now = self.clock()
            self.set_deadline(state, now, min(now + left, self.deadline))
            if state.trace is not None:
                names = state.lock_request.resources if kind == "locks" and state.lock_request is not None else ()
                state.trace.wait(kind, began, now, names)

    def add(self, state: AdmittedCall) -> bool:
        """Add a call to the batch; return `False` if it is finished or shares the result of an equal call."""
        if self._leaders is not None and (name := self._sharing_key(state)) is not None:
            leader = self._leaders.setdefault(name, state)
            if leader is not state:
                self.followers.append((state, leader))
                return False
        if state.entry.tool.resources is not None:
            return self._request_locks(state)
        return True

    def _sharing_key(self, state: AdmittedCall) -> Hashable | None:
        """Return the key that calls with a shared result have in common; `None` if the call must run by itself."""
        tool = state.entry.tool
        if tool.read_only or tool.cache is not None:
            return (tool, state.checksum)
        # With a journal, equal keys mean the same call, which must not run twice.
        return None if self.journal is None else (str(state.call.tool_call_id), state.checksum)

    def _request_locks(self, state: AdmittedCall) -> bool:
        tool = state.entry.tool
        try:
            named: Any = tool.resources(state.value) if tool.resources else ()
            # A single string is an iterable of characters, which is never intended.
            names = [named] if isinstance(named, str) else [str(name) for name in named]
        except BaseException as error:  # noqa: BLE001  a callback that raises rejects the call
            self.context.events.warn(f"the resources callback of {tool.name!r} failed", source="resources", error=error)
            text = f"The tool {tool.name!r} cannot be used now: its resources could not be determined."
            state.finish(HandlerResult(Err("not_available", text, cause=error, by="spindle")))
            return False
        if names:
            state.lock_request = self.engine.locks.request(names, shared=tool.read_only)
            self.has_locks = True
        return True

    def release_locks(self, states: Iterable[CallState]) -> None:
        """Release the lock requests of calls, including calls that never ran."""
        for state in states:
            if isinstance(state, AdmittedCall) and state.lock_request is not None:
                state.lock_request.release()

    def share_results(self) -> None:
        """Copy the results of calls that ran to their duplicates."""
        for state, leader in self.followers:
            if leader.handled is not None:
                state.journal_state = None if leader.journal_state is None else leader.journal_state.for_duplicate()
                state.finish(leader.handled if leader.is_from_record else without_cost(leader.handled))


Run: TypeAlias = Callable[[AdmittedCall, Batch], Coroutine[Any, Any, HandlerResult]]


class _CallWorker:
    """A task that runs calls one after the other."""

    state: AdmittedCall | None = None
    is_cancelled = False
    task: BackgroundTask | None = None

    def cancel(self) -> None:
        """Cancel the call and the task."""
        self.is_cancelled = True
        if self.state is not None:
            self.state.ctx.cancel()  # before the task, so that a handler can see why it is cancelled
        if self.task is not None:
            self.task.cancel()


async def supervise(batch: Batch, states: Sequence[AdmittedCall], run: Run, *, workers: int) -> None:
    """Run every call in at most `workers` tasks, and wait until all have ended or were abandoned."""
    if states:
        supervisor = _Supervisor(batch, states, run, workers)
        if supervisor.start():
            await supervisor.wait()


class _Supervisor:
    """Runs the calls of a batch in tasks that outlive it, if a call does not let itself be cancelled.

    A call is cancelled at its deadline. If it has not ended a moment later, it is answered without its task, which
    goes on and is counted. No call runs in the caller's own task, so none can cancel it or keep it. Short calls need
    few tasks: each worker starts up to two more while calls wait. A call that waits for a lock or an approval has its
    own task, so that it does not block a worker.
    """

    _has_left = False
    _is_paused = False
    """Whether a worker of the queue lets the event loop run, and goes on afterwards."""
    _changed: anyio.Event | None = None
    _scope: anyio.CancelScope | None = None

    def __init__(self, batch: Batch, states: Sequence[AdmittedCall], run: Run, workers: int) -> None:
        self._batch = batch
        self._run = run
        self._left = len(states)
        """The number of calls that have not ended."""
        self._patient = [state for state in states if _is_patient(state)] if len(states) > 1 else ()
        plain = [state for state in states if not _is_patient(state)] if self._patient else states
        self._queue = iter(plain)
        self._waiting = len(plain)
        self._workers_left = workers
        self._workers: dict[_CallWorker, None] = {}  # in the order of their start

    def start(self) -> bool:
        """Start the calls; return whether some have not ended."""
        for state in self._patient:
            self._spawn(iter((state,)))
        if self._waiting:
            self._workers_left -= 1
            worker = _CallWorker()
            self._workers[worker] = None
            work = partial(self._work, worker, self._queue)
            worker.task = start_background(work, caller=self._batch.caller, name="spindle-calls")
        return self._left > 0

    async def wait(self) -> None:
        """Wait until all calls have ended or were abandoned; cancel those whose time is over."""
        self._batch.watch = self._watch
        try:
            while self._left:
                self._changed = anyio.Event()
                with anyio.CancelScope(deadline=min(map(_next_look, self._workers), default=math.inf)) as self._scope:
                    await self._changed.wait()
                self._scope = None
                if self._left:
                    now = self._batch.clock()
                    for worker in [each for each in self._workers if _next_look(each) <= now]:
                        self._stop(worker, now)
        except BaseException as error:
            await self._leave(can_wait=not isinstance(error, GeneratorExit))
            raise

    def _watch(self, deadline: float) -> None:
        if self._scope is not None and deadline < self._scope.deadline:
            self._scope.deadline = deadline

    def _stop(self, worker: _CallWorker, now: float) -> None:
        """Cancel a call whose deadline has passed, and abandon it the second time."""
        state = worker.state
        if state is None:
            return
        if state.overdue_until is None:
            state.overdue_until = now + GRACE_SECONDS
            worker.cancel()
            return
        if state.is_answered and state.handled is not None:
            state.close(state.handled)
        else:
            state.close(build_timeout(state))
        self._abandon(worker, state)
        self._end(worker, state)

    def _abandon(self, worker: _CallWorker, state: AdmittedCall) -> None:
        """Go on without a task; give back what its call holds."""
        self._workers.pop(worker, None)
        if worker.task is not None:
            self._batch.engine.abandoned_tasks.add(worker.task)
        if state.slot is not None:
            state.slot.close()
        if state.lock_request is not None:
            state.lock_request.release()

    def _spawn(self, queue: Iterator[AdmittedCall]) -> None:
        worker = _CallWorker()
        self._workers[worker] = None
        worker.task = spawn_background(partial(self._work, worker, queue), name="spindle-calls")

    def _start_more(self, most: int) -> None:
        for _ in range(min(most, self._workers_left)):
            self._workers_left -= 1
            self._spawn(self._queue)

    async def _work(self, worker: _CallWorker, queue: Iterator[AdmittedCall]) -> None:
        is_shared = queue is self._queue
        task: Any = get_task() if is_shared and self._waiting > 1 else None
        try:
            if is_shared and self._waiting > 1 and not await self._begin_or_pause():
                return
            for state in queue:
                if self._has_left:
                    return
                if is_shared:
                    self._waiting -= 1
                worker.state = state
                traces = None if task is None else find_traces(task)
                try:
                    await self._run(state, self._batch)
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001  whatever happens, every call has a result
                    if not worker.is_cancelled:
                        state.finish(_build_escaped(error, state))
                if not state.is_closed:
                    worker.state = None
                    self._end(worker, state)
                if worker.is_cancelled or task is None or not self._waiting:
                    return
                if not await self._can_go_on(is_clean=find_traces(task) == traces):
                    return
        finally:
            self._workers.pop(worker, None)

    async def _can_go_on(self, *, is_clean: bool) -> bool:
        """Return whether a worker's task may run the next call of the queue, after a pause if one is due."""
        if not is_clean:  # what the tool left on the task could cancel the next call: another task goes on
            self._workers_left += 1
            self._start_more(1)
            return False
        await absorb_cancel_requests()  # a tool that cancels this task fails, and the task goes on
        return not is_pause_due() or await self._begin_or_pause()

    async def _begin_or_pause(self) -> bool:
        """Let the event loop run if that is due, then start more workers; `False` if another worker does that now."""
        if is_pause_due():
            if self._is_paused:  # calls that never wait need no second worker
                self._workers_left += 1
                return False
            self._is_paused = True
            try:
                await pause()
            finally:
                self._is_paused = False
        if not self._has_left:
            self._start_more(min(2, self._waiting - 1))
        return True

    def _end(self, worker: _CallWorker, state: AdmittedCall) -> None:
        """Note that a call has ended or was abandoned."""
        self._left -= 1
        if worker.is_cancelled and not self._has_left:
            self._workers_left += 1
            if self._waiting:
                self._start_more(1)
            if self._batch.journal is not None:
                self._batch.journal.queue_outcome(state)
        if not self._left and self._changed is not None:
            self._changed.set()

    async def _leave(self, *, can_wait: bool) -> None:
        """Cancel every call, because the caller is cancelled; wait a moment for them."""
        self._has_left = True
        for worker in self._workers:
            worker.cancel()
        if can_wait:
            with anyio.CancelScope(deadline=self._batch.clock() + GRACE_SECONDS, shield=True):
                for worker in list(self._workers):
                    if worker.task is not None:
                        await worker.task.wait()
        for worker in list(self._workers):
            if worker.state is not None:
                self._abandon(worker, worker.state)


def _is_patient(state: AdmittedCall) -> bool:
    return state.needs_approval or state.lock_request is not None


def _build_escaped(error: BaseException, state: AdmittedCall) -> HandlerResult:
    """Build the result of a call whose path raised, although it was not cancelled."""
    if isinstance(error, anyio.get_cancelled_exc_class()):
        text = f"The tool {state.call.name!r} failed while running: it cancelled itself."
        return HandlerResult(Err("execution_failed", text, by="spindle"))
    return HandlerResult(to_err(error, tool=state.call.name))


def _next_look(worker: _CallWorker) -> float:
    state = worker.state
    if state is None or (worker.is_cancelled and state.overdue_until is None) or state.deadline == -math.inf:
        return math.inf
    return state.deadline if state.overdue_until is None else state.overdue_until
