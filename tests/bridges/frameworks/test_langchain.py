import asyncio
import base64
import threading
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

import anyio
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, ToolException
from langchain_core.tools import tool as their_tool
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command

from spindle import Call, Executor, Ok, ToolContext, ToolFilter, ToolRegistry
from spindle.bridges.frameworks.langchain import tools, tools_of
from spindle.errors import InvalidToolError
from tests.bridges.frameworks.workshop import HOSTILE, PNG, Workshop

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """LangChain's tools start asyncio's own tasks."""
    return "asyncio"


def asked(name: str, args: Any, call_id: str = "c1") -> dict[str, Any]:
    return {"type": "tool_call", "name": name, "args": args, "id": call_id}


def named(listed: Sequence[BaseTool]) -> dict[str, BaseTool]:
    return {each.name: each for each in listed}


def test_a_tool_is_defined_with_its_whole_schema(shop: Workshop) -> None:
    add = named(tools(shop.registry))["add"]

    assert add.description == "Add two numbers."
    assert add.args_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
        "additionalProperties": False,
    }


async def test_a_call_is_answered_by_a_message_in_both_worlds(shop: Workshop) -> None:
    add = named(tools(shop.registry))["add"]

    waited: Any = await add.ainvoke(asked("add", {"a": 1}))
    blocking: Any = await anyio.to_thread.run_sync(add.invoke, asked("add", {"a": 1}))
    inside: Any = add.invoke(asked("add", {"a": 1}))

    for message in (waited, blocking, inside):
        assert isinstance(message, ToolMessage)
        assert (message.status, message.tool_call_id, message.name) == ("success", "c1", "add")
        assert "<untrusted_content_" in str(message.content)
        assert message.artifact["structured"] == 3


async def test_hostile_calls_have_one_answer_each(shop: Workshop) -> None:
    listed = named(tools(shop.registry))

    answers: list[Any] = await asyncio.gather(*[listed[name].ainvoke(args) for name, args in HOSTILE])
    odd: Any = await listed["add"].ainvoke(asked("add", {"self": 1, "config": 2, "run_manager": 3, "sent": 4}))

    # What Spindle itself says is not fenced; only what a tool returned is.
    assert ["untrusted" in str(answer) for answer in answers] == [False, False, True, False, False, True]
    assert odd.artifact["code"] == "input_invalid"
    assert shop.ran.count("add") == 1


async def test_a_large_result_can_be_read_back_in_its_own_thread_only(shop: Workshop) -> None:
    listed = named(tools(shop.registry))
    ann: RunnableConfig = {"configurable": {"thread_id": "ann"}}
    bob: RunnableConfig = {"configurable": {"thread_id": "bob"}}
    question = asked("artifact_cat", {"call_id": "c1", "start": 99_999}, "c2")

    cut: Any = await listed["big"].ainvoke(asked("big", {}), ann)
    own: Any = await listed["artifact_cat"].ainvoke(question, ann)
    others: Any = await listed["artifact_cat"].ainvoke(question, bob)
    nobodys: Any = await listed["artifact_cat"].ainvoke(question)

    assert len(cut.content) < 81_000
    assert "line 99999" in own.content
    assert (others.status, nobodys.status) == ("error", "error")


def test_readers_can_be_left_out_and_filters_hold(shop: Workshop) -> None:
    assert not any(name.startswith("artifact_") for name in named(tools(shop.registry, readers=False)))
    assert list(named(tools(shop.registry, filter=ToolFilter(["add"]), readers=False))) == ["add"]


async def test_an_image_is_a_content_block(shop: Workshop) -> None:
    message: Any = await named(tools(shop.registry))["picture"].ainvoke(asked("picture", {}))

    [image] = [block for block in message.content if block["type"] == "image"]
    assert image["mime_type"] == "image/png"
    assert message.content_blocks


async def test_a_call_that_needs_approval_says_so(shop: Workshop) -> None:
    message: Any = await named(tools(shop.registry))["pay"].ainvoke(asked("pay", {"amount": 3}))

    assert message.artifact["code"] == "needs_approval"
    assert shop.ran == []


class Tracer(BaseCallbackHandler):
    """Records what tracers receive."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    def on_tool_start(
        self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, inputs: Any = None, **kwargs: Any
    ) -> None:
        self.received += [input_str, inputs]


async def test_tracers_receive_no_secret(shop: Workshop) -> None:
    tracer, login = Tracer(), named(tools(shop.registry))["login"]

    message: Any = await login.ainvoke(asked("login", {"user": "ann", "password": "hunter2"}), {"callbacks": [tracer]})

    assert "welcome ann" in message.content
    assert "<trusted_content_" in message.content
    assert "ann" in str(tracer.received)
    assert "hunter2" not in str(tracer.received)


async def test_cancelling_reaches_the_tool(shop: Workshop) -> None:
    with anyio.fail_after(30):
        running = asyncio.ensure_future(named(tools(shop.registry))["waits"].ainvoke(asked("waits", {})))
        await shop.started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert shop.cancelled.is_set()


# --- their tools as ours


async def outcomes(theirs: Sequence[Any], *calls: tuple[str, Any], **settings: Any) -> list[Any]:
    made = [Call(f"c{n}", name, args) for n, (name, args) in enumerate(calls)]
    done = await Executor(ToolRegistry(theirs), **settings).execute_parallel(made, ToolContext())
    return [outcome.result for outcome in done]


async def test_their_tools_run_under_our_rules() -> None:
    @their_tool
    def area(width: int, height: int = 2) -> int:
        """Multiply."""
        return width * height

    @their_tool
    async def greet(name: str) -> str:
        """Greet."""
        return f"hello {name}"

    theirs = tools_of([area, greet])
    good, bad, cut, hail = await outcomes(
        theirs,
        ("area", '{"width": 3}'),
        ("area", '{"width": "w"}'),
        ("area", '{"width": 3'),
        ("greet", {"name": "Ann"}),
    )

    assert theirs[0].describe()["description"] == "Multiply."
    assert theirs[0].describe()["input_schema"]["required"] == ["width"]
    assert (good.value, hail.value, good.trusted) == ("6", "hello Ann", False)
    assert (bad.code, cut.code) == ("input_invalid", "input_invalid")


async def test_exceptions_and_commands_of_foreign_tools_become_errors() -> None:
    @their_tool
    def breaks() -> str:
        """Break."""
        raise RuntimeError("hunter2")

    @their_tool
    def objects() -> str:
        """Object."""
        raise ToolException("there is no such city")

    @their_tool
    async def commands() -> Any:
        """Command."""
        return Command(goto="elsewhere")

    broken, objected, commanded = await outcomes(
        tools_of([breaks, objects, commands]), ("breaks", "{}"), ("objects", "{}"), ("commands", "{}")
    )

    assert {each.code for each in (broken, objected, commanded)} == {"execution_failed"}
    assert "hunter2" not in broken.error
    assert objected.error == "there is no such city"


async def test_their_blocking_tool_is_left_behind_at_the_deadline() -> None:
    let_go = threading.Event()

    @their_tool
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


async def test_the_calls_id_and_the_config_are_given() -> None:
    @their_tool
    def whoami(call_id: Annotated[str, InjectedToolCallId], config: RunnableConfig) -> str:
        """Tell."""
        return f"{call_id} {config.get('configurable', {}).get('user')}"

    [said] = await outcomes(tools_of([whoami], config={"configurable": {"user": "ann"}}), ("whoami", "{}"))

    assert said == Ok("c0 ann")


def test_arguments_that_only_a_graph_can_inject_are_refused() -> None:
    @their_tool
    def stateful(n: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Look."""
        return str(state)

    @their_tool
    def with_runtime(n: int, runtime: ToolRuntime[None, dict[str, Any]]) -> str:
        """Look."""
        return str(runtime)

    @their_tool
    def injected(n: int, secret: Annotated[str, InjectedToolArg]) -> str:
        """Look."""
        return secret

    for each in (stateful, with_runtime, injected):
        with pytest.raises(InvalidToolError) as caught:
            tools_of([each])
        assert caught.value.tool == each.name


async def test_their_content_blocks_are_ours() -> None:
    data = base64.b64encode(PNG).decode()

    @their_tool
    def draw() -> list[dict[str, Any]]:
        """Draw."""
        return [
            {"type": "text", "text": "a dot"},
            {"type": "image", "base64": data, "mime_type": "image/png"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        ]

    [drawn] = await outcomes(tools_of([draw]), ("draw", "{}"))

    assert drawn.value.startswith("a dot")
    assert [await media.as_bytes() for media in drawn.media] == [PNG, PNG]


async def test_their_handled_error_is_an_error() -> None:
    @their_tool
    def objects() -> str:
        """Object."""
        raise ToolException("no such city")

    objects.handle_tool_error = True
    [result] = await outcomes(tools_of([objects]), ("objects", "{}"))

    assert (result.code, result.error) == ("execution_failed", "no such city")
