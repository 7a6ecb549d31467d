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


async def test_layers_go_in_and_come_back_out() -> None:
    ctx = Context()
    await run_pipeline([layer("a"), layer("b")], ctx, "turn-input")

    assert ctx.seen == ["a in", "b in", "b out", "a out"]


async def test_an_empty_pipeline_is_fine() -> None:
    await run_pipeline([], Context(), "turn-input")


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


async def test_a_layer_that_forgets_next_is_found_out() -> None:
    async def silent(ctx: Context, next: Any) -> None:
        ctx.seen.append("silent")

    with pytest.raises(PipelineShortCircuitedError) as caught:
        await run_pipeline([silent, layer("b")], Context(), "dispatch-output")

    assert caught.value.field == "dispatch-output"
    assert caught.value.code == "E_PIPELINE_SHORT_CIRCUITED"


@pytest.mark.parametrize("how", ["aborted", "is_signalled"])
async def test_a_layer_may_stop_by_a_signal_or_an_abort(how: str) -> None:
    async def stop(ctx: Context, next: Any) -> None:
        setattr(ctx, how, True)

    ctx = Context()
    await run_pipeline([stop, layer("b")], ctx, "turn-input")

    assert ctx.seen == []


async def test_after_an_abort_the_bodies_that_are_left_are_skipped() -> None:
    async def stop(ctx: Context, next: Any) -> None:
        ctx.aborted = True
        await next()

    ctx = Context()
    await run_pipeline([layer("a"), stop, layer("c")], ctx, "turn-input")

    assert ctx.seen == ["a in", "a out"]
