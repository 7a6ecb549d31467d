from pathlib import Path
from typing import Any

import pytest

from spindle import Events, Stash, ToolContext
from spindle.errors import CapabilityError, GateNotSupportedError, InvalidContextError
from spindle.events import ToolProgress

pytestmark = pytest.mark.anyio


def test_a_light_context_needs_nothing() -> None:
    ctx = ToolContext(session_id="s1")

    assert (ctx.session_id, ctx.turn_id, ctx.dry_run, ctx.cancelled) == ("s1", None, False, False)
    assert isinstance(ctx.events, Events)
    assert isinstance(ctx.stash, Stash)
    assert (ctx.tool_call_id, ctx.checksum, ctx.idempotency_key, ctx.deadline) == (None, None, None, None)
    assert ctx.seconds_left is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session_id", None),
        ("turn_id", 5),
        ("events", 5),
        ("result_budget_chars", -1),
        ("result_budget_chars", "x"),
        ("result_budget_chars", True),
        ("result_budget_chars", float("nan")),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_where_it_is_given(field: str, value: Any) -> None:
    with pytest.raises(InvalidContextError) as caught:
        ToolContext(**{field: value})
    assert caught.value.field == field


def test_a_dict_will_do_for_a_stash_and_a_stash_is_shared() -> None:
    shared = Stash({"a": {"b": 1}})

    assert ToolContext(stash={"a": {"b": 1}}).stash.get("a.b") == 1
    assert ToolContext(stash=shared).stash is shared


@pytest.mark.parametrize("name", ["network", "files", "secrets", "storage", "process", "attachments"])
def test_an_undeclared_handle_raises_when_touched(name: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        getattr(ToolContext(), name)

    assert caught.value.field == name


def test_a_granted_handle_is_given() -> None:
    handle: Any = object()

    assert ToolContext(handles={"network": handle}).network is handle


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    assert not hasattr(ToolContext(), "netwrok")


def test_cancelling_is_seen_by_the_handler() -> None:
    ctx = ToolContext()
    ctx.cancel()

    assert ctx.cancelled is True


def test_progress_carries_the_calls_id() -> None:
    events, seen = Events(), list[Any]()
    events.on("tool_progress", seen.append)
    ctx = ToolContext(events=events, turn_id="t", tool_call_id="c", tool_name="copy", working_dir=Path())

    ctx.progress("half", 50, audience="user")

    expected = ToolProgress(
        tool_name="copy", turn_id="t", tool_call_id="c", message="half", percent=50, audience="user"
    )
    assert seen == [expected]


def test_a_line_of_the_log_says_who_wrote_it_and_holds_a_copy_of_its_facts() -> None:
    events, seen = Events(), list[Any]()
    events.on("log", seen.append)
    ctx = ToolContext(events=events, turn_id="t", tool_call_id="c", tool_name="copy")
    facts: dict[str, Any] = {"left": [1]}

    ctx.log("info", "half", facts=facts, share=float("nan"))
    facts["left"].append(2)

    [line] = seen
    assert (line.level, line.message, line.turn_id, line.tool_name, line.tool_call_id) == (
        "info",
        "half",
        "t",
        "copy",
        "c",
    )
    assert line.payload == {"facts": {"left": [1]}, "share": "NaN"}


def test_facts_that_cannot_be_shown_do_not_end_the_work() -> None:
    events, seen = Events(), list[Any]()
    events.on("log", seen.append)
    itself: list[Any] = []
    itself.append(itself)

    ToolContext(events=events).log("info", "odd", itself=itself)

    assert seen[0].payload == {"payload": "(cannot be shown)"}


async def test_a_light_context_has_no_gates() -> None:
    with pytest.raises(GateNotSupportedError):
        await ToolContext().wait_for(object())


async def test_a_context_with_gates_waits_for_them() -> None:
    async def open_gate(gate: Any) -> str:
        return f"opened {gate}"

    assert await ToolContext(open_gate=open_gate).wait_for("g") == "opened g"
