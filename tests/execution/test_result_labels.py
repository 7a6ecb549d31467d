"""The label of a result: that of its tool, never a better one, and kept wherever the result goes."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from spindle import Call, CallOutcome, Journal, Media, Ok, ToolContext
from spindle.calls import LABELS, Label, ToolCallRecord
from spindle.errors import InvalidToolCallRecordError
from spindle.trust import join
from tests.execution.calling import call, err, execute, execute_one, giving, ok

pytestmark = pytest.mark.anyio

VALUES: list[Any] = ["text", "ä", "\ud800", b"bytes", None, {"a": 1}, list(range(600)), Ok("ok")]


def picture(**labels: Any) -> Media:
    return Media.tool_generated(b"\x89PNG", kind="image", mime_type="image/png", filename="a.png", **labels)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
async def test_every_kind_of_value_has_the_label_of_its_tool(value: Any, label: Label) -> None:
    result = ok(await execute_one(giving(value, output=label)))

    assert (result.label, result.trusted) == (label, label == "trusted")


@pytest.mark.parametrize("given", LABELS)
@pytest.mark.parametrize("output", LABELS)
async def test_a_handler_can_lower_its_label_but_not_raise_it(output: Label, given: Label) -> None:
    result = ok(await execute_one(giving(Ok("x", trusted=True, label=given), output=output)))

    assert result.label == join(output, given)
    assert result.trusted is (result.label == "trusted")


async def test_a_label_that_does_not_exist_is_an_error() -> None:
    wrong: Any = "mine"

    assert err(await execute_one(giving(Ok("x", label=wrong)))).code == "execution_failed"


@pytest.mark.parametrize("wrapped", [False, True])
async def test_media_of_outsiders_lowers_the_label(wrapped: bool) -> None:
    private = Media.retrieved_private(b"x", kind="image", mime_type="image/png", filename="a.png")
    value = Ok("x", media=(private,)) if wrapped else private

    assert ok(await execute_one(giving(value, output="first-party"))).label == "third-party-private"


async def answer_anew(_call: Call, _ctx: ToolContext, next: Callable[[], Awaitable[CallOutcome]]) -> CallOutcome:
    outcome = await next()
    return replace_result(outcome, Ok("mine"))


async def shorten(_call: Call, _ctx: ToolContext, next: Callable[[], Awaitable[CallOutcome]]) -> CallOutcome:
    outcome = await next()
    assert isinstance(outcome.result, Ok)
    return replace_result(outcome, replace(outcome.result, value="short"))


async def claim(_call: Call, _ctx: ToolContext, next: Callable[[], Awaitable[CallOutcome]]) -> CallOutcome:
    return replace_result(await next(), Ok("believe me", trusted=True, label="trusted"))


def replace_result(outcome: CallOutcome, result: Ok) -> CallOutcome:
    return CallOutcome(outcome.tool_call_id, outcome.name, outcome.checksum, result)


@pytest.mark.parametrize(
    ("interceptor", "expected"),
    [(answer_anew, "third-party-private"), (shorten, "first-party"), (claim, "first-party")],
)
async def test_an_interceptor_cannot_raise_a_label(interceptor: Any, expected: Label) -> None:
    result = ok(await execute_one(giving("x", output="first-party"), interceptors=[interceptor]))

    assert (result.label, result.trusted) == (expected, False)


@pytest.mark.parametrize("label", LABELS)
async def test_a_journal_returns_a_result_with_its_label(label: Label) -> None:
    journal = Journal.memory()
    results: list[Ok] = []
    for _ in range(2):
        ctx = ToolContext("s1", turn_id="t1")
        (outcome,) = await execute([giving("x", output=label)], [call("give")], journal=journal, ctx=ctx)
        results.append(ok(outcome))

    assert [each.label for each in results] == [label, label]


@pytest.mark.parametrize("wrong", ["mine", "", 1, ["trusted"]])
def test_a_record_with_an_unknown_label_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidToolCallRecordError) as caught:
        ToolCallRecord("c1", "read", {}, "sum", is_complete=True, is_error=False, results="x", label=wrong)

    assert caught.value.field == "label"
