"""Middleware, like the layers of an onion: `async (ctx, next)`."""

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
Middleware: TypeAlias = Callable[[Any, Next], Awaitable[object]]

_ERRORS: dict[str, type[PipelineError]] = {
    "turn-input": InputPipelineError,
    "turn-output": OutputPipelineError,
    "dispatch-input": DispatchPipelineError,
    "dispatch-output": DispatchPipelineError,
}


class Abortable(Protocol):
    """What a pipeline asks of a context."""

    @property
    def aborted(self) -> bool:
        """Whether the rest is to be skipped."""
        ...


async def run_pipeline(middleware: Sequence[Middleware], ctx: Abortable, stage: str) -> None:
    """Run the layers from the outside in and back; once aborted, the bodies that are left are skipped.

    Raises:
        PipelineError: A layer raised; the stage's own class, with the cause.
        PipelineShortCircuitedError: A layer ended without calling `next`, though none of them signalled or aborted.
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
        await middleware[index](ctx, lambda: go_on(index + 1))

    try:
        await go_on(0)
    except Exception as error:
        if ctx.aborted and isinstance(error, GateAbortedError):
            return  # the abort gave up what a layer waited for, and is no failure
        raise _ERRORS[stage](f"middleware of {stage} raised {type(error).__name__}: {error}", field=stage) from error
    # A signal from before, such as the ack of a final answer, is no reason to leave layers out.
    if not reached and not ctx.aborted and _is_signalled(ctx) is was_signalled:
        raise PipelineShortCircuitedError(
            f"middleware of {stage} ended without calling next(); call it, or ack, nack or abort", field=stage
        )


def _is_signalled(ctx: Abortable) -> bool:
    return bool(getattr(ctx, "is_signalled", False))  # a turn is never signalled, only its dispatch is
