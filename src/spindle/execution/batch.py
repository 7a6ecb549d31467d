"""A batch: some workers that take calls from a queue; equal calls run once, shared resources are used in turn."""

import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from spindle.calls import Err
from spindle.execution.budget import Budget
from spindle.execution.gates import House
from spindle.execution.job import Job
from spindle.execution.lanes import Lanes, Ticket
from spindle.execution.settle import Settled
from spindle.tools.context import ToolContext


@dataclass(kw_only=True, slots=True)
class Batch:
    """What the calls that were handed over together share."""

    house: House
    context: ToolContext
    budget: Budget
    share: int
    deadline: float | None
    attachments: tuple[Any, ...]
    is_single: bool
    leaders: dict[Any, Job] = field(default_factory=dict[Any, Job])
    followers: list[tuple[Job, Job]] = field(default_factory=list[tuple[Job, Job]])
    """Calls that wait for the answer of an equal one."""
    tickets: dict[int, Ticket] = field(default_factory=dict[int, Ticket])

    def seconds_left(self) -> float | None:
        """How long the batch may still take."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    def join(self, job: Job, lanes: Lanes) -> bool:
        """Give a call its place; `False` when it is finished, or an equal call will answer for it."""
        tool = job.entry.tool
        if tool.read_only and not self.is_single:
            leader = self.leaders.setdefault((tool, job.checksum), job)
            if leader is not job:
                self.followers.append((job, leader))
                return False
        if tool.resources is not None:
            return self._queue_for_resources(job, lanes)
        return True

    def _queue_for_resources(self, job: Job, lanes: Lanes) -> bool:
        tool = job.entry.tool
        try:
            names = [str(name) for name in (tool.resources(job.value) if tool.resources else ())]
        except Exception as error:  # noqa: BLE001  a guard that raises refuses
            self.context.events.warn(f"the resources of {tool.name!r} failed", source="resources", error=error)
            text = f"The tool {tool.name!r} cannot be used now: what it touches could not be found out."
            job.finish(Settled(Err("not_available", text, cause=error)))
            return False
        if names:
            self.tickets[id(job)] = lanes.join(names, shared=tool.read_only)
        return True

    async def wait_for_resources(self, job: Job) -> None:
        """Wait until nobody uses what the call touches; it holds no slot meanwhile."""
        if self.tickets and (ticket := self.tickets.get(id(job))) is not None:
            await ticket.ready()

    def leave_resources(self, job: Job) -> None:
        """Let the next call have what this one touched."""
        if self.tickets and (ticket := self.tickets.get(id(job))) is not None:
            ticket.leave()

    def share_results(self) -> None:
        """Give equal calls the answer of the one that ran."""
        for job, leader in self.followers:
            job.ctx.deadline = leader.ctx.deadline
            if leader.settled is not None:
                job.finish(leader.settled)


async def run_all(
    batch: Batch, jobs: Sequence[Job], run: Callable[[Job, Batch], Coroutine[Any, Any, None]], *, workers: int
) -> None:
    """Run every job: a single one right here, many by as many workers as may run at once.

    A call that waits for a resource has a task of its own, so that it holds up nobody behind it.
    """
    if len(jobs) <= 1:
        for job in jobs:
            await run(job, batch)
        return
    queued = [job for job in jobs if id(job) in batch.tickets]
    plain = [job for job in jobs if id(job) not in batch.tickets] if queued else jobs
    queue = iter(plain)

    async def work() -> None:
        for job in queue:
            await run(job, batch)

    async with anyio.create_task_group() as group:
        for job in queued:
            group.start_soon(run, job, batch)
        for _ in range(min(workers, len(plain))):
            group.start_soon(work)
