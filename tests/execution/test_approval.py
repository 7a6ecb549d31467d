"""A tool that wants a person's word does not run without it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, Field

from spindle import Call, CallOutcome, Executor, Ok, ToolContext, ToolRegistry, tool
from spindle.errors import SpindleError, UsageError
from spindle.execution.approval import ApprovalRequest
from tests.execution.calling import call, counting, err, execute, execute_one, giving, hearing, make, ok

pytestmark = pytest.mark.anyio


def answering(answer: Any) -> Any:
    async def approve(_request: ApprovalRequest) -> Any:
        return answer

    return approve


async def test_without_anyone_to_ask_the_call_waits_for_approval() -> None:
    tool_, runs = counting(requires_approval=True)

    outcome = await execute_one(tool_)

    assert err(outcome).code == "needs_approval"
    assert outcome.attempts == 0
    assert runs == []


async def test_a_yes_lets_the_call_run_and_a_no_does_not() -> None:
    tool_, runs = counting(requires_approval=True)

    assert ok(await execute_one(tool_, approve=answering(True))).value == "ran"
    assert err(await execute_one(tool_, approve=answering(False))).code == "denied"
    assert len(runs) == 1


async def test_a_text_is_a_no_with_its_reason() -> None:
    denied = err(await execute_one(giving("x", requires_approval=True), approve=answering("not on\nFridays")))

    assert denied.code == "denied"
    assert "not on" in denied.error
    assert denied.error.isprintable()


@pytest.mark.parametrize("answer", [None, 1, "", "True", "yes", [True], {"approved": True}, object()])
async def test_only_true_is_a_yes(answer: Any) -> None:
    tool_, runs = counting(requires_approval=True)

    assert err(await execute_one(tool_, approve=answering(answer))).code == "denied"
    assert runs == []


@pytest.mark.parametrize(
    "raised",
    [RuntimeError("x"), TimeoutError(), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), BaseException("x")],
)
async def test_asking_that_fails_is_a_no(raised: BaseException) -> None:
    async def approve(_request: ApprovalRequest) -> bool:
        raise raised

    ctx, warnings = hearing()
    tool_, runs = counting(requires_approval=True)
    outcomes = await execute([tool_, giving("fine")], [call("count"), call("give")], approve=approve, ctx=ctx)

    assert err(outcomes[0]).code == "denied"
    assert err(outcomes[0]).cause is raised
    assert ok(outcomes[1]).value == "fine"
    assert runs == []
    assert [each.error for each in warnings] == [raised]


async def test_an_approver_may_be_sync() -> None:
    def approve(request: ApprovalRequest) -> bool | str:
        return request.args == {} or "not with arguments"

    tool = giving("x", requires_approval=True)
    assert ok(await execute_one(tool, approve=approve)).value == "x"
    assert "not with arguments" in err(await execute_one(tool, {"a": 1}, approve=approve)).error


def _yield_answer(_request: ApprovalRequest) -> Iterator[bool]:
    yield True


@pytest.mark.parametrize("wrong", ["yes", True, 5, [print], bool, _yield_answer])
def test_an_approver_that_can_never_answer_is_refused_at_wiring(wrong: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Executor(ToolRegistry(), approve=wrong)

    assert caught.value.field == "approve"


async def test_an_interceptor_may_be_sync() -> None:
    def answer(call: Call, _ctx: ToolContext, _next: Any) -> CallOutcome:
        return CallOutcome(call.tool_call_id, call.name, "", Ok("from the interceptor"))

    def go_on(_call: Call, _ctx: ToolContext, next: Any) -> Any:
        return next()

    assert ok(await execute_one(giving("x"), interceptors=[go_on, answer])).value == "from the interceptor"
    assert ok(await execute_one(giving("x"), interceptors=[go_on])).value == "x"


async def test_asking_that_is_cancelled_by_itself_is_a_no() -> None:
    async def approve(_request: ApprovalRequest) -> bool:
        raise anyio.get_cancelled_exc_class()

    assert err(await execute_one(giving("x", requires_approval=True), approve=approve)).code == "denied"


async def test_a_person_sees_the_call_that_will_run() -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    @tool(requires_approval=True)
    async def transfer(amount: int, to: str = "savings") -> str:
        """Move money."""
        return f"{amount} to {to}"

    (outcome,) = await execute([transfer], [Call("c7", "transfer", '{"amount": "5"}')], approve=approve)

    (request,) = asked
    assert request.tool is transfer
    assert request.args == {"amount": 5, "to": "savings"}
    assert request.checksum == outcome.checksum
    assert request.ctx.tool_call_id == "c7"


class Model(BaseModel):
    pin: str
    to: str = "a"


@dataclass
class Plain:
    pin: str
    to: str = "a"


@dataclass(slots=True)
class Slotted:
    pin: str
    to: str = "a"


class Aliased(BaseModel):
    hidden_pin: str = Field(alias="pin")
    to: str = "a"


RAW = {"type": "object", "properties": {"pin": {"type": "string"}, "to": {"type": "string", "default": "a"}}}


@pytest.mark.parametrize("schema", [Model, Plain, Slotted, RAW], ids=["model", "dataclass", "slots", "raw"])
async def test_a_person_never_sees_a_secret(schema: Any) -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    tool_, runs = counting(requires_approval=True, secret_fields=["pin"], input_schema=schema)
    outcome = await execute_one(tool_, {"pin": "12345678"}, approve=approve)

    assert outcome.ok
    assert asked[0].args == {"pin": "***", "to": "a"}
    assert "12345678" not in repr(asked[0].args)
    assert "12345678" in repr(runs[0])


async def test_a_secret_with_another_name_inside_is_masked_too() -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    tool_, _ = counting(requires_approval=True, secret_fields=["pin"], input_schema=Aliased)

    assert (await execute_one(tool_, {"pin": "12345678"}, approve=approve)).ok
    assert asked[0].args == {"hidden_pin": "***", "to": "a"}


async def test_no_approval_is_requested_for_a_call_that_is_refused_anyway() -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    def check(_args: Any, _ctx: Any) -> None:
        raise ValueError("no")

    tools = [
        giving("x", "away", requires_approval=True, is_available=lambda: False),
        giving("x", "checked", requires_approval=True, checks=[check]),
        giving("x", "numbered", requires_approval=True, input_schema={"type": "object", "required": ["n"]}),
        giving("x", "easy"),
    ]
    outcomes = await execute(tools, [call(each.name) for each in tools], approve=approve)

    assert [each.ok for each in outcomes] == [False, False, False, True]
    assert asked == []


async def test_a_call_that_waits_for_a_person_delays_no_other_call() -> None:
    answered, ran = anyio.Event(), anyio.Event()

    async def approve(_request: ApprovalRequest) -> bool:
        await ran.wait()
        answered.set()
        return True

    async def run(_args: Any, _ctx: Any, _meta: Any) -> str:
        ran.set()
        return "ran"

    asked = giving("agreed", "asked", requires_approval=True)

    with anyio.fail_after(30):
        outcomes = await execute(
            [asked, make("easy", run)], [call("asked"), call("easy")], approve=approve, concurrency=1
        )

    assert answered.is_set()
    assert [ok(each).value for each in outcomes] == ["agreed", "ran"]


async def test_cancelling_passes_through_a_person_who_thinks() -> None:
    asked = anyio.Event()
    tool_, runs = counting(requires_approval=True)
    ended: list[str] = []

    async def approve(_request: ApprovalRequest) -> bool:
        asked.set()
        await anyio.sleep_forever()
        return True

    async def ask() -> None:
        executor = Executor(ToolRegistry([tool_]), approve=approve)
        try:
            await executor.execute_parallel([call("count")], ToolContext("s1"))
        except SpindleError:
            ended.append("error")
        finally:
            ended.append("left")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await asked.wait()
            group.cancel_scope.cancel()

    assert ended == ["left"]
    assert runs == []


async def test_an_approver_cannot_change_the_arguments() -> None:
    tool_, runs = counting(requires_approval=True)

    async def approve(request: ApprovalRequest) -> bool:
        request.args["n"] = 99
        request.args["list"].append(2)
        return True

    await execute_one(tool_, {"n": 1, "list": [1]}, approve=approve)

    assert runs == [{"n": 1, "list": [1]}]
