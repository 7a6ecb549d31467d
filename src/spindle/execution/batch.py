"""A batch of calls: duplicates, resource locks, the worker pool that runs it, and its cancellation."""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from spindle.calls import Err
from spindle.execution.admission import AdmissionContext
from spindle.execution.budget import Budget, fair_share
from spindle.execution.call_state import CallState
from spindle.execution.cancellation import get_asyncio_task, is_scope_cancelled, uncancel_task
from spindle.execution.journaling import BatchJournal
from spindle.execution.resource_locks import LockRequest, ResourceLocks
from spindle.execution.results import HandlerResult, without_cost
from spindle.tools.context import ToolContext


class Batch:
    """The state shared by all calls of one batch."""

    __slots__ = (
        "_followers",
        "_leaders",
        "_lock_requests",
        "admission",
        "attachments",
        "budget",
        "context",
        "deadline",
        "journal",
        "share",
    )

    def __init__(
        self,
        calls: int,
        admission: AdmissionContext,
        context: ToolContext,
        *,
        budget: Budget,
        timeout_seconds: float | None,
        attachments: Sequence[Any],
        journal: BatchJournal | None = None,
    ) -> None:
        self.admission = admission
        self.context = context
        self.budget = budget
        self.share = budget.chars_for(fair_share(budget.total, calls))
        """Characters that each call is guaranteed."""
        self.deadline = None if timeout_seconds is None else anyio.current_time() + timeout_seconds
        self.attachments = attachments
        self.journal = journal
        self._leaders: dict[Any, CallState] | None = None if calls == 1 else {}
        self._followers: list[tuple[CallState, CallState]] = []
        self._lock_requests: dict[CallState, LockRequest] = {}

    def add(self, job: CallState, locks: ResourceLocks) -> bool:
        """Add a call to the batch; return `False` if it is finished or shares the result of an equal call."""
        tool = job.entry.tool
        if self._leaders is not None and (name := self._sharing_key(job)) is not None:
            leader = self._leaders.setdefault(name, job)
            if leader is not job:
                self._followers.append((job, leader))
                return False
        if tool.resources is not None:
            return self._request_locks(job, locks)
        return True

    def _sharing_key(self, job: CallState) -> Hashable | None:
        """Return the key that calls with a shared result have in common; `None` if the call must run by itself."""
        tool = job.entry.tool
        if tool.read_only or tool.cache is not None:
            return (tool, job.checksum)
        # With a journal, equal keys mean the same call, which must not run twice.
        return None if self.journal is None else (str(job.call.tool_call_id), job.checksum)

    def _request_locks(self, job: CallState, locks: ResourceLocks) -> bool:
        tool = job.entry.tool
        try:
            named: Any = tool.resources(job.value) if tool.resources else ()
            # A single string is an iterable of characters, which is never intended.
            names = [named] if isinstance(named, str) else [str(name) for name in named]
        except Exception as error:  # noqa: BLE001  a callback that raises rejects the call
            self.context.events.warn(f"the resources callback of {tool.name!r} failed", source="resources", error=error)
            text = f"The tool {tool.name!r} cannot be used now: its resources could not be determined."
            job.finish(HandlerResult(Err("not_available", text, cause=error)))
            return False
        if names:
            self._lock_requests[job] = locks.request(names, shared=tool.read_only)
        return True

    def lock_request(self, job: CallState) -> LockRequest | None:
        """Return the lock request of a call, or `None` if it uses no resources."""
        return self._lock_requests.get(job) if self._lock_requests else None

    def may_wait_long(self, job: CallState) -> bool:
        """Return whether a call waits for approval or locks before it runs, not only for a slot."""
        return job.needs_approval or job in self._lock_requests

    def release_locks(self, jobs: Iterable[CallState] | None = None) -> None:
        """Release the lock requests of some calls, or all of them, including calls that never ran."""
        for job in tuple(self._lock_requests) if jobs is None else jobs:
            if (ticket := self._lock_requests.get(job)) is not None:
                ticket.release()

    def share_results(self) -> None:
        """Copy the results of calls that ran to their duplicates."""
        for job, leader in self._followers:
            if leader.settled is not None:
                job.journal_state = None if leader.journal_state is None else leader.journal_state.for_duplicate()
                job.finish(leader.settled if leader.is_from_record else without_cost(leader.settled))


Run: TypeAlias = Callable[[CallState, Batch], Coroutine[Any, Any, None]]


async def run_all(batch: Batch, jobs: Sequence[CallState], run: Run, *, workers: int) -> None:
    """Run every call: a single one in this task, several in at most `workers` worker tasks.

    A call that waits for a lock or an approval runs in its own task, so that it does not block a worker.
    """
    if not jobs:
        return
    if len(jobs) == 1:
        await _run_here(run, jobs[0], batch)
        return
    patient = [job for job in jobs if batch.may_wait_long(job)]
    plain = [job for job in jobs if not batch.may_wait_long(job)] if patient else jobs
    async with anyio.create_task_group() as group:
        for job in patient:
            group.start_soon(_run_in_own_task, run, job, batch)
        # Not in the caller's task: a tool that cancels its own task must not cancel the caller.
        group.start_soon(_WorkerPool(group, batch, plain, run, most=workers).work)


async def _run_here(run: Run, job: CallState, batch: Batch) -> None:
    """Run a single call in the caller's task; raise a cancellation that the tool swallowed."""
    task = get_asyncio_task()
    before = 0 if task is None else task.cancelling()
    await run(job, batch)
    if task is not None and task.cancelling() > before:
        await checkpoint_if_cancelled()
        raise anyio.get_cancelled_exc_class()


async def _run_in_own_task(run: Run, job: CallState, batch: Batch) -> None:
    """Run a call in a task of the batch; a tool that cancels this task fails, and the task continues."""
    try:
        await run(job, batch)
    except anyio.get_cancelled_exc_class():
        if is_scope_cancelled():
            raise
        uncancel_task()
        text = f"The tool {job.call.name!r} failed while running: it cancelled itself."
        job.finish(HandlerResult(Err("execution_failed", text)))


class _WorkerPool:
    """Workers on one queue; each starts up to two more while calls wait, so short calls need few tasks."""

    def __init__(self, group: TaskGroup, batch: Batch, jobs: Sequence[CallState], run: Run, *, most: int) -> None:
        self._group = group
        self._batch = batch
        self._queue = iter(jobs)
        self._waiting = len(jobs)
        self._run = run
        self._workers_left = most - 1

    async def work(self) -> None:
        """Run calls from the queue until it is empty."""
        for _ in range(min(2, self._workers_left, self._waiting - 1)):
            self._workers_left -= 1
            self._group.start_soon(self.work)
        run, batch = self._run, self._batch
        for job in self._queue:
            self._waiting -= 1
            await _run_in_own_task(run, job, batch)


class Slots:
    """A FIFO semaphore; acquiring a free slot does not switch tasks."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[anyio.Event] = deque()

    def acquire_nowait(self) -> bool:
        """Acquire a slot if one is free and no task waits; return whether it was acquired."""
        if not self._free or self._waiting:
            return False
        self._free -= 1
        return True

    async def acquire(self) -> None:
        """Acquire a slot, waiting if none is free."""
        if self.acquire_nowait():
            return
        mine = anyio.Event()
        self._waiting.append(mine)
        try:
            await mine.wait()
        except BaseException:
            if mine.is_set():
                self.release()  # the slot was assigned while this task was being cancelled
            else:
                self._waiting.remove(mine)
            raise

    def release(self) -> None:
        """Release the slot, or pass it to the task that has waited longest."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1


class AbortSignal(Protocol):
    """A signal that aborts a batch, such as the abort of a turn."""

    @property
    def aborted(self) -> bool:
        """Whether it was set."""
        ...

    def on_abort(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Register a callback and return a function that removes it."""
        ...


async def run_until_aborted(run: Callable[[], Awaitable[None]], jobs: Sequence[CallState], stop: AbortSignal) -> None:
    """Run calls until they end or `stop` is set; unfinished calls then get a `cancelled` result."""
    ended: set[CallState] = set()
    if not stop.aborted:
        with anyio.CancelScope() as scope:

            def end() -> None:
                for job in jobs:
                    if job.settled is None:
                        job.ctx.cancel()  # before the scope, so that a handler can see why it is cancelled
                    else:
                        ended.add(job)
                scope.cancel()

            forget = stop.on_abort(end)
            try:
                await run()
            finally:
                forget()
        if not scope.cancel_called:
            return
    for job in jobs:
        # A call that fails after the abort is reported as cancelled.
        if job not in ended and (job.settled is None or not job.settled.result.ok):
            job.ctx.cancel()
            job.finish(HandlerResult(Err("cancelled", "The call was cancelled: the turn was aborted.")))


async def record_cancelled(jobs: Sequence[CallState], batch: Batch) -> None:
    """Cancel every call and write the outcomes, although the caller itself is being cancelled."""
    for job in jobs:
        job.ctx.cancel()
        if job.settled is None:
            job.finish(HandlerResult(Err("cancelled", f"The call of {job.call.name!r} was cancelled.")))
    if batch.journal is not None:
        with anyio.move_on_after(5, shield=True):
            await batch.journal.finish(jobs, skip_media=True)
