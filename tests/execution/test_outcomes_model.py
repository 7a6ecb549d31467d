"""Whatever tools do in whatever batches: exactly one outcome for each call, in its place, with its own answer."""

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from spindle import Budget, Call, CallOutcome, Err, Events, Executor, Journal, Ok, Tool, ToolContext, ToolRegistry
from tests.execution.calling import make
from tests.fuzzing import examples

HUGE = "x" * 50_000
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "r": {"type": "string"}}, "required": ["n"]}
DEADLINE_SECONDS = 0.02


class Odd(BaseException):
    """Neither an `Exception` nor anything that Python knows."""


async def echo(args: Any, _ctx: Any, _meta: Any) -> str:
    await anyio.lowlevel.checkpoint()
    return f"<{args['n']}>"


def echo_blocking(args: Any, _ctx: Any, _meta: Any) -> str:
    return f"<{args['n']}>"


async def report(args: Any, ctx: ToolContext, _meta: Any) -> Ok:
    for percent in (0, 50, 100):
        ctx.progress(f"<{args['n']}>", percent)
        await anyio.sleep(0.001)
    return Ok(f"<{args['n']}>", cost_usd=0.01)


async def overflow(args: Any, _ctx: Any, _meta: Any) -> str:
    return f"<{args['n']}>{HUGE}"


async def listing(args: Any, _ctx: Any, _meta: Any) -> list[str]:
    return [f"<{args['n']}>"] * 3_000


async def raise_value_error(_args: Any, _ctx: Any, _meta: Any) -> None:
    raise ValueError("no")


async def raise_odd(_args: Any, _ctx: Any, _meta: Any) -> None:
    raise Odd


def exit_the_program(_args: Any, _ctx: Any, _meta: Any) -> None:
    raise SystemExit(3)


async def recurse(args: Any, ctx: Any, meta: Any) -> None:
    await recurse(args, ctx, meta)


async def cancel_itself(_args: Any, _ctx: Any, _meta: Any) -> None:
    raise asyncio.CancelledError


async def fail_in_a_group(_args: Any, _ctx: Any, _meta: Any) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(raise_value_error, None, None, None)
        await anyio.sleep_forever()


async def give_junk(_args: Any, _ctx: Any, _meta: Any) -> object:
    return object()


async def give_half_junk(_args: Any, _ctx: Any, _meta: Any) -> Ok:
    return Ok(5)  # type: ignore[arg-type]  # a handler that breaks its promise


async def hang_and_cancel_itself(_args: Any, _ctx: Any, _meta: Any) -> None:
    with suppress(BaseException):
        await anyio.sleep_forever()
    raise asyncio.CancelledError


async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
    await anyio.sleep_forever()


def hang_blocking(_args: Any, ctx: ToolContext, _meta: Any) -> None:
    while not ctx.cancelled:
        time.sleep(0.001)


@dataclass(frozen=True)
class Kind:
    """A way to behave, and the code of what it comes to; `None` for an answer that names the call."""

    handler: Callable[..., Any]
    code: str | None = None


KINDS = [
    *map(Kind, (echo, echo, echo_blocking, report, overflow, listing)),
    *(Kind(each, "execution_failed") for each in (raise_value_error, raise_odd, exit_the_program, recurse)),
    *(Kind(each, "execution_failed") for each in (cancel_itself, fail_in_a_group, give_junk, give_half_junk)),
    *(Kind(each, "timed_out") for each in (hang, hang_blocking, hang_and_cancel_itself)),
]


def touched(args: Any) -> list[str]:
    return ["a", args["r"]] if args["n"] % 2 else [args["r"]]


async def agree(_args: Any, _ctx: Any) -> None:
    await anyio.lowlevel.checkpoint()


FLAGS: list[dict[str, Any]] = [
    {},
    {},
    {"read_only": True},
    {"cache": True},
    {"resources": touched},
    {"resources": touched, "read_only": True},
    {"max_result_chars": 30},
    {"checks": [agree]},
    {"trusted": True},
]
BROKEN = ["", "{", '{"n": 1', "[]", '{"n": 1, "n": 2}', '{"n": NaN}', b"\xff", 5, {"n": object()}]


class Outcomes(RuleBasedStateMachine):
    """One executor, its tools, and what each batch must come to."""

    backend = "asyncio"

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal(self.backend))
        self.names, self.numbers = count(), count()
        self.kinds: dict[str, Kind] = {}
        self.runs: Counter[int] = Counter()
        self.requests: Counter[int] = Counter()
        self.asked: list[Call] = []
        self.spans: Counter[tuple[str, str]] = Counter()
        self.registry = ToolRegistry()

    def teardown(self) -> None:
        try:
            self.portal.call(self._wait_for_ends)
        finally:
            self.stack.close()

    @initialize(
        journalled=st.booleans(), concurrency=st.sampled_from([1, 2, 64]), batch_seconds=st.sampled_from([None, 5])
    )
    def open(self, journalled: bool, concurrency: int, batch_seconds: float | None) -> None:
        self.executor = Executor(
            self.registry,
            journal=Journal.memory() if journalled else None,
            concurrency=concurrency,
            batch_timeout_seconds=batch_seconds,
            budget=Budget(20_000),
        )
        for kind in KINDS[:3]:
            self.register(kind, {})

    @rule(kind=st.sampled_from(KINDS), flags=st.sampled_from(FLAGS))
    def register(self, kind: Kind, flags: dict[str, Any]) -> None:
        name = f"t{next(self.names)}"
        seconds = DEADLINE_SECONDS if kind.code == "timed_out" else 5
        tool: Tool = make(name, self._counted(kind), input_schema=SCHEMA, timeout_seconds=seconds, **flags)
        self.registry.register(tool)
        self.kinds[name] = kind

    def _counted(self, kind: Kind) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(kind.handler):

            async def handler(args: Any, ctx: Any, meta: Any) -> Any:
                self.runs[args["n"]] += 1
                return await kind.handler(args, ctx, meta)

            return handler

        def handler_blocking(args: Any, ctx: Any, meta: Any) -> Any:
            self.runs[args["n"]] += 1
            return kind.handler(args, ctx, meta)

        return handler_blocking

    @precondition(lambda self: len(self.kinds) > 2)
    @rule(data=st.data())
    def unregister(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.kinds)))
        self.registry.unregister(name)
        del self.kinds[name]

    @rule(data=st.data(), dry_run=st.sampled_from([False, False, False, True]))
    def run_a_batch(self, data: st.DataObject, dry_run: bool) -> None:
        calls = data.draw(st.lists(self._calls(), max_size=12))
        before = self.runs.copy()

        outcomes = self.portal.call(self._execute, calls, dry_run, None)

        assert outcomes is not None
        self._check(calls, outcomes, dry_run=dry_run)
        self._check_runs(calls, self.runs - before, dry_run=dry_run)
        if not dry_run:
            self.asked += [each for each in calls if isinstance(each.args, dict) and self._is_good(each)]

    @rule(data=st.data(), seconds=st.sampled_from([0.0, 0.0005, 0.002, 0.01]))
    def leave_a_batch(self, data: st.DataObject, seconds: float) -> None:
        calls = data.draw(st.lists(self._calls(), min_size=1, max_size=8))
        outcomes = self.portal.call(self._execute, calls, False, seconds)
        if outcomes is not None:
            self._check(calls, outcomes, dry_run=False, was_left=True)

    def _calls(self) -> st.SearchStrategy[Call]:
        good = st.builds(self._call, st.sampled_from(sorted(self.kinds)), st.sampled_from("ab"))
        unknown = st.builds(
            self._call, st.sampled_from(["t", "", "nobody", "t0 ", "T1", "\ud800", "n" * 5_000]), st.just("a")
        )
        broken = st.builds(self._broken, st.sampled_from(sorted(self.kinds)), st.sampled_from(BROKEN))
        again = st.sampled_from(self.asked) if self.asked else good
        return st.one_of(good, good, good, again, unknown, broken)

    def _call(self, name: str, resource: str) -> Call:
        number = next(self.numbers)
        return Call(f"c{number}", name, {"n": number, "r": resource})

    def _broken(self, name: str, args: Any) -> Call:
        return Call(f"c{next(self.numbers)}", name, args)

    async def _execute(self, calls: Sequence[Call], dry_run: bool, seconds: float | None) -> list[CallOutcome] | None:
        if not dry_run:
            self.requests.update(self._numbers(calls))
        events = Events()
        events.on("tool_execution_start", lambda event: self.spans.update([("start", event.tool_call_id)]))
        events.on("tool_execution_end", lambda event: self.spans.update([("end", event.tool_call_id)]))
        ctx = ToolContext("s1", turn_id="t1", events=events, dry_run=dry_run)
        with anyio.fail_after(30):
            if seconds is None:
                return await self.executor.execute_parallel(calls, ctx)
            with anyio.move_on_after(seconds):
                return await self.executor.execute_parallel(calls, ctx)
        return None

    def _is_good(self, call: Call) -> bool:
        return call.name in self.kinds and isinstance(call.args, dict) and isinstance(call.args["n"], int)

    def _check(
        self, calls: Sequence[Call], outcomes: Sequence[CallOutcome], *, dry_run: bool, was_left: bool = False
    ) -> None:
        assert len(outcomes) == len(calls)
        for call, outcome in zip(calls, outcomes, strict=True):
            assert outcome.tool_call_id == call.tool_call_id
            assert outcome.name == call.name
            result = outcome.result
            if not self._is_good(call):
                expected = "input_invalid" if call.name in self.kinds else "not_available"
                assert isinstance(result, Err)
                assert result.code == expected, result
            elif dry_run:
                assert isinstance(result, Ok)
                assert result.value.startswith("[dry-run]")
            else:
                self._check_answer(call, result, was_left=was_left)
        # A call of a batch that was left may still be ending; the end of the story waits for those.
        ids = {call.tool_call_id for call in calls}
        assert self._count("start", ids) == self._count("end", ids)

    def _count(self, wanted: str, ids: Collection[str]) -> Counter[str]:
        return Counter({one: times for (kind, one), times in self.spans.items() if kind == wanted and one in ids})

    async def _wait_for_ends(self) -> None:
        ids = {one for _, one in self.spans}
        with anyio.fail_after(30):
            while self._count("start", ids) != self._count("end", ids):  # noqa: ASYNC110  threads emit events too
                await anyio.sleep(0.01)

    def _check_answer(self, call: Call, result: Ok | Err, *, was_left: bool) -> None:
        assert isinstance(call.args, dict)
        code = self.kinds[call.name].code
        if code is None:
            assert isinstance(result, Ok), result
            assert f"<{call.args['n']}>" in result.value
        else:
            assert isinstance(result, Err), result
            # A tool that does not listen when its caller leaves may fail before its deadline.
            assert result.code == code or (was_left and result.code == "execution_failed"), result

    def _numbers(self, calls: Sequence[Call]) -> list[int]:
        return [call.args["n"] for call in calls if isinstance(call.args, dict) and self._is_good(call)]

    def _check_runs(self, calls: Sequence[Call], ran: Counter[int], *, dry_run: bool) -> None:
        # A thread of an earlier batch that was left, or was late, may begin during this one: count over all batches.
        assert all(times <= self.requests[number] for number, times in self.runs.items()), "a call ran twice"
        before = {each.tool_call_id for each in self.asked}
        for call in calls:
            # A call that is late anyway may time out before its thread has started.
            if not self._is_good(call) or self.kinds[call.name].code == "timed_out":
                continue
            assert isinstance(call.args, dict)
            number = call.args["n"]
            if dry_run:
                assert not ran[number], "a call ran in a dry run"
            else:
                assert ran[number] or call.tool_call_id in before, "a call was answered that never ran"


class OutcomesOnTrio(Outcomes):
    """The same on the other event loop."""

    backend = "trio"


MACHINES = pytest.mark.parametrize("machine", [Outcomes, OutcomesOnTrio], ids=["asyncio", "trio"])
QUICK = settings(
    max_examples=examples(60), stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
LONG = settings(QUICK, max_examples=200, stateful_step_count=40)


@pytest.mark.one_loop
@MACHINES
def test_every_call_has_one_outcome_of_its_own(machine: type[Outcomes]) -> None:
    run_state_machine_as_test(machine, settings=QUICK)  # pyright: ignore[reportUnknownMemberType]  # untyped


@pytest.mark.slow
@pytest.mark.timeout(900)
@MACHINES
def test_every_call_has_one_outcome_of_its_own_in_many_long_stories(machine: type[Outcomes]) -> None:
    run_state_machine_as_test(machine, settings=LONG)  # pyright: ignore[reportUnknownMemberType]  # untyped
