from typing import Any

import pytest

from spindle.errors import DispatchPipelineError, InputPipelineError, OutputPipelineError, PipelineShortCircuitedError
from spindle.turns.middleware import run_pipeline

pytestmark = pytest.mark.anyio


class Context:
    def __init__(self) -> None:
        self.aborted = False
        self.is_signalled = False
        self.seen: list[str] = []


def layer(name: str) -> Any:
    async def middleware(ctx: Context, next: Any) -> None:
        ctx.seen.append(f"{name} in")
        await next()
        ctx.seen.append(f"{name} out")

    return middleware


async def test_layers_run_inwards_and_return_outwards() -> None:
    ctx = Context()
    await run_pipeline([layer("a"), layer("b")], ctx, "turn-input")

    assert ctx.seen == ["a in", "b in", "b out", "a out"]


async def test_sync_layer_that_returns_next_is_a_layer() -> None:
    def plain(ctx: Context, next: Any) -> Any:
        ctx.seen.append("plain")
        return next()

    ctx = Context()
    await run_pipeline([plain, layer("b")], ctx, "turn-input")

    assert ctx.seen == ["plain", "b in", "b out"]


async def test_sync_layer_that_drops_next_is_short_circuited() -> None:
    def stop(ctx: Context, next: Any) -> None: ...

    with pytest.raises(PipelineShortCircuitedError):
        await run_pipeline([stop, layer("b")], Context(), "turn-input")


async def test_empty_pipeline_does_not_count_as_short_circuited() -> None:
    ctx = Context()
    await run_pipeline([], ctx, "turn-input")

    assert not ctx.aborted


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        ("turn-input", InputPipelineError),
        ("turn-output", OutputPipelineError),
        ("dispatch-input", DispatchPipelineError),
        ("dispatch-output", DispatchPipelineError),
    ],
)
async def test_an_error_is_wrapped_with_its_stage(stage: str, kind: type[Exception]) -> None:
    original = LookupError("mine")

    async def broken(ctx: Context, next: Any) -> None:
        raise original

    with pytest.raises(kind) as caught:
        await run_pipeline([layer("a"), broken], Context(), stage)

    assert caught.value.__cause__ is original


async def test_layer_without_next_raises() -> None:
    async def silent(ctx: Context, next: Any) -> None:
        ctx.seen.append("silent")

    with pytest.raises(PipelineShortCircuitedError) as caught:
        await run_pipeline([silent, layer("b")], Context(), "dispatch-output")

    assert caught.value.field == "dispatch-output"
    assert caught.value.code == "E_PIPELINE_SHORT_CIRCUITED"


@pytest.mark.parametrize("how", ["aborted", "is_signalled"])
async def test_layer_may_stop_the_pipeline_with_a_signal_or_an_abort(how: str) -> None:
    async def stop(ctx: Context, next: Any) -> None:
        setattr(ctx, how, True)

    ctx = Context()
    await run_pipeline([stop, layer("b")], ctx, "turn-input")

    assert ctx.seen == []


async def test_remaining_layers_are_skipped_after_an_abort() -> None:
    async def stop(ctx: Context, next: Any) -> None:
        ctx.aborted = True
        await next()

    ctx = Context()
    await run_pipeline([layer("a"), stop, layer("c")], ctx, "turn-input")

    assert ctx.seen == ["a in", "a out"]
