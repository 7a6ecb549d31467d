"""The stages of a turn in this process: input pipeline, model loop, output pipeline; limited in time, and reported."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from spindle.artifacts.spool import Spool
from spindle.errors import JournalError, LimitError, TurnConflictError, UnsavableTurnError
from spindle.events import Failed, TurnStart
from spindle.turns import optional
from spindle.turns.context import DispatchContext, TurnContext
from spindle.turns.gate_desk import GateDesk
from spindle.turns.middleware import Middleware, run_pipeline
from spindle.turns.model_loop import LoopSettings, ModelLoop
from spindle.turns.report import Advance, TurnProgress, TurnReport, build_turn_end
from spindle.turns.signals import CancelEvent, abort_on

if TYPE_CHECKING:
    from spindle.journal.states import StateStore
    from spindle.turns.call_progress import CallProgress
    from spindle.turns.resumption import ResumedTurn
    from spindle.turns.story_writer import StoryWriter
    from spindle.turns.turn_saver import TurnSaver
    from spindle.turns.turn_store import TurnStore


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnStages:
    """Runs turns: whole ones, or one iteration of a turn on an engine."""

    inputs: Sequence[Middleware]
    outputs: Sequence[Middleware]
    loop: LoopSettings
    store: "TurnStore | None"
    own_spool: Spool | None
    """A spool of the runner itself, which has to forget turns that have ended."""
    timeout_seconds: float | None
    gates: GateDesk
    stories: "StateStore | None" = None
    """Where the stories of turns are written, if they are."""

    async def run(
        self, turn: TurnContext, cancel: CancelEvent | None, resumed: "ResumedTurn | None" = None
    ) -> TurnReport:
        """Run a turn to its end, or until it is suspended, and return its report; failures are in the report."""
        run, events = TurnProgress(DispatchContext(turn=turn) if resumed is None else resumed.ctx), turn.events
        run.saver = self._build_saver(run.ctx) if resumed is None else resumed.saver
        if events.has_observer("turn_start"):
            await events.emit("turn_start", TurnStart(turn_id=turn.id, started_at=run.started_at, caller=turn.caller))
        story: StoryWriter | None = None
        try:
            calls = None if resumed is None else resumed.calls
            story = await self._open_story(run.ctx, calls)
            if cancel is None:
                await self._run_in_time(run, calls, self.timeout_seconds)
            else:
                async with abort_on(cancel, turn.abort, events):
                    await self._run_in_time(run, calls, self.timeout_seconds)
            run.status = run.find_status()
            if run.saver is not None and run.status in {"ok", "nack", "aborted"}:
                await run.saver.finish(run.status, run.text, None if run.error is None else str(run.error))
                if self.own_spool is not None:
                    await self.own_spool.delete_turn(turn.id)
            if run.error is not None:
                await events.emit("error", Failed(turn_id=turn.id, error=run.error, stage=run.stage))
        finally:
            self.gates.forget_turn(turn.id)
            report = run.to_report()
            if story is not None:
                await story.finish(run.ctx, report)
            if events.has_observer("turn_end"):
                await events.emit_last("turn_end", build_turn_end(report, turn.caller))
        return report

    async def _open_story(self, ctx: DispatchContext, calls: "Sequence[CallProgress] | None") -> "StoryWriter | None":
        """Let a story of the turn be written; `None` if the runner has no place for it."""
        if self.stories is None:
            return None
        ctx.watch = story = optional.StoryWriter(ctx, self.stories)
        self.gates.watch_turn(ctx.turn_id, story)
        await story.open(ctx, calls)
        return story

    def _build_saver(self, ctx: DispatchContext) -> "TurnSaver | None":
        """Return what saves a turn; `None` without a journal, and for a dry run, in which nothing happens."""
        callback = self.loop.executor_callback
        return None if self.store is None or ctx.dry_run else optional.TurnSaver(ctx, self.store, callback)

    async def advance(self, resumed: "ResumedTurn", cancel: CancelEvent | None) -> Advance:
        """Run one iteration of a turn on an engine, and save it; what fails the turn is saved, too.

        Raises:
            JournalError: The turn cannot be saved now; the iteration has to be started again.
            TurnConflictError: Another worker has taken over the turn.
        """
        run, turn, saver = TurnProgress(resumed.ctx), resumed.ctx.turn, resumed.saver
        run.saver, engine, events = saver, saver.engine, turn.events
        is_new = engine is not None and engine.stage == "turn-input"
        if is_new and events.has_observer("turn_start"):
            await events.emit("turn_start", TurnStart(turn_id=turn.id, started_at=run.started_at, caller=turn.caller))
        story = await self._open_story(run.ctx, None if is_new else resumed.calls)
        seconds = self.timeout_seconds
        if seconds is not None and engine is not None:
            seconds = max(0.0, seconds - engine.count_seconds())
        try:
            async with nullcontext() if cancel is None else abort_on(cancel, turn.abort, events):
                await self._run_in_time(run, None if is_new else resumed.calls, seconds, once=True)
            if isinstance(run.error, (JournalError, TurnConflictError)):
                raise run.error
            if run.goes_on:
                return Advance("running", saver.step)
            await self._save_end(run, saver)
        finally:
            self.gates.forget_turn(turn.id)
        if run.error is not None:
            await events.emit("error", Failed(turn_id=turn.id, error=run.error, stage=run.stage))
        if story is not None:
            await story.finish(run.ctx, run.to_report())
        if events.has_observer("turn_end"):
            await events.emit_last("turn_end", build_turn_end(run.to_report(), turn.caller))
        return Advance("suspended" if run.status == "suspended" else "ended", saver.step)

    async def _save_end(self, run: TurnProgress, saver: "TurnSaver") -> None:
        run.status = run.find_status()
        if run.status in {"ok", "nack", "aborted"}:
            try:
                await saver.finish(run.status, run.text, None if run.error is None else str(run.error))
            except UnsavableTurnError as error:
                run.error, run.status = error, "error"
        if run.error is not None and run.status in {"error", "limit"}:
            await saver.fail(run.status, run.error)

    async def _run_in_time(
        self, run: TurnProgress, calls: "list[CallProgress] | None", seconds: float | None, *, once: bool = False
    ) -> None:
        """Run the stages within the time limit; what fails is kept as the error of the turn, not raised."""
        if seconds is None:
            await self._run_stages(run, calls, once=once)
            return
        with anyio.move_on_after(seconds) as scope:
            await self._run_stages(run, calls, once=once)
        if scope.cancelled_caught:
            run.error = LimitError(
                f"The turn exceeded timeout_seconds={self.timeout_seconds}; raise the limit, or ask for less.",
                field="timeout_seconds",
            )

    async def _run_stages(self, run: TurnProgress, calls: "list[CallProgress] | None", *, once: bool) -> None:
        try:
            with (loop := ModelLoop(run.ctx, self.loop, run.saver)).calls:
                await self._pass_stages(run, loop, calls, once=once)
        except Exception as error:  # noqa: BLE001  every failure of a turn is reported, not raised
            run.error = error

    async def _pass_stages(
        self, run: TurnProgress, loop: ModelLoop, calls: "list[CallProgress] | None", *, once: bool
    ) -> None:
        turn, saver = run.ctx.turn, run.saver
        if calls is None:
            await run_pipeline(self.inputs, turn, "turn-input")
        if turn.aborted:
            return
        run.stage = "dispatch"
        if saver is not None and saver.engine is not None:
            saver.engine = replace(saver.engine, stage="dispatch")
        report = await loop.run(calls, once=once)
        waiting = None if loop.saved_calls is None else loop.saved_calls.waiting
        if waiting is not None and saver is not None:
            run.state = await saver.suspend(waiting)
            run.finished_calls = tuple(item.record for item in waiting if item.record is not None)
            return
        if once and loop.goes_on and saver is not None and saver.engine is not None:
            saver.engine = replace(saver.engine, starts=0)
            await saver.checkpoint([])
            run.goes_on = True
            return
        run.text, run.stage = report.text, "turn-output"
        if not turn.aborted:
            await run_pipeline(self.outputs, turn, "turn-output")
