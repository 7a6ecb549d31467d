"""The workflow of a turn: one activity for each iteration, and a wait for answers between them.

It holds ids and the number of the last step; the state of the turn is in the journal. Temporal replays this code, so
it reads no clock and does nothing else that may differ.
"""

import asyncio
from datetime import timedelta
from typing import Any, Final

from spindle.extras import needs_extra

with needs_extra("temporal", purpose="The engine Temporal"):
    from temporalio import workflow
    from temporalio.common import RetryPolicy
    from temporalio.exceptions import ActivityError

TURN_WORKFLOW: Final = "spindle_turn"
ITERATION: Final = "spindle_turn_iteration"
ANSWER: Final = "spindle_answer"
CANCEL: Final = "spindle_cancel"
SUSPENDED: Final = "spindle_suspended"
"""The field of the memo with the step at which the turn was suspended last."""

_MAX_ITERATION_SECONDS: Final = 86_400.0


@workflow.defn(name=TURN_WORKFLOW)
class TurnWorkflow:
    """One turn."""

    def __init__(self) -> None:
        self._answered = 0
        self._is_cancelled = False
        self._running: workflow.ActivityHandle[dict[str, Any]] | None = None

    @workflow.run
    async def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Advance the turn until it has ended; `order` has the message for workers, and what was known before."""
        self._answered = max(self._answered, order.get("answered", 0))
        self._is_cancelled = self._is_cancelled or order.get("is_cancelled", False)
        while True:
            try:
                found = await self._advance(order)
                if found["status"] == "suspended":
                    await self._wait_for_answers(found["step"])
                elif found["status"] != "running":
                    return found
            except asyncio.CancelledError:
                self._is_cancelled = True  # cancelled at the service: the turn is aborted in order
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new({**order, "answered": self._answered, "is_cancelled": self._is_cancelled})

    async def _wait_for_answers(self, step: int) -> None:
        workflow.upsert_memo({SUSPENDED: step})
        await workflow.wait_condition(lambda: self._answered > step or self._is_cancelled)

    async def _advance(self, order: dict[str, Any]) -> dict[str, Any]:
        while True:
            self._running = workflow.start_activity(
                ITERATION,
                {"message": order["message"], "is_cancelled": self._is_cancelled},
                result_type=dict[str, Any],
                start_to_close_timeout=timedelta(seconds=_MAX_ITERATION_SECONDS),
                heartbeat_timeout=timedelta(seconds=order["worker_timeout_seconds"]),
                retry_policy=RetryPolicy(
                    initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=5)
                ),
                # A cancelled iteration saves the end of the turn, and returns as any other.
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
            try:
                return await self._running
            except ActivityError:
                if not self._is_cancelled:
                    raise
                # Its worker died after the cancellation, or it was not started yet.
            finally:
                self._running = None

    @workflow.signal(name=ANSWER)
    def answer(self, step: int) -> None:
        """Go on: at `step`, the journal has answers."""
        self._answered = max(self._answered, step)

    @workflow.signal(name=CANCEL)
    def cancel(self) -> None:
        """Abort the turn."""
        if not self._is_cancelled:
            self._is_cancelled = True
            if self._running is not None:
                self._running.cancel()
