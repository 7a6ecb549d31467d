"""The entry to one model loop (`DispatchRunner`): checks its settings, and runs it."""

from collections.abc import Mapping, Sequence
from typing import Any

from spindle.errors import InvalidDispatchInputError
from spindle.execution.executor import Executor
from spindle.execution.settings import raise_if_invalid
from spindle.turns.context import DispatchContext, TurnContext
from spindle.turns.middleware import Middleware
from spindle.turns.model_loop import ExecutorCallback, LoopSettings, ModelLoop, Readers, find_invalid_settings
from spindle.turns.report import DispatchReport


class DispatchRunner:
    """Runs one model loop; `TurnRunner` calls it for each turn."""

    @staticmethod
    async def dispatch(
        *,
        source: TurnContext | None = None,
        raw: DispatchContext | Mapping[str, Any] | None = None,
        executor_callback: ExecutorCallback,
        executor: Executor | None = None,
        dispatch_input_pipeline: Sequence[Middleware] = (),
        dispatch_output_pipeline: Sequence[Middleware] = (),
        max_iterations: int | None = 50,
        max_repeats: int | None = 5,
        abort_grace_seconds: float = 5,
        readers: Readers = "on_demand",
    ) -> DispatchReport:
        """Run the loop until the dispatch is acked, nacked or aborted.

        Raises:
            InvalidDispatchInputError: Not exactly one of `source` and `raw` was passed, or a setting is invalid.
            ExecutorCallbackError: The callback raised, or returned an invalid value.
            DispatchPipelineError: Middleware raised.
            LimitError: A limit was reached.
            Exception: The error of a nack.
        """
        ctx = _get_context(source, raw)
        pipelines = {
            "dispatch_input_pipeline": dispatch_input_pipeline,
            "dispatch_output_pipeline": dispatch_output_pipeline,
        }
        limits = {
            "max_iterations": max_iterations,
            "max_repeats": max_repeats,
            "abort_grace_seconds": abort_grace_seconds,
        }
        wrong = find_invalid_settings(
            executor_callback, pipelines, parts={"executor": executor}, limits=limits, readers=readers
        )
        raise_if_invalid(wrong, what="dispatch", error=InvalidDispatchInputError)
        settings = LoopSettings(
            executor_callback=executor_callback,
            executor=executor or Executor(ctx.tools, journal=ctx.turn.journal),
            inputs=dispatch_input_pipeline,
            outputs=dispatch_output_pipeline,
            max_iterations=max_iterations,
            max_repeats=max_repeats,
            abort_grace_seconds=abort_grace_seconds,
            readers=readers,
        )
        loop = ModelLoop(ctx, settings)
        with loop.calls:
            return await loop.run()


def _get_context(source: TurnContext | None, raw: DispatchContext | Mapping[str, Any] | None) -> DispatchContext:
    if isinstance(source, TurnContext) and raw is None:
        return DispatchContext(turn=source)
    if isinstance(raw, DispatchContext) and source is None:
        return raw
    if isinstance(raw, Mapping) and source is None:
        return DispatchContext(**raw)
    raise InvalidDispatchInputError(
        "Pass exactly one of source (a TurnContext) and raw (a DispatchContext, or a mapping of its arguments).",
        field="source" if raw is None else "raw",
    )
