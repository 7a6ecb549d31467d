"""Every call has one span, whatever becomes of it, in the right place of the right trace."""

import threading
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.context import attach
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from spindle import Budget, Call, CallOutcome, Err, Executor, Journal, Spool, ToolContext, ToolFilter, ToolRegistry
from spindle.execution import Retries
from tests.execution.calling import call, counting, execute, giving, hearing, make, ok, raising
from tests.telemetry.collecting import Collected, attributes, parent_id, span_id

pytestmark = pytest.mark.anyio


def ended_with(span: ReadableSpan) -> tuple[StatusCode, Any, Any]:
    facts = attributes(span)
    return span.status.status_code, facts["spindle.outcome.code"], facts.get("error.type")


def failed(code: str) -> tuple[StatusCode, str, str]:
    return StatusCode.ERROR, code, code


async def test_a_call_is_a_span_by_the_conventions(sdk: Collected) -> None:
    (outcome,) = await execute(
        [giving("four", name="add")], [call("add", '{"a": "\u00e9"}', "call_7")], interceptors=[sdk.telemetry()]
    )

    span = sdk.span
    assert outcome.ok
    assert (span.name, span.kind, span.status.status_code) == ("execute_tool add", SpanKind.INTERNAL, StatusCode.UNSET)
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "spindle"
    assert attributes(span) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_7",
        "gen_ai.tool.description": "Does add.",
        "spindle.outcome.code": "ok",
        "spindle.attempts": 1,
        "spindle.arguments.size": 11,
        "spindle.result.size": 4,
        "spindle.result.shown_chars": 4,
        "spindle.result.artifact": False,
        "spindle.result.trimmed": False,
    }


async def test_every_call_of_a_batch_has_a_span_also_those_that_never_ran(sdk: Collected) -> None:
    tools = [
        giving("fine"),
        raising(ValueError("a private word")),
        giving("", name="off", is_available=lambda: False),
        giving("", name="hidden"),
        giving("", name="asks", requires_approval=True),
        giving("", name="strict", input_schema={"type": "object", "required": ["x"]}),
    ]
    names = ["give", "fail", "off", "hidden", "asks", "strict", "nobody"]

    outcomes = await execute(
        tools,
        [call(name, call_id=name) for name in names],
        filter=ToolFilter(exclude_tools=["hidden"]),
        interceptors=[sdk.telemetry()],
    )

    codes = {one.name: one.result.code if isinstance(one.result, Err) else "ok" for one in outcomes}
    assert {name: attributes(sdk.of_call(name))["spindle.outcome.code"] for name in names} == codes
    assert len(sdk.spans) == len(names)
    assert ended_with(sdk.of_call("give")) == (StatusCode.UNSET, "ok", None)
    assert ended_with(sdk.of_call("fail")) == failed("execution_failed")
    assert attributes(sdk.of_call("fail"))["spindle.error.cause"] == "ValueError"
    assert ended_with(sdk.of_call("off")) == failed("not_available")
    assert ended_with(sdk.of_call("hidden")) == failed("not_available")
    assert ended_with(sdk.of_call("asks")) == failed("needs_approval")
    assert ended_with(sdk.of_call("strict")) == failed("input_invalid")
    assert ended_with(sdk.of_call("nobody")) == failed("not_available")
    assert "private" not in "".join(span.to_json() for span in sdk.spans)


async def test_a_name_no_tool_has_is_in_an_attribute_but_not_in_the_spans_name(sdk: Collected) -> None:
    await execute([giving("")], [Call("c1", "x\x1b[31m" * 500, {})], interceptors=[sdk.telemetry()])

    asked_for = attributes(sdk.span)["gen_ai.tool.name"]
    assert sdk.span.name == "execute_tool"
    assert asked_for.isprintable()
    assert len(asked_for) < 500


async def test_a_value_that_is_not_a_call_has_a_span_too(sdk: Collected) -> None:
    nothing: Any = None
    await execute([giving("")], [object(), Call(nothing, nothing)], interceptors=[sdk.telemetry()])

    assert [ended_with(span) for span in sdk.spans] == [failed("input_invalid")] * 2


async def test_a_call_past_its_deadline_is_timed_out(sdk: Collected) -> None:
    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(30):
        await execute([make("hang", hang, timeout_seconds=0.01)], [call("hang")], interceptors=[sdk.telemetry()])

    assert ended_with(sdk.span) == failed("timed_out")


async def test_calls_of_a_batch_past_its_deadline_are_timed_out(sdk: Collected) -> None:
    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        await anyio.sleep_forever()

    calls = [call("hang", call_id=f"c{number}") for number in range(3)]
    with anyio.fail_after(30):
        await execute(
            [make("hang", hang)], calls, batch_timeout_seconds=0.01, concurrency=1, interceptors=[sdk.telemetry()]
        )

    assert [ended_with(span) for span in sdk.spans] == [failed("timed_out")] * 3


async def test_when_the_caller_leaves_its_calls_are_cancelled_running_or_not(sdk: Collected) -> None:
    with anyio.CancelScope() as scope:

        async def leave(_args: Any, _ctx: Any, _meta: Any) -> None:
            scope.cancel()
            await anyio.sleep_forever()

        tools = [make("leave", leave), giving("", name="same", read_only=True)]
        calls = [call("leave", call_id="a"), call("leave", call_id="b"), *(call("same", call_id=one) for one in "cd")]
        with anyio.fail_after(30):
            await execute(tools, calls, concurrency=1, interceptors=[sdk.telemetry()])

    assert scope.cancelled_caught
    assert len(sdk.spans) == 4
    assert ended_with(sdk.of_call("a")) == failed("cancelled")
    assert ended_with(sdk.of_call("b")) == failed("cancelled")
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_calls_side_by_side_are_children_of_the_callers_span_and_parents_of_their_own(sdk: Collected) -> None:
    tracer = sdk.tracers.get_tracer("test")
    all_started, started = anyio.Event(), 0

    async def work(args: Any, _ctx: Any, _meta: Any) -> str:
        nonlocal started
        started += 1
        if started == 5:
            all_started.set()
        await all_started.wait()
        with tracer.start_as_current_span(f"inside {args['n']}"):
            await anyio.lowlevel.checkpoint()
        return ""

    calls = [call("work", {"n": number}, f"c{number}") for number in range(5)]
    with tracer.start_as_current_span("caller") as caller, anyio.fail_after(30):
        await execute([make("work", work)], calls, interceptors=[sdk.telemetry()])
        assert trace.get_current_span() is caller

    for number in range(5):
        around = sdk.of_call(f"c{number}")
        assert parent_id(around) == span_id(sdk.named("caller"))
        assert parent_id(sdk.named(f"inside {number}")) == span_id(around)


async def test_a_refused_call_is_a_child_of_the_callers_span(sdk: Collected) -> None:
    with sdk.tracers.get_tracer("test").start_as_current_span("caller"):
        await execute([], [call("nobody")], interceptors=[sdk.telemetry()])

    assert parent_id(sdk.of_call("c1")) == span_id(sdk.named("caller"))


async def test_a_handler_that_leaves_its_span_open_is_not_the_parent_of_the_next_call(sdk: Collected) -> None:
    tracer = sdk.tracers.get_tracer("test")

    async def careless(_args: Any, _ctx: Any, _meta: Any) -> str:
        attach(trace.set_span_in_context(tracer.start_span("left open")))
        return ""

    calls = [call("careless", call_id="a"), call("careless", call_id="b")]
    await execute([make("careless", careless)], calls, concurrency=1, interceptors=[sdk.telemetry()])

    assert [parent_id(span) for span in sdk.spans] == [None, None]


async def test_a_sync_handlers_own_spans_are_children_in_its_thread_too(sdk: Collected) -> None:
    tracer = sdk.tracers.get_tracer("test")

    def work(_args: Any, _ctx: Any, _meta: Any) -> str:
        with tracer.start_as_current_span("inside"):
            return threading.current_thread().name

    (outcome,) = await execute([make("work", work)], [call("work")], interceptors=[sdk.telemetry()])

    assert ok(outcome).value != threading.current_thread().name
    assert parent_id(sdk.named("inside")) == span_id(sdk.of_call("c1"))


async def test_a_handler_in_a_process_of_its_own_knows_its_trace(sdk: Collected) -> None:
    def work(_args: Any, _ctx: Any, _meta: Any) -> str:
        return format(trace.get_current_span().get_span_context().span_id, "x")

    (outcome,) = await execute(
        [make("work", work, isolation="process")], [call("work")], interceptors=[sdk.telemetry()]
    )

    assert ok(outcome).value == format(span_id(sdk.span), "x")


async def test_a_result_over_budget_is_trimmed_and_an_artifact(sdk: Collected) -> None:
    await execute(
        [giving("\u00e9" * 5_000)],
        [call("give")],
        budget=Budget(chars=500),
        spool=Spool.memory(),
        interceptors=[sdk.telemetry()],
    )

    facts = attributes(sdk.span)
    assert facts["spindle.result.trimmed"] is True
    assert facts["spindle.result.artifact"] is True
    assert facts["spindle.result.size"] == 10_000
    assert 500 <= facts["spindle.result.shown_chars"] < 1_000


async def test_attempts_are_counted(sdk: Collected) -> None:
    again = raising(ValueError(), idempotent=True)
    await execute(
        [again], [call("fail")], retries=Retries(times=2, first_wait_seconds=0.001), interceptors=[sdk.telemetry()]
    )

    assert attributes(sdk.span)["spindle.attempts"] == 3


async def test_equal_calls_that_run_once_have_a_span_each(sdk: Collected) -> None:
    tool, runs = counting(read_only=True)

    await execute([tool], [call("count", call_id="a"), call("count", call_id="b")], interceptors=[sdk.telemetry()])

    assert len(runs) == 1
    assert [attributes(sdk.of_call(one))["spindle.attempts"] for one in "ab"] == [1, 0]


async def test_a_call_answered_from_the_journal_has_a_span(sdk: Collected) -> None:
    tool, runs = counting()
    async with Journal.memory() as journal:
        for _ in range(2):
            await execute([tool], [call("count")], journal=journal, interceptors=[sdk.telemetry()])

    assert len(runs) == 1
    assert [ended_with(span)[1] for span in sdk.spans] == ["ok", "ok"]


async def test_a_tool_of_an_mcp_server_is_an_extension(sdk: Collected) -> None:
    await execute([giving("", name="mcp__shop__find")], [call("mcp__shop__find")], interceptors=[sdk.telemetry()])

    facts = attributes(sdk.span)
    assert (facts["gen_ai.tool.type"], facts["spindle.mcp.server"]) == ("extension", "shop")


async def test_the_turn_and_a_dry_run_are_recorded(sdk: Collected) -> None:
    ctx = ToolContext(turn_id="turn-1", dry_run=True)

    await execute([giving("")], [call("give")], ctx=ctx, interceptors=[sdk.telemetry()])

    facts = attributes(sdk.span)
    assert (facts["spindle.turn.id"], facts["spindle.dry_run"]) == ("turn-1", True)


async def test_a_spans_time_is_inside_the_callers_and_the_metrics_time(sdk: Collected) -> None:
    with sdk.tracers.get_tracer("test").start_as_current_span("caller"):
        await execute([giving("")], [call("give")], interceptors=[sdk.telemetry()])

    caller, span = sdk.named("caller"), sdk.of_call("c1")
    assert caller.start_time is not None
    assert caller.end_time is not None
    assert span.start_time is not None
    assert span.end_time is not None
    slack = 50_000_000  # the two are placed by different clocks, and this one may be set meanwhile
    assert caller.start_time - slack <= span.start_time <= span.end_time <= caller.end_time + slack
    (point,) = sdk.points("gen_ai.execute_tool.duration")
    assert point.sum == pytest.approx((span.end_time - span.start_time) / 1e9, abs=1e-6)


async def test_interceptors_may_stand_beside_it_and_answer(sdk: Collected) -> None:
    async def refuse(one: Call, _ctx: Any, _next: Any) -> Any:
        return CallOutcome(one.tool_call_id, one.name, "", Err("denied", "no"))

    await execute([giving("")], [call("give")], interceptors=[refuse, sdk.telemetry()])

    assert ended_with(sdk.span) == failed("denied")


async def test_a_span_processor_that_raises_costs_a_warning_and_no_outcome(sdk: Collected) -> None:
    class Broken(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            raise RuntimeError("broken")

    sdk.tracers.add_span_processor(Broken())
    ctx, warned = hearing()

    outcomes = await execute(
        [giving("fine")],
        [call("give", call_id="a"), call("nobody", call_id="b")],
        ctx=ctx,
        interceptors=[sdk.telemetry()],
    )

    assert [outcome.ok for outcome in outcomes] == [True, False]
    assert {warning.source for warning in warned} == {"observer"}


async def test_an_executor_may_be_shared_by_many_batches_at_once(sdk: Collected) -> None:
    executor = Executor(ToolRegistry([giving("")]), interceptors=[sdk.telemetry()])
    tracer = sdk.tracers.get_tracer("test")

    async def batch(name: str) -> None:
        with tracer.start_as_current_span(name):
            await executor.execute_parallel([call("give", call_id=f"{name}{n}") for n in range(3)], ToolContext())

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(batch, name)

    for name in "abc":
        assert {parent_id(sdk.of_call(f"{name}{n}")) for n in range(3)} == {span_id(sdk.named(name))}
