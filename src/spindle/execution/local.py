"""Sync handlers, run beside the event loop: in a thread, or in a process that can be killed."""

from typing import Any

# P
from spindle.execution.backends.threads import Post, ThreadLane
from spindle.execution.job import Job
from spindle.tools.running import is_awaitable


class Local:
    """Runs the bodies of sync handlers of one executor."""

    def __init__(self, max_threads: int) -> None:
        self._threads = ThreadLane(max_threads)

    # P2

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
        raise NotImplementedError
