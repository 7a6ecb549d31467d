import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    RunContext,
    ToolReturn,
)
from pydantic_ai import Tool as TheirTool
from pydantic_ai.exceptions import ApprovalRequired, ModelRetry, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from spindle import Budget, Call, DispatchContext, Executor, Journal, Ok, Tool, ToolContext, ToolRegistry
from spindle.bridges.frameworks.pydantic_ai import tools_of, tools_of_toolset, toolset
from spindle.errors import InvalidToolError
from tests.bridges.frameworks.workshop import HOSTILE, PNG, REASON, Workshop, build_guarded, fetch_page, send_mail

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """Pydantic-ai's agents start asyncio's own tasks."""
    return "asyncio"


class Script:
    """A model that asks for calls step by step, and remembers which tools it was shown."""

    def __init__(self, *steps: Sequence[tuple[str, Any]]) -> None:
        self.steps = steps
        self.shown: list[list[str]] = []

    def __call__(self, _messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        step = len(self.shown)
        self.shown.append([each.name for each in info.function_tools])
        if step >= len(self.steps):
            return ModelResponse(parts=[TextPart("done")])
        calls = enumerate(self.steps[step])
        return ModelResponse(parts=[ToolCallPart(name, args, f"c{step}_{n}") for n, (name, args) in calls])

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self)


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


async def test_an_agent_uses_the_tools_and_is_answered_in_an_envelope(shop: Workshop) -> None:
    script = Script([("add", '{"a": "1"}'), ("login", {"user": "ann", "password": "x"})])

    result = await Agent(script.model, toolsets=[toolset(shop.registry)]).run("add")

    add, login = returns(result.all_messages())
    assert result.output == "done"
    assert "<untrusted_content_" in str(add.content)
    assert "\n3\n" in str(add.content)
    assert "<trusted_content_" in str(login.content)
    assert {"add", "fails", "big"} <= set(script.shown[0])


async def test_hostile_calls_have_one_answer_each_and_end_no_run(shop: Workshop) -> None:
    result = await Agent(Script(HOSTILE).model, toolsets=[toolset(shop.registry)]).run("go")

    answers = returns(result.all_messages())
    assert [answer.tool_call_id for answer in answers] == [f"c0_{n}" for n in range(6)]
    assert [answer.outcome for answer in answers] == ["failed", "failed", "success", "failed", "failed", "success"]
    assert shop.ran.count("add") == 1
    assert "hunter2" not in str(answers)


async def test_bad_arguments_again_and_again_do_not_end_the_run(shop: Workshop) -> None:
    script = Script(*[[("add", "{")]] * 5)

    result = await Agent(script.model, toolsets=[toolset(shop.registry)]).run("go")

    assert result.output == "done"
    assert shop.ran == []


@pytest.mark.parametrize("nothing", ["", None])
async def test_nothing_means_no_arguments_where_none_are_required(shop: Workshop, nothing: Any) -> None:
    def optional(args: dict[str, Any], _ctx: object, _meta: object) -> str:
        shop.ran.append("optional")
        return str(args)

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [_raw("optional", schema, optional), *shop.registry]
    result = await Agent(Script([("optional", nothing), ("fails", nothing)]).model, toolsets=[toolset(tools)]).run("go")

    assert sorted(shop.ran) == ["fails", "optional"]  # they run in parallel threads
    assert len(returns(result.all_messages())) == 2


def _raw(name: str, schema: dict[str, Any], handler: Callable[..., Any]) -> Tool:
    return Tool(name=name, description=name, input_schema=schema, handler=handler)


async def test_a_large_result_is_read_in_a_later_step_of_its_run_only(shop: Workshop) -> None:
    script = Script([("big", {})], [("artifact_cat", {"call_id": "c0_0", "start": 99_999})])
    agent = Agent(script.model, toolsets=[toolset(shop.registry)])

    first = await agent.run("go")
    script.shown.clear()
    script.steps = ([("artifact_cat", {"call_id": "c0_0"})],)
    second = await agent.run("go", message_history=first.all_messages())

    assert "line 99999" in str(returns(first.all_messages())[1].content)
    assert "artifact_cat" not in script.shown[0]
    assert returns(second.new_messages())[0].outcome != "success"


async def test_with_a_context_a_later_run_can_read_on(shop: Workshop) -> None:
    script = Script([("big", {})])
    agent = Agent(script.model, toolsets=[toolset(shop.registry, ctx=DispatchContext())])

    await agent.run("go")
    script.shown.clear()
    script.steps = ([("artifact_cat", {"call_id": "c0_0", "start": 99_999})],)
    second = await agent.run("go")

    assert "line 99999" in str(returns(second.all_messages())[0].content)


async def test_the_calls_of_a_step_share_the_budget(shop: Workshop) -> None:
    executor = Executor(shop.registry, budget=Budget(chars=4_000))
    agent = Agent(Script([("big", "{}")] * 4).model, toolsets=[toolset(shop.registry, executor=executor)])

    answers = returns((await agent.run("go")).all_messages())

    assert all(1_000 <= len(str(answer.content)) < 1_700 for answer in answers)


async def test_the_history_is_json(shop: Workshop) -> None:
    agent = Agent(Script([("big", {}), ("picture", {}), ("add", "{")]).model, toolsets=[toolset(shop.registry)])

    written = (await agent.run("go")).all_messages_json()

    assert len(returns(ModelMessagesTypeAdapter.validate_json(written))) == 3


async def test_an_image_is_given_as_it_is(shop: Workshop) -> None:
    agent = Agent(Script([("picture", {})]).model, toolsets=[toolset(shop.registry)])

    [answer] = returns((await agent.run("go")).all_messages())

    assert [file.data for file in answer.files if isinstance(file, BinaryContent)] == [PNG]


async def test_a_call_that_needs_approval_waits_for_the_agents_own_way(shop: Workshop) -> None:
    script = Script([("pay", '{"amount": 3}'), ("pay", '{"amount": "much"}'), ("add", '{"a": 1}')])
    kept: Any = [str, DeferredToolRequests]
    async with Journal.memory() as journal:
        executor = Executor(shop.registry, journal=journal)
        agent = Agent(script.model, toolsets=[toolset(shop.registry, executor=executor)], output_type=kept)
        waiting = await agent.run("pay")
        ran_before = list(shop.ran)
        asked = waiting.output
        assert isinstance(asked, DeferredToolRequests)
        answer = DeferredToolResults(approvals={asked.approvals[0].tool_call_id: True})
        done = await agent.run(message_history=waiting.all_messages(), deferred_tool_results=answer)

    assert [call.args for call in asked.approvals] == ['{"amount": 3}']
    assert asked.metadata["c0_0"]["args"] == {"amount": 3}
    assert ran_before == ["add"]
    assert shop.ran == ["add", "pay"]
    assert "paid 3" in str(returns(done.new_messages()))


async def test_a_denied_call_does_not_run(shop: Workshop) -> None:
    kept: Any = [str, DeferredToolRequests]
    agent = Agent(Script([("pay", '{"amount": 3}')]).model, toolsets=[toolset(shop.registry)], output_type=kept)
    waiting = await agent.run("pay")
    answer = DeferredToolResults(approvals={"c0_0": False})

    done = await agent.run(message_history=waiting.all_messages(), deferred_tool_results=answer)

    assert done.output == "done"
    assert shop.ran == []


async def test_the_executors_own_approver_is_asked_instead(shop: Workshop) -> None:
    async def yes(_request: object) -> bool:
        return True

    executor = Executor(shop.registry, approve=yes)
    agent = Agent(Script([("pay", '{"amount": 3}')]).model, toolsets=[toolset(shop.registry, executor=executor)])

    assert "paid 3" in str(returns((await agent.run("pay")).all_messages()))


async def test_cancelling_a_run_reaches_the_tool(shop: Workshop) -> None:
    agent = Agent(Script([("waits", {})]).model, toolsets=[toolset(shop.registry)])

    with anyio.fail_after(30):
        run = asyncio.ensure_future(agent.run("wait"))
        await shop.started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await shop.cancelled.wait()


def test_a_blocking_run_works_too(shop: Workshop) -> None:
    agent = Agent(TestModel(call_tools=["add"]), toolsets=[toolset(shop.registry)])

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # or pydantic-ai would make one, and leave it open
    try:
        agent.run_sync("add")
    finally:
        asyncio.set_event_loop(None)
        loop.close()

    assert shop.ran == ["add"]


# --- their tools as ours


def context(deps: Any = None) -> RunContext[Any]:
    return RunContext(deps=deps, model=TestModel(), usage=RunUsage())


async def outcomes(tools: Sequence[Any], *calls: tuple[str, Any], **settings: Any) -> list[Any]:
    made = [Call(f"c{n}", name, args) for n, (name, args) in enumerate(calls)]
    done = await Executor(ToolRegistry(tools), **settings).execute_parallel(made, ToolContext())
    return [outcome.result for outcome in done]


async def test_their_functions_run_under_our_rules() -> None:
    def area(width: int, height: int = 2) -> int:
        """Multiply.

        Args:
            width: How wide.
            height: How high.
        """
        return width * height

    async def greet(name: str) -> dict[str, str]:
        """Greet."""
        return {"hello": name}

    theirs = tools_of([area, TheirTool(greet, name="hail")])
    good, bad, cut, hail = await outcomes(
        theirs,
        ("area", '{"width": 3}'),
        ("area", '{"width": "wide"}'),
        ("area", '{"width": 3'),
        ("hail", {"name": "Ann"}),
    )

    assert theirs[0].describe()["input_schema"]["properties"]["width"]["description"] == "How wide."
    assert [tool.trusted for tool in theirs] == [False, False]
    assert good == Ok("6", structured=6)
    assert (bad.code, cut.code) == ("input_invalid", "input_invalid")
    assert hail.structured == {"hello": "Ann"}


async def test_exceptions_of_foreign_tools_become_errors() -> None:
    def breaks() -> str:
        raise RuntimeError("hunter2")

    def retry() -> str:
        raise ModelRetry("use another city")

    def failed() -> str:
        raise ToolFailed("there is no such city")

    def waits() -> str:
        raise ApprovalRequired

    results = await outcomes(
        tools_of([breaks, retry, failed, waits]), *[(n, "{}") for n in ("breaks", "retry", "failed", "waits")]
    )

    assert [(result.code, result.retryable) for result in results] == [
        ("execution_failed", False),
        ("execution_failed", True),
        ("execution_failed", False),
        ("needs_approval", False),
    ]
    assert "hunter2" not in results[0].error
    assert results[1].error == "use another city"


async def test_their_blocking_function_is_left_behind_at_the_deadline() -> None:
    let_go = threading.Event()

    def hang() -> str:
        let_go.wait(30)
        return "late"

    try:
        with anyio.fail_after(30):
            [late] = await outcomes(tools_of([hang]), ("hang", "{}"), timeout_seconds=0.1)
    finally:
        let_go.set()

    assert late.code == "timed_out"


async def test_a_run_context_is_given_or_asked_for() -> None:
    def whoami(ctx: RunContext[str]) -> str:
        return f"{ctx.deps} {ctx.tool_call_id} {ctx.tool_name}"

    with pytest.raises(InvalidToolError):
        tools_of([whoami])
    [said] = await outcomes(tools_of([whoami], run_context=context("ann")), ("whoami", "{}"))

    assert said == Ok("ann c0 whoami")


async def test_their_approval_is_ours_and_their_validators_are_asked() -> None:
    def even(ctx: RunContext[Any], n: int) -> None:
        if n % 2:
            raise ModelRetry("give an even number")

    def halve(n: int) -> int:
        return n // 2

    theirs = tools_of([TheirTool(halve, args_validator=even, requires_approval=True)], run_context=context())
    [unasked] = await outcomes(theirs, ("halve", {"n": 4}))

    async def yes(_request: object) -> bool:
        return True

    good, odd = await outcomes(theirs, ("halve", {"n": 4}), ("halve", {"n": 3}), approve=yes)

    assert unasked.code == "needs_approval"
    assert good.value == "2"
    assert odd.error == "give an even number"


async def test_their_media_are_ours() -> None:
    def draw() -> ToolReturn[Any]:
        return ToolReturn("a dot", content=["look:", BinaryContent(PNG, media_type="image/png")])

    def bare() -> BinaryContent:
        return BinaryContent(PNG, media_type="image/png")

    drawn, alone = await outcomes(tools_of([draw, bare]), ("draw", "{}"), ("bare", "{}"))

    assert drawn.value.startswith("a dot\n\nlook:")
    assert [await media.as_bytes() for media in (*drawn.media, *alone.media)] == [PNG, PNG]


async def test_any_toolset_can_be_listed_and_run() -> None:
    def area(width: int) -> int:
        return width * width

    theirs: Any = FunctionToolset([area]).prefixed("geo")
    listed = await tools_of_toolset(theirs, context())
    [nine] = await outcomes(listed, ("geo_area", '{"width": 3}'))

    assert [tool.name for tool in listed] == ["geo_area"]
    assert nine.value == "9"


async def test_a_tool_of_ours_comes_back_whole(shop: Workshop) -> None:
    session: Any = await toolset(shop.registry).for_run(context())
    listed = await tools_of_toolset(session, context())
    [added, cut] = await outcomes(listed, ("add", '{"a": 1}'), ("add", '{"a": "x"}'))

    assert json.dumps(listed[0].describe()["input_schema"])
    assert "\n3\n" in added.value
    assert cut.code == "input_invalid"


async def test_a_flow_policy_knows_prompts_and_results_of_the_conversation() -> None:
    bob, eve = ("send_mail", '{"to": "bob@corp.example"}'), ("send_mail", '{"to": "mallory@evil.example"}')
    script = Script([("fetch_page", "{}")], [bob, eve])
    kept: Any = [str, DeferredToolRequests]
    spindle = toolset([fetch_page, send_mail], executor=build_guarded())
    agent = Agent(script.model, toolsets=[spindle], output_type=kept)

    waiting = await agent.run("Send the page to bob@corp.example")

    assert isinstance(waiting.output, DeferredToolRequests)
    assert [call.tool_call_id for call in waiting.output.approvals] == ["c1_1"]
    assert waiting.output.metadata["c1_1"]["reasons"] == [REASON.format(call_id="c0_0")]


async def test_a_flow_policy_in_another_process_reads_the_history() -> None:
    def hand_over() -> ToolReturn[str]:
        """Return a text and show another as if the user had said it."""
        return ToolReturn("see below", content="mallory@evil.example")

    kept: Any = [str, DeferredToolRequests]
    first = Agent(Script([("hand_over", "{}")]).model, tools=[hand_over])
    done = await first.run("go")
    spindle = toolset([fetch_page, send_mail], executor=build_guarded())
    second = Agent(
        Script([("send_mail", '{"to": "mallory@evil.example"}')]).model, toolsets=[spindle], output_type=kept
    )

    waiting = await second.run("thanks", message_history=done.all_messages())

    assert isinstance(waiting.output, DeferredToolRequests)
    assert len(waiting.output.metadata["c0_0"]["reasons"]) == 1
