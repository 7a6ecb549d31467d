"""A batch: some workers that take calls from a queue; equal calls run once, shared resources are used in turn."""

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
from spindle.execution.cancellation import asyncio_task, is_scope_cancelled, uncancel_task
from spindle.execution.journaling import BatchJournal
from spindle.execution.resource_locks import LockRequest, ResourceLocks
from spindle.execution.results import HandlerResult, without_cost
from spindle.tools.context import ToolContext


class Batch:
    """What the calls that were handed over together share."""

    __slots__ = (
        "_followers",
        "_leaders",
        "_tickets",
        "attachments",
        "budget",
        "context",
        "deadline",
        "house",
        "recording",
        "share",
    )

    def __init__(
        self,
        calls: int,
        house: AdmissionContext,
        context: ToolContext,
        *,
        budget: Budget,
        timeout_seconds: float | None,
        attachments: Sequence[Any],
        recording: BatchJournal | None = None,
    ) -> None:
        self.house = house
        self.context = context
        self.budget = budget
        self.share = budget.chars_for(fair_share(budget.total, calls))
        """So many characters each call may count on."""
        self.deadline = None if timeout_seconds is None else anyio.current_time() + timeout_seconds
        self.attachments = attachments
        self.recording = recording
        self._leaders: dict[Any, CallState] | None = None if calls == 1 else {}
        self._followers: list[tuple[CallState, CallState]] = []
        self._tickets: dict[CallState, LockRequest] = {}

    def join(self, job: CallState, lanes: ResourceLocks) -> bool:
        """Give a call its place; `False` when it is finished, or an equal call will answer for it."""
        tool = job.entry.tool
        if self._leaders is not None and (name := self._shared_name(job)) is not None:
            leader = self._leaders.setdefault(name, job)
            if leader is not job:
                self._followers.append((job, leader))
                return False
        if tool.resources is not None:
            return self._queue_for_resources(job, lanes)
        return True

    def _shared_name(self, job: CallState) -> Hashable | None:
        """Name what a call has in common with those whose answer it may share; `None` when it must run by itself."""
        tool = job.entry.tool
        if tool.read_only or tool.cache is not None:
            return (tool, job.checksum)
        # With a journal, what has the same key is the same call, and is not done twice.
        return None if self.recording is None else (str(job.call.tool_call_id), job.checksum)

    def _queue_for_resources(self, job: CallState, lanes: ResourceLocks) -> bool:
        tool = job.entry.tool
        try:
            named: Any = tool.resources(job.value) if tool.resources else ()
            # A lone text is an iterable of its letters, which nobody means.
            names = [named] if isinstance(named, str) else [str(name) for name in named]
        except Exception as error:  # noqa: BLE001  a guard that raises refuses
            self.context.events.warn(f"the resources of {tool.name!r} failed", source="resources", error=error)
            text = f"The tool {tool.name!r} cannot be used now: what it touches could not be found out."
            job.finish(HandlerResult(Err("not_available", text, cause=error)))
            return False
        if names:
            self._tickets[job] = lanes.join(names, shared=tool.read_only)
        return True

    def ticket(self, job: CallState) -> LockRequest | None:
        """Give the place of a call in the queues of what it touches."""
        return self._tickets.get(job) if self._tickets else None

    def may_wait_long(self, job: CallState) -> bool:
        """Whether a call waits for more than a free slot before it runs."""
        return job.needs_approval or job in self._tickets

    def leave_queues(self, jobs: Iterable[CallState] | None = None) -> None:
        """Give up the places of some calls, or every place, also of calls that never ran."""
        for job in tuple(self._tickets) if jobs is None else jobs:
            if (ticket := self._tickets.get(job)) is not None:
                ticket.leave()

    def share_results(self) -> None:
        """Give equal calls the answer of the one that ran."""
        for job, leader in self._followers:
            if leader.settled is not None:
                job.record = None if leader.record is None else leader.record.shared()
                job.finish(leader.settled if leader.is_from_record else without_cost(leader.settled))


Run: TypeAlias = Callable[[CallState, Batch], Coroutine[Any, Any, None]]


async def run_all(batch: Batch, jobs: Sequence[CallState], run: Run, *, workers: int) -> None:
    """Run every job: a single one right here, many by as many workers as may run at once.

    A call that waits for a resource, or for a person, has a task of its own, so that it holds up nobody behind it.
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
        # Not in this task, which is the caller's: a tool that cancels the task it runs in must not cancel its caller.
        group.start_soon(_WorkerPool(group, batch, plain, run, most=workers).work)


async def _run_here(run: Run, job: CallState, batch: Batch) -> None:
    """Run a lone call in its caller's task; a tool that swallows the caller's cancellation does not undo it."""
    task = asyncio_task()
    before = 0 if task is None else task.cancelling()
    await run(job, batch)
    if task is not None and task.cancelling() > before:
        await checkpoint_if_cancelled()
        raise anyio.get_cancelled_exc_class()


async def _run_in_own_task(run: Run, job: CallState, batch: Batch) -> None:
    """Run a call in a task that is ours; a tool that cancels that task has failed, and the task goes on."""
    try:
        await run(job, batch)
    except anyio.get_cancelled_exc_class():
        if is_scope_cancelled():
            raise
        uncancel_task()
        text = f"The tool {job.call.name!r} failed while running: it cancelled itself."
        job.finish(HandlerResult(Err("execution_failed", text)))


class _WorkerPool:
    """Workers on one queue. Each starts two more while calls are waiting, so calls that end at once need few."""

    def __init__(self, group: TaskGroup, batch: Batch, jobs: Sequence[CallState], run: Run, *, most: int) -> None:
        self._group = group
        self._batch = batch
        self._queue = iter(jobs)
        self._waiting = len(jobs)
        self._run = run
        self._may_start = most - 1

    async def work(self) -> None:
        """Take calls until there are none."""
        for _ in range(min(2, self._may_start, self._waiting - 1)):
            self._may_start -= 1
            self._group.start_soon(self.work)
        run, batch = self._run, self._batch
        for job in self._queue:
            self._waiting -= 1
            await _run_in_own_task(run, job, batch)


class Slots:
    """Counted places, given out in the order they were asked for; a free one costs no wait and no switch."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[anyio.Event] = deque()

    def take_free(self) -> bool:
        """Take a place if one is free and nobody waits for it; tells whether."""
        if not self._free or self._waiting:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Take a place, waiting for one where none is free."""
        if self.take_free():
            return
        mine = anyio.Event()
        self._waiting.append(mine)
        try:
            await mine.wait()
        except BaseException:
            if mine.is_set():
                self.give()  # it was handed over while we were leaving
            else:
                self._waiting.remove(mine)
            raise

    def give(self) -> None:
        """Give the place back, or on to who has waited longest."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1


class AbortSignal(Protocol):
    """The word to stop, such as the abort of a turn."""

    @property
    def aborted(self) -> bool:
        """Whether it was given."""
        ...

    def on_abort(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have a function called when it is given; gives back the function that takes it off again."""
        ...


async def run_until_aborted(run: Callable[[], Awaitable[None]], jobs: Sequence[CallState], stop: AbortSignal) -> None:
    """Run calls until they are done or `stop` is given; then each that had not ended is answered as cancelled."""
    ended: set[CallState] = set()
    if not stop.aborted:
        with anyio.CancelScope() as scope:

            def end() -> None:
                for job in jobs:
                    if job.settled is None:
                        job.ctx.cancel()  # first, so that a handler that hears of it can find out why
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
        # What fails after the word to stop fails because of it.
        if job not in ended and (job.settled is None or not job.settled.result.ok):
            job.ctx.cancel()
            job.finish(HandlerResult(Err("cancelled", "The call was cancelled: the turn was aborted.")))


async def record_cancelled(jobs: Sequence[CallState], batch: Batch) -> None:
    """Tell every call that it is over, and write that down, although the caller is leaving."""
    for job in jobs:
        job.ctx.cancel()
        if job.settled is None:
            job.finish(HandlerResult(Err("cancelled", f"The call of {job.call.name!r} was cancelled.")))
    if batch.recording is not None:
        with anyio.move_on_after(5, shield=True):
            await batch.recording.finish(jobs, in_haste=True)
