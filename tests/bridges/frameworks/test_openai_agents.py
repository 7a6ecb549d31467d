import asyncio
import base64
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import pytest
from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolOutputImage,
    ToolOutputText,
    WebSearchTool,
    function_tool,
    tool_input_guardrail,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tracing import set_tracing_disabled

from spindle import Call, Executor, Ok, ToolContext, ToolFilter, ToolRegistry
from spindle.bridges.frameworks.openai_agents import get_reasons, tools, tools_of
from spindle.errors import InvalidToolError
from tests.bridges.frameworks.workshop import HOSTILE, PNG, REASON, Workshop, build_guarded, fetch_page, send_mail

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

FORGIVING = RunConfig(tool_not_found_behavior="return_error_to_model", tracing_disabled=True)


@pytest.fixture
def anyio_backend() -> str:
    """The Agents SDK runs on asyncio only."""
    return "asyncio"


@pytest.fixture(autouse=True)
def untraced() -> Iterator[None]:
    """Nothing is sent anywhere."""
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


def script(*steps: Sequence[tuple[str, Any]]) -> ScriptedModel:
    written: list[Any] = []
    for step, calls in enumerate(steps):
        written.append([function_call(name, args, call_id=f"c{step}_{n}") for n, (name, args) in enumerate(calls)])
    return ScriptedModel([*written, [assistant_message("done")]])


def agent(model: ScriptedModel, given: Sequence[Any]) -> Agent[Any]:
    return Agent(name="agent", model=model, tools=list(given))


def outputs(result: Any) -> dict[str, Any]:
    """What each call was answered, by its id."""
    items = result.to_input_list()
    return {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}


async def test_an_agent_uses_the_tools_and_is_answered_in_an_envelope(shop: Workshop) -> None:
    model = script([("add", {"a": "1"}), ("login", {"user": "ann", "password": "x"})])

    result = await Runner.run(agent(model, tools(shop.registry)), "add", run_config=FORGIVING)

    assert result.final_output == "done"
    assert "<untrusted_content_" in outputs(result)["c0_0"]
    assert "\n3\n" in outputs(result)["c0_0"]
    assert "<trusted_content_" in outputs(result)["c0_1"]


async def test_hostile_calls_have_one_answer_each_and_end_no_run(shop: Workshop) -> None:
    model = script([*HOSTILE, ("nothing", "{}")])

    result = await Runner.run(agent(model, tools(shop.registry)), "go", run_config=FORGIVING)

    answers = outputs(result)
    assert sorted(answers) == [f"c0_{n}" for n in range(7)]
    # What Spindle itself says is not fenced; only what a tool returned is.
    assert ["untrusted" in answers[f"c0_{n}"] for n in range(6)] == [False, False, True, False, False, True]
    assert shop.ran.count("add") == 1
    assert "hunter2" not in str(answers)


async def test_the_shown_schema_is_the_enforced_one(shop: Workshop) -> None:
    add = next(each for each in tools(shop.registry) if each.name == "add")
    assert isinstance(add, FunctionTool)

    assert add.params_json_schema["required"] == ["a"]
    assert add.params_json_schema["properties"]["b"] == {"type": "integer", "default": 2}


async def test_readers_appear_once_a_result_was_cut(shop: Workshop) -> None:
    model = script([("big", "")], [("artifact_cat", {"call_id": "c0_0", "start": 99_999})])

    result = await Runner.run(agent(model, tools(shop.registry)), "go", run_config=FORGIVING)

    shown = [{each.name for each in call.tools} for call in model.calls]
    assert "artifact_cat" not in shown[0]
    assert "artifact_cat" in shown[1]
    assert "artifact_json_keys" not in shown[1]
    assert "line 99999" in outputs(result)["c1_0"]


async def test_another_list_of_tools_cannot_read_it(shop: Workshop) -> None:
    await Runner.run(agent(script([("big", "")]), tools(shop.registry)), "go", run_config=FORGIVING)
    model = script([("artifact_cat", {"call_id": "c0_0"})])

    result = await Runner.run(agent(model, tools(shop.registry)), "go", run_config=FORGIVING)

    assert "line 0" not in str(outputs(result))


def test_readers_can_be_left_out_and_filters_hold(shop: Workshop) -> None:
    listed = tools(shop.registry, filter=ToolFilter(["add"]), readers=False)

    assert [each.name for each in listed] == ["add"]


async def test_an_image_is_given_as_it_is(shop: Workshop) -> None:
    result = await Runner.run(agent(script([("picture", "")]), tools(shop.registry)), "go", run_config=FORGIVING)

    kinds = [part["type"] for part in outputs(result)["c0_0"]]
    assert "input_image" in kinds
    assert "input_text" in kinds


async def test_a_call_that_needs_approval_interrupts_the_run(shop: Workshop) -> None:
    model = script([("pay", {"amount": 3}), ("pay", {"amount": 5}), ("pay", {"amount": "much"}), ("pay", '{"am')])
    made = agent(model, tools(shop.registry))

    stopped = await Runner.run(made, "pay", run_config=FORGIVING)
    ran_before = list(shop.ran)
    state = stopped.to_state()
    waiting = {item.call_id: item for item in stopped.interruptions}
    for call_id, item in waiting.items():
        (state.reject if call_id == "c0_1" else state.approve)(item)
    done = await Runner.run(made, state, run_config=FORGIVING)

    assert {"c0_0", "c0_1"} <= set(waiting)
    assert "c0_2" not in waiting
    assert ran_before == []
    assert shop.ran == ["pay"]
    assert "paid 3" in outputs(done)["c0_0"]
    assert "refused" in outputs(done)["c0_3"]


async def test_the_executors_own_approver_is_asked_instead(shop: Workshop) -> None:
    async def yes(_request: object) -> bool:
        return True

    listed = tools(shop.registry, executor=Executor(shop.registry, approve=yes))
    result = await Runner.run(agent(script([("pay", {"amount": 3})]), listed), "pay", run_config=FORGIVING)

    assert "paid 3" in outputs(result)["c0_0"]


async def test_cancelling_a_run_reaches_the_tool(shop: Workshop) -> None:
    with anyio.fail_after(30):
        made = agent(script([("waits", "")]), tools(shop.registry))
        run = asyncio.ensure_future(Runner.run(made, "wait", run_config=FORGIVING))
        await shop.started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await shop.cancelled.wait()


# --- their tools as ours


async def outcomes(theirs: Sequence[Any], *calls: tuple[str, Any], **settings: Any) -> list[Any]:
    made = [Call(f"c{n}", name, args) for n, (name, args) in enumerate(calls)]
    done = await Executor(ToolRegistry(theirs), **settings).execute_parallel(made, ToolContext())
    return [outcome.result for outcome in done]


async def test_their_tools_run_under_our_rules() -> None:
    @function_tool
    def area(width: int, height: int) -> int:
        """Multiply."""
        return width * height

    @function_tool
    async def greet(name: str) -> dict[str, str]:
        """Greet."""
        return {"hello": name}

    theirs = tools_of([area, greet])
    good, bad, cut, extra, hail = await outcomes(
        theirs,
        ("area", '{"width": 3, "height": 2}'),
        ("area", '{"width": "wide", "height": 2}'),
        ("area", '{"width": 3'),
        ("area", '{"width": 3, "height": 2, "depth": 1}'),
        ("greet", {"name": "Ann"}),
    )

    assert theirs[0].describe()["input_schema"] == area.params_json_schema
    assert good == Ok("6", structured=6)
    assert [each.code for each in (bad, cut, extra)] == ["input_invalid"] * 3
    assert hail.structured == {"hello": "Ann"}


async def test_exceptions_of_foreign_tools_become_errors_not_results() -> None:
    @function_tool
    def breaks() -> str:
        """Break."""
        raise RuntimeError("hunter2")

    [broken] = await outcomes(tools_of([breaks]), ("breaks", "{}"))

    assert broken.code == "execution_failed"
    assert "hunter2" not in broken.error


async def test_their_blocking_tool_is_left_behind_at_the_deadline() -> None:
    let_go = threading.Event()

    @function_tool
    def hang() -> str:
        """Hang."""
        let_go.wait(30)
        return "late"

    try:
        with anyio.fail_after(30):
            [late] = await outcomes(tools_of([hang]), ("hang", "{}"), timeout_seconds=0.1)
    finally:
        let_go.set()

    assert late.code == "timed_out"


async def test_their_context_is_given() -> None:
    @function_tool
    def whoami(ctx: RunContextWrapper[str]) -> str:
        """Tell."""
        return ctx.context

    [said] = await outcomes(tools_of([whoami], context="ann"), ("whoami", "{}"))

    assert said == Ok("ann")


async def test_their_approval_is_ours() -> None:
    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    [unasked] = await outcomes(tools_of([pay]), ("pay", "{}"))

    assert unasked.code == "needs_approval"


async def test_their_pictures_are_ours() -> None:
    @function_tool
    def draw() -> list[Any]:
        """Draw."""
        url = "data:image/png;base64," + base64.b64encode(PNG).decode()
        return [ToolOutputText(text="a dot"), ToolOutputImage(image_url=url)]

    [drawn] = await outcomes(tools_of([draw]), ("draw", "{}"))

    assert drawn.value.startswith("a dot")
    assert [await media.as_bytes() for media in drawn.media] == [PNG]


def test_features_that_only_the_sdks_runner_can_apply_are_refused() -> None:
    @tool_input_guardrail
    def guard(_data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[guard])
    def guarded() -> str:
        """Guarded."""
        return "x"

    @function_tool(is_enabled=lambda _ctx, _agent: True)
    def switched() -> str:
        """Switched."""
        return "x"

    for each in (guarded, switched, WebSearchTool()):
        with pytest.raises(InvalidToolError):
            tools_of([each])


def test_disabled_tools_are_left_out() -> None:
    @function_tool(is_enabled=False)
    def off() -> str:
        """Off."""
        return "x"

    assert tools_of([off]) == []


def test_without_asyncio_a_foreign_tool_is_not_available() -> None:
    @function_tool
    def area() -> int:
        """Give a number."""
        return 1

    [refused] = anyio.run(outcomes, tools_of([area]), ("area", "{}"), backend="trio")

    assert isinstance(area, FunctionTool)
    assert refused.code == "not_available"


async def test_a_flow_policy_interrupts_a_run_and_says_why() -> None:
    bob, eve = ("send_mail", {"to": "bob@corp.example"}), ("send_mail", {"to": "mallory@evil.example"})
    given = tools([fetch_page, send_mail], executor=build_guarded())
    made = agent(script([("fetch_page", {})], [bob, eve]), given)

    stopped = await Runner.run(made, "Send the page to bob@corp.example", run_config=FORGIVING)

    [item] = stopped.interruptions
    assert item.call_id == "c1_1"
    assert get_reasons(given, item) == (REASON.format(call_id="c0_0"),)
    state = stopped.to_state()
    state.approve(item)
    done = await Runner.run(made, state, run_config=FORGIVING)
    assert "sent to mallory@evil.example" in outputs(done)["c1_1"]
