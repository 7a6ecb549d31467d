"""A batch: some workers that take calls from a queue; equal calls run once, shared resources are used in turn."""

from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from spindle.calls import Err
from spindle.execution.budget import Budget, fair_share
from spindle.execution.cancelling import asyncio_task, forgive_cancel_requests, is_scope_cancelled
from spindle.execution.gates import House
from spindle.execution.job import Job
from spindle.execution.lanes import Lanes, Ticket
from spindle.execution.recording import Recording
from spindle.execution.settle import Settled, given_again
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
        house: House,
        context: ToolContext,
        *,
        budget: Budget,
        timeout_seconds: float | None,
        attachments: Sequence[Any],
        recording: Recording | None = None,
    ) -> None:
        self.house = house
        self.context = context
        self.budget = budget
        self.share = budget.chars_for(fair_share(budget.total, calls))
        """So many characters each call may count on."""
        self.deadline = None if timeout_seconds is None else anyio.current_time() + timeout_seconds
        self.attachments = attachments
        self.recording = recording
        self._leaders: dict[Any, Job] | None = None if calls == 1 else {}
        self._followers: list[tuple[Job, Job]] = []
        self._tickets: dict[Job, Ticket] = {}

    def join(self, job: Job, lanes: Lanes) -> bool:
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

    def _shared_name(self, job: Job) -> Hashable | None:
        """Name what a call has in common with those whose answer it may share; `None` when it must run by itself."""
        tool = job.entry.tool
        if tool.read_only or tool.cache is not None:
            return (tool, job.checksum)
        # With a journal, what has the same key is the same call, and is not done twice.
        return None if self.recording is None else (str(job.call.tool_call_id), job.checksum)

    def _queue_for_resources(self, job: Job, lanes: Lanes) -> bool:
        tool = job.entry.tool
        try:
            named: Any = tool.resources(job.value) if tool.resources else ()
            # A lone text is an iterable of its letters, which nobody means.
            names = [named] if isinstance(named, str) else [str(name) for name in named]
        except Exception as error:  # noqa: BLE001  a guard that raises refuses
            self.context.events.warn(f"the resources of {tool.name!r} failed", source="resources", error=error)
            text = f"The tool {tool.name!r} cannot be used now: what it touches could not be found out."
            job.finish(Settled(Err("not_available", text, cause=error)))
            return False
        if names:
            self._tickets[job] = lanes.join(names, shared=tool.read_only)
        return True

    def ticket(self, job: Job) -> Ticket | None:
        """Give the place of a call in the queues of what it touches."""
        return self._tickets.get(job) if self._tickets else None

    def may_wait_long(self, job: Job) -> bool:
        """Whether a call waits for more than a free slot before it runs."""
        return job.needs_approval or job in self._tickets

    def leave_queues(self, jobs: Iterable[Job] | None = None) -> None:
        """Give up the places of some calls, or every place, also of calls that never ran."""
        for job in tuple(self._tickets) if jobs is None else jobs:
            if (ticket := self._tickets.get(job)) is not None:
                ticket.leave()

    def share_results(self) -> None:
        """Give equal calls the answer of the one that ran."""
        for job, leader in self._followers:
            if leader.settled is not None:
                job.record = None if leader.record is None else leader.record.shared()
                job.finish(leader.settled if leader.is_from_record else given_again(leader.settled))


Run: TypeAlias = Callable[[Job, Batch], Coroutine[Any, Any, None]]


async def run_all(batch: Batch, jobs: Sequence[Job], run: Run, *, workers: int) -> None:
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
        group.start_soon(_Crew(group, batch, plain, run, most=workers).work)


async def _run_here(run: Run, job: Job, batch: Batch) -> None:
    """Run a lone call in its caller's task; a tool that swallows the caller's cancellation does not undo it."""
    task = asyncio_task()
    before = 0 if task is None else task.cancelling()
    await run(job, batch)
    if task is not None and task.cancelling() > before:
        await checkpoint_if_cancelled()
        raise anyio.get_cancelled_exc_class()


async def _run_in_own_task(run: Run, job: Job, batch: Batch) -> None:
    """Run a call in a task that is ours; a tool that cancels that task has failed, and the task goes on."""
    try:
        await run(job, batch)
    except anyio.get_cancelled_exc_class():
        if is_scope_cancelled():
            raise
        forgive_cancel_requests()
        text = f"The tool {job.call.name!r} failed while running: it cancelled itself."
        job.finish(Settled(Err("execution_failed", text)))


class _Crew:
    """Workers on one queue. Each starts two more while calls are waiting, so calls that end at once need few."""

    def __init__(self, group: TaskGroup, batch: Batch, jobs: Sequence[Job], run: Run, *, most: int) -> None:
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
