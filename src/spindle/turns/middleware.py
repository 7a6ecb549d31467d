"""Middleware pipelines: each layer is `async (ctx, next)` and wraps the layers after it.

A sync layer is fine if it returns `next()`, which the pipeline awaits.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from spindle.errors import (
    DispatchPipelineError,
    GateAbortedError,
    InputPipelineError,
    OutputPipelineError,
    PipelineError,
    PipelineShortCircuitedError,
)

Next: TypeAlias = Callable[[], Awaitable[None]]
Middleware: TypeAlias = Callable[[Any, Next], Awaitable[object] | None]

_ERRORS: dict[str, type[PipelineError]] = {
    "turn-input": InputPipelineError,
    "turn-output": OutputPipelineError,
    "dispatch-input": DispatchPipelineError,
    "dispatch-output": DispatchPipelineError,
}


class Abortable(Protocol):
    """The part of a context that a pipeline uses."""

    @property
    def aborted(self) -> bool:
        """Whether the remaining layers are skipped."""
        ...


async def run_pipeline(middleware: Sequence[Middleware], ctx: Abortable, stage: str) -> None:
    """Run the layers from the outermost to the innermost; after an abort the remaining layers are skipped.

    Raises:
        PipelineError: A layer raised; the subclass is that of the stage, the exception its cause.
        PipelineShortCircuitedError: A layer returned without calling `next`, and no layer signalled or aborted.
    """
    if not middleware:
        return
    reached, was_signalled = False, _is_signalled(ctx)

    async def go_on(index: int) -> None:
        nonlocal reached
        while index < len(middleware) and ctx.aborted:
            index += 1
        if index == len(middleware):
            reached = True
            return
        answer = middleware[index](ctx, lambda: go_on(index + 1))
        if answer is not None:
            await answer

    try:
        await go_on(0)
    except Exception as error:
        if ctx.aborted and isinstance(error, GateAbortedError):
            return  # the abort released a gate that a layer waited for; not a failure
        raise _ERRORS[stage](f"Middleware of {stage} raised {type(error).__name__}: {error}", field=stage) from error
    # An earlier signal, such as the ack of the final answer, does not justify skipping layers.
    if not reached and not ctx.aborted and _is_signalled(ctx) is was_signalled:
        raise PipelineShortCircuitedError(
            f"Middleware of {stage} returned without awaiting next(); await it, or ack, nack or abort.", field=stage
        )


def _is_signalled(ctx: Abortable) -> bool:
    return bool(getattr(ctx, "is_signalled", False))  # a turn is never signalled, only its dispatch is
