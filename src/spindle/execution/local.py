"""Sync handlers, run beside the event loop: in a thread, or in a process that can be killed."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from spindle.events import Events
from spindle.execution.backends.threads import Post, ThreadLane
from spindle.execution.job import Job
from spindle.tools.running import is_awaitable

if TYPE_CHECKING:
    from spindle.execution.backends.child import ChildLink
    from spindle.execution.backends.processes import ProcessLane


class Local:
    """Runs the bodies of sync handlers of one executor."""

    def __init__(self, most_at_once: int) -> None:
        self._most_at_once = most_at_once
        self._threads = ThreadLane(most_at_once)

    @cached_property
    def _processes(self) -> "ProcessLane":
        # Few programs need it, and what it needs takes a while to import.
        from spindle.execution.backends.processes import ProcessLane  # noqa: PLC0415

        return ProcessLane(self._most_at_once)

    @property
    def abandoned(self) -> int:
        """How many threads still run a call that nobody waits for."""
        return self._threads.abandoned

    async def run(self, job: Job) -> Any:
        """Give what the handler gives; a cancelled call is left behind in its thread, or killed with its process."""
        if job.entry.tool.isolation == "process":
            return await self._run_in_process(job)
        handler, value, ctx, meta = job.runnable.handler, job.value, job.ctx, job.runnable.meta

        def body(post: Post) -> Any:
            ctx.post_through(post)
            return handler(value, ctx, meta)

        result = await self._threads.run(body, on_abandon=ctx.cancel)
        # A plain function may still hand back a coroutine: a partial, a lambda.
        return await result if is_awaitable(result) else result

    async def _run_in_process(self, job: Job) -> Any:
        handler, value, ctx, meta = job.runnable.handler, job.value, job.ctx, job.runnable.meta
        told = ctx.events

        def body(link: "ChildLink") -> Any:
            ctx.events = _Relay(told, link)
            return handler(value, ctx, meta)

        def hear(message: tuple[str, object]) -> None:
            told.notify(*message)

        return await self._processes.run(body, on_message=hear)


class _Relay(Events):
    """The events of a handler in another process: what it tells is told to the observers at home."""

    __slots__ = ("_link",)

    def __init__(self, told: Events, link: "ChildLink") -> None:
        super().__init__()
        self._link = link
        self.heard = told.heard

    def notify(self, name: str, payload: object) -> None:
        """Send the event home."""
        self._link.send((name, payload))
