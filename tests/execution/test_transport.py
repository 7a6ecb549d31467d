"""The port suite of transports, and how the executor uses one: a request of plain data in, a result out."""

import json
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from spindle import Artifact, Backends, Capabilities, Err, Events, Ok, Tool, ToolContext, ToolRegistry
from spindle.capabilities import CallScope, StorageBackend
from spindle.execution import CancelSignal, LocalTransport, ProcessTransport, Request, Transport
from tests.execution.calling import call, err, execute, execute_one, giving, make, ok, raising

pytestmark = pytest.mark.anyio

MakeTransport = Callable[[ToolRegistry], Transport]


@dataclass
class Signal:
    """A cancel signal that is set elsewhere."""

    cancelled: bool = False


@pytest.fixture(params=[LocalTransport, ProcessTransport])
def make_transport(request: pytest.FixtureRequest) -> MakeTransport:
    return request.param


@pytest.fixture
def make_local() -> MakeTransport:
    """For what a test can only see in its own process."""
    return LocalTransport


def request_for(tool: Tool, args: dict[str, Any] | None = None, **facts: Any) -> Request:
    plain: dict[str, Any] = {
        "tool_call_id": "c1",
        "checksum": "0" * 64,
        "idempotency_key": "1" * 64,
        "session_id": "s1",
        "turn_id": None,
        "result_budget_chars": None,
        "seconds_left": None,
    }
    return Request(tool=tool.name, args=args or {}, fingerprint=tool.fingerprint, **(plain | facts))


async def carry(make_transport: MakeTransport, tool: Tool, args: dict[str, Any] | None = None) -> Ok | Err:
    return await make_transport(ToolRegistry([tool])).execute(request_for(tool, args), Signal())


async def test_a_transport_gives_what_the_tool_gives(make_transport: MakeTransport) -> None:
    async def greet(args: Any, _ctx: Any, _meta: Any) -> dict[str, str]:
        return {"hello": args["name"]}

    result = await carry(make_transport, make("greet", greet), {"name": "ada"})

    assert result == Ok('{"hello":"ada"}', structured={"hello": "ada"})


async def test_a_sync_tool_runs_beside_the_event_loop(make_local: MakeTransport) -> None:
    started, may_end = threading.Event(), threading.Event()
    answers: list[Ok | Err] = []

    def wait_for_the_loop(_args: Any, _ctx: Any, _meta: Any) -> str:
        started.set()
        return "beside" if may_end.wait(30) else "alone"

    async def ask() -> None:
        answers.append(await carry(make_local, make("wait", wait_for_the_loop)))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while not started.is_set():
                await checkpoint()
            may_end.set()

    assert answers == [Ok("beside")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(1), KeyboardInterrupt(), RecursionError(), BaseException()]
)
async def test_exceptions_of_a_tool_become_errors(make_transport: MakeTransport, error: Any) -> None:
    result = await carry(make_transport, raising(error))

    assert isinstance(result, Err)
    assert result.code == "execution_failed"


@pytest.mark.parametrize("value", [object(), {1: object()}, (n for n in range(3))], ids=["object", "dict", "generator"])
async def test_a_value_that_is_not_a_result_is_an_error(make_transport: MakeTransport, value: Any) -> None:
    result = await carry(make_transport, giving(value))

    assert isinstance(result, Err)
    assert result.code == "execution_failed"


async def test_arguments_are_held_to_the_schema_where_they_arrive(make_transport: MakeTransport) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    result = await carry(make_transport, giving("x", input_schema=schema), {"n": "five"})

    assert isinstance(result, Err)
    assert result.code == "input_invalid"
    assert result.field == "n"


async def test_an_unknown_tool_is_refused(make_transport: MakeTransport) -> None:
    result = await make_transport(ToolRegistry()).execute(request_for(giving("x")), Signal())

    assert isinstance(result, Err)
    assert result.code == "not_available"


async def test_a_tool_that_changed_since_it_was_asked_for_is_refused(make_transport: MakeTransport) -> None:
    asked, there = giving("x"), giving("x", description="Does something else.")

    result = await make_transport(ToolRegistry([there])).execute(request_for(asked), Signal())

    assert isinstance(result, Err)
    assert result.code == "not_available"


async def test_a_handler_knows_its_call(make_local: MakeTransport) -> None:
    seen: list[ToolContext] = []

    async def look(_args: Any, ctx: ToolContext, _meta: Any) -> None:
        seen.append(ctx)

    tool = make("look", look)
    facts: dict[str, Any] = {
        "session_id": "s7",
        "turn_id": "t7",
        "tool_call_id": "c7",
        "result_budget_chars": 77,
        "seconds_left": 60.0,
        "working_dir": "w7",
        "turn_count": 7,
    }
    await make_local(ToolRegistry([tool])).execute(request_for(tool, **facts), Signal())

    (ctx,) = seen
    assert (ctx.session_id, ctx.turn_id, ctx.tool_call_id, ctx.tool_name) == ("s7", "t7", "c7", "look")
    assert (ctx.result_budget_chars, ctx.working_dir, ctx.turn_count) == (77, "w7", 7)
    assert (ctx.checksum, ctx.idempotency_key) == ("0" * 64, "1" * 64)
    assert ctx.seconds_left is not None
    assert 0 < ctx.seconds_left <= 60


async def test_the_cancel_signal_reaches_the_handler(make_local: MakeTransport) -> None:
    signal = Signal()
    seen: list[bool] = []

    async def look(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        seen.append(ctx.cancelled)
        signal.cancelled = True
        seen.append(ctx.cancelled)
        return "stopped"

    tool = make("look", look)
    result = await make_local(ToolRegistry([tool])).execute(request_for(tool), signal)

    assert seen == [False, True]
    assert result.ok


async def test_cancelling_the_caller_cancels_the_handler(make_local: MakeTransport) -> None:
    started, reported = anyio.Event(), anyio.Event()

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            reported.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(carry, make_local, make("hang", hang))
            await started.wait()
            group.cancel_scope.cancel()
    assert reported.is_set()


async def test_a_request_is_plain_data_and_carries_the_arguments_as_they_were_sent() -> None:
    seen: list[Request] = []

    class Noting:
        async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
            seen.append(request)
            assert cancel.cancelled is False
            return Ok("noted")

    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 4}, "deep": {}}}
    tool = giving("x", input_schema=schema)
    ctx = ToolContext("s1", turn_id="t1", working_dir="here")
    outcomes = await execute([tool], [call("give", '{"deep": [1, {"a": null}]}')], ctx=ctx, transport=Noting())

    assert ok(outcomes[0]).value == "noted"
    (request,) = seen
    assert request == Request(**json.loads(json.dumps(asdict(request))))
    assert request.args == {"deep": [1, {"a": None}]}
    assert (request.checksum, request.tool_call_id) == (outcomes[0].checksum, "c1")
    assert request.seconds_left is not None


async def test_the_executor_gives_the_same_answers_through_a_transport(make_transport: MakeTransport) -> None:
    tools = [giving("fine"), giving({"a": 1}, "data"), raising(ValueError("x"))]
    calls = [call("give"), call("data"), call("fail"), call("missing"), call("give", "{broken")]

    here = await execute(tools, calls)
    there = await execute(tools, calls, transport=make_transport(ToolRegistry(tools)))

    assert [each.result for each in there[:2]] == [each.result for each in here[:2]]
    assert [err(each).code for each in there[2:]] == [err(each).code for each in here[2:]]
    assert [replace(err(each), cause=None) for each in there[2:]] == [
        replace(err(each), cause=None) for each in here[2:]
    ]


@pytest.mark.parametrize("junk", [None, "text", {"value": "x"}, 5])
async def test_a_transport_that_gives_junk_has_failed(junk: Any) -> None:
    class Careless:
        async def execute(self, request: Request, cancel: CancelSignal) -> Any:
            return junk

    assert err(await execute_one(giving("x"), transport=Careless())).code == "execution_failed"


async def test_a_transport_that_raises_has_failed() -> None:
    class Broken:
        async def execute(self, request: Request, cancel: CancelSignal) -> Any:
            raise ConnectionError("gone")

    failed = err(await execute_one(giving("x"), transport=Broken()))

    assert failed.code == "execution_failed"
    assert isinstance(failed.cause, ConnectionError)
    assert "gone" not in failed.error


async def test_a_transport_cannot_make_a_result_trusted() -> None:
    class Flattering:
        async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
            return Ok("believe me", trusted=True)

    assert ok(await execute_one(giving("x"), transport=Flattering())).trusted is False
    assert ok(await execute_one(giving("x", trusted=True), transport=Flattering())).trusted is True


async def test_a_local_transport_serves_capabilities_or_refuses() -> None:
    async def read(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        return await ctx.storage.get("key")

    tool = make("read", read, capabilities=Capabilities(storage="tool"))
    registry = ToolRegistry([tool])
    storage = StorageBackend.memory().open("tool", CallScope(tool="read", session_id="s1"))
    await storage.set("key", "kept")
    served = LocalTransport(registry, backends=Backends(storage=storage))

    refused = await LocalTransport(registry).execute(request_for(tool), Signal())

    assert await served.execute(request_for(tool), Signal()) == Ok("kept")
    assert isinstance(refused, Err)
    assert refused.code == "not_available"


async def test_a_result_is_masked_where_the_secrets_are_known(make_transport: MakeTransport) -> None:
    async def show(args: Any, _ctx: Any, _meta: Any) -> Any:
        return {"password": args["password"], "user": args["user"]}

    result = await carry(
        make_transport, make("show", show, secret_fields=["password"]), {"password": "correct horse", "user": "ada"}
    )

    assert isinstance(result, Ok)
    assert "correct horse" not in result.value
    assert "ada" in result.value


async def test_a_secret_that_the_worker_read_is_masked_in_the_result() -> None:
    async def show(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        return f"the key is {(await ctx.secrets.get('KEY')).reveal()}"

    tool = make("show", show, capabilities=Capabilities(secrets=["KEY"]))
    transport = LocalTransport(ToolRegistry([tool]), backends=Backends.local(".", secrets={"KEY": "sk-very-secret"}))

    result = await transport.execute(request_for(tool), Signal())

    assert isinstance(result, Ok)
    assert "sk-very-secret" not in result.value


async def test_an_error_keeps_its_author() -> None:
    class Refusing:
        async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
            return Err("not_available", "the cluster is full", by="spindle")

    assert err(await execute_one(giving("x"), transport=Refusing())).by == "spindle"


async def test_a_selective_transport_leaves_a_tool_to_this_process() -> None:
    class Picky:
        def accepts(self, tool: Tool) -> bool:
            return tool.name == "far"

        async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
            return Ok("far away")

    assert ok(await execute_one(giving("here", "near"), transport=Picky())).value == "here"
    assert ok(await execute_one(giving("here", "far"), transport=Picky())).value == "far away"


async def test_a_local_transport_emits_progress_to_its_own_events() -> None:
    reported: list[Any] = []
    events = Events()
    events.on("tool_progress", reported.append)

    async def work(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        ctx.progress("half", 50)
        return "done"

    tool = make("work", work)
    await LocalTransport(ToolRegistry([tool]), events=events).execute(request_for(tool, tool_call_id="c9"), Signal())

    assert [(each.tool_call_id, each.message, each.percent) for each in reported] == [("c9", "half", 50)]


async def test_a_process_is_gone_when_its_caller_leaves(tmp_path: Path) -> None:
    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        (tmp_path / "ready").touch()
        await anyio.sleep_forever()

    tool = make("hang", hang)
    transport = ProcessTransport(ToolRegistry([tool]))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(transport.execute, request_for(tool), Signal())
            while not (tmp_path / "ready").exists():
                await checkpoint()
            group.cancel_scope.cancel()

    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_an_answer_that_cannot_leave_its_process_is_an_error() -> None:
    artifact = Artifact.from_text("y")
    vars(artifact)["lock"] = threading.Lock()

    assert isinstance(await carry(ProcessTransport, giving(Ok("x", artifact=artifact))), Err)
    assert await carry(ProcessTransport, giving("x")) == Ok("x")


async def test_a_local_transport_closes_the_handles_it_opened() -> None:
    closed: list[str] = []

    class Handle:
        async def aclose(self) -> None:
            closed.append("closed")

    class Backend:
        def open(self, need: Any, scope: Any) -> Any:
            return Handle()

    async def use(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        assert isinstance(ctx.network, Handle)
        assert closed == []
        return "used"

    tool = make("use", use, capabilities=Capabilities(network=["a.example"]))
    transport = LocalTransport(ToolRegistry([tool]), backends=Backends(network=Backend()))

    assert await transport.execute(request_for(tool), Signal()) == Ok("used")
    assert closed == ["closed"]
