"""Tools that ask the client behind their call, on both revisions, and where there is none."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from spindle import Backends, Call, Capabilities, Err, Executor, Gate, Media, ToolContext, ToolRegistry, tool
from spindle.errors import ClientCapabilityError, GateNotSupportedError, UsageError
from spindle.mcp.client_requests import (
    ListRoots,
    Root,
    Sampled,
    Sampling,
    ask_all,
    can_ask,
    roots,
    sample,
    wait_all_gates,
)
from spindle.mcp.server.tool_server import Caller
from tests.mcp.asking_clients import LEGACY, MODERN, ROOTS, SAID, YES, Asked, connected, text_of

pytestmark = pytest.mark.anyio

both_revisions = pytest.mark.parametrize("mode", [LEGACY, MODERN])
PNG = b"\x89PNG\r\n\x1a\n"


@tool
async def capital(*, ctx: ToolContext) -> str:
    """Ask the client's model for a capital."""
    said = await sample(ctx, "What is the capital of France?", max_tokens=9, system_prompt="Be brief.")
    return repr(said)


@tool
async def places(*, ctx: ToolContext) -> str:
    """Ask where the client works."""
    return repr(await roots(ctx))


@tool
async def everything(*, ctx: ToolContext) -> str:
    """Ask for several things at once, two of one kind among them."""
    questions = [Gate("sure", timeout_seconds=60), Sampling("one", max_tokens=1), Sampling("two", max_tokens=2)]
    sure, one, two, found = await ask_all(ctx, [*questions, ListRoots()])
    return f"{sure} {one.text} {two.text} {found[0].uri}"


@both_revisions
async def test_a_tool_asks_the_clients_model(mode: str) -> None:
    asked = Asked()
    async with connected(capital, mode=mode, asked=asked) as client:
        result = await client.call_tool("capital", {})

    [params] = asked.requests
    assert params.messages[0].content.text == "What is the capital of France?"
    assert (params.messages[0].role, params.max_tokens, params.system_prompt) == ("user", 9, "Be brief.")
    assert text_of(result) == repr(Sampled(text="Paris.", model="small", stop_reason="endTurn"))


@both_revisions
async def test_a_tool_asks_for_the_clients_roots(mode: str) -> None:
    async with connected(places, mode=mode) as client:
        result = await client.call_tool("places", {})

    assert text_of(result) == repr([Root(uri="file:///home/ann", name="home")])


@both_revisions
async def test_several_questions_are_answered_in_their_order(mode: str) -> None:
    asked = Asked()
    async with connected(everything, mode=mode, asked=asked) as client:
        result = await client.call_tool("everything", {})

    assert text_of(result) == "yes Paris. Paris. file:///home/ann"
    assert len(asked.requests) == 4


async def test_several_questions_go_out_together_and_what_is_left_open_is_asked_again() -> None:
    async with connected(everything, mode=MODERN) as client:

        async def call(**resuming: Any) -> Any:
            return await client.session.call_tool("everything", {}, allow_input_required=True, **resuming)

        first = await call()
        mixed_up = {"sure": SAID, "sampling": YES, "roots": ROOTS}
        second = await call(input_responses=mixed_up, request_state=first.request_state)
        replayed = await call(input_responses={"sure": YES}, request_state=first.request_state)
        answers = {"sure": YES, "sampling": SAID, "sampling_2": SAID}
        done = await call(input_responses=answers, request_state=second.request_state)

    assert {key: asked.method for key, asked in first.input_requests.items()} == {
        "sure": "elicitation/create",
        "sampling": "sampling/createMessage",
        "sampling_2": "sampling/createMessage",
        "roots": "roots/list",
    }
    assert set(second.input_requests) == {"sure", "sampling", "sampling_2"}
    assert replayed.is_error
    assert text_of(done) == "yes Paris. Paris. file:///home/ann"


async def test_a_sampling_request_is_answered_by_its_own_client() -> None:
    who = [Caller(key="alice")]
    async with connected(capital, mode=MODERN, who=who) as client:

        async def call(**resuming: Any) -> Any:
            return await client.session.call_tool("capital", {}, allow_input_required=True, **resuming)

        asked = await call()
        answer = {"input_responses": {"sampling": SAID}, "request_state": asked.request_state}
        who[0] = Caller(key="mallory")
        stolen = await call(**answer)
        who[0] = Caller(key="alice")
        own = await call(**answer)

    assert stolen.is_error
    assert "Paris." in text_of(own)


@both_revisions
async def test_one_refusal_ends_the_other_questions(mode: str) -> None:
    raised: list[Exception] = []
    asked = Asked(elicitation=types.ElicitResult(action="decline"))

    @tool
    async def needy(*, ctx: ToolContext) -> str:
        """Ask for two things."""
        try:
            await ask_all(ctx, [Sampling("one", max_tokens=1), Gate("sure", timeout_seconds=60)])
        except Exception as error:
            raised.append(error)
            raise
        return "answered"

    async with connected(needy, mode=mode, asked=asked) as client:
        result = await client.call_tool("needy", {})

    assert result.is_error
    assert [type(each) for each in raised] == [PermissionError]


CASES = [("capital", ("elicitation", "list_roots"), "sampling"), ("places", ("sampling",), "roots")]


@pytest.mark.parametrize(("name", "can", "lacking"), [*CASES, ("everything", ("sampling", "elicitation"), "roots")])
async def test_an_undeclared_capability_is_an_error_and_nothing_is_sent(
    name: str, can: tuple[str, ...], lacking: str
) -> None:
    asked = Asked()
    async with connected(capital, places, everything, mode=MODERN, asked=asked, can=can) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(name, {})

    assert caught.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert caught.value.data == {"requiredCapabilities": {lacking: {}}}
    assert asked.requests == []


async def test_the_older_protocol_has_no_error_for_that_and_the_result_says_it() -> None:
    asked = Asked()
    async with connected(capital, mode=LEGACY, asked=asked, can=("elicitation",)) as client:
        result = await client.call_tool("capital", {})

    assert result.is_error
    assert "'sampling'" in text_of(result)
    assert asked.requests == []


@both_revisions
async def test_a_tool_can_look_first_or_do_without(mode: str) -> None:
    caught: list[str] = []

    @tool
    async def careful(*, ctx: ToolContext) -> str:
        """Ask the client if it can be asked."""
        try:
            await ctx.wait_for(Gate("sure", timeout_seconds=60))
        except ClientCapabilityError as error:
            caught.append(error.capability)
        return (await sample(ctx, "one", max_tokens=1)).text if can_ask(ctx, "sampling") else "nobody"

    async with connected(careful, mode=mode, can=("sampling",)) as client:
        assert text_of(await client.call_tool("careful", {})) == "Paris."
    async with connected(careful, mode=mode, can=("list_roots",)) as client:
        assert text_of(await client.call_tool("careful", {})) == "nobody"

    assert caught == ["elicitation", "elicitation"]


@pytest.mark.parametrize(("code", "expected"), [(-1, PermissionError), (-32603, UsageError)], ids=["no", "broken"])
async def test_a_client_may_refuse_to_ask_its_model(code: int, expected: type) -> None:
    raised: list[Exception] = []

    @tool
    async def needy(*, ctx: ToolContext) -> str:
        """Ask, and note what comes of it."""
        try:
            return (await sample(ctx, "one", max_tokens=1)).text
        except Exception as error:
            raised.append(error)
            raise

    asked = Asked(sampling=types.ErrorData(code=code, message="the user said no"))
    async with connected(needy, mode=LEGACY, asked=asked) as client:
        result = await client.call_tool("needy", {})

    assert result.is_error
    assert [type(each) for each in raised] == [expected]


@both_revisions
async def test_a_question_without_an_answer_times_out(mode: str) -> None:
    @tool
    async def hasty(*, ctx: ToolContext) -> str:
        """Ask, and do not wait long."""
        return (await sample(ctx, "one", max_tokens=1, timeout_seconds=0.01)).text

    class Slow(Asked):
        async def sample(self, _context: Any, params: Any) -> Any:
            await anyio.sleep(0.05 if mode == MODERN else 20)
            return SAID

    async with connected(hasty, mode=mode, asked=Slow()) as client:
        result = await client.call_tool("hasty", {})

    assert result.is_error


@both_revisions
async def test_a_sampling_request_has_no_secrets_and_only_encodable_text(mode: str) -> None:
    asked = Asked()

    @tool(capabilities=Capabilities(secrets=["KEY"]))
    async def leaky(*, ctx: ToolContext) -> str:
        """Tell a model too much."""
        key = (await ctx.secrets.get("KEY")).reveal()
        picture = Media.tool_generated(PNG, kind="image", mime_type="image/png", filename="dot.png")
        messages = [{"role": "user", "content": f"my key is {key} \ud800"}, {"role": "user", "content": picture}]
        return (await sample(ctx, messages, max_tokens=1, system_prompt=key)).text

    backends = Backends.local(".", secrets={"KEY": "hunter2-hunter2"})
    async with connected(leaky, mode=mode, asked=asked, backends=backends) as client:
        result = await client.call_tool("leaky", {})

    assert text_of(result) == "Paris."
    [params] = asked.requests
    assert "hunter2" not in params.model_dump_json()
    assert [each.content.type for each in params.messages] == ["text", "image"]


@both_revisions
async def test_a_question_the_protocol_cannot_express_fails_the_tool(mode: str) -> None:
    raised: list[Exception] = []

    @tool
    async def odd(*, ctx: ToolContext) -> str:
        """Ask for what no form can show."""
        try:
            return await ctx.wait_for(Gate("function", schema=Callable, timeout_seconds=None))
        except UsageError as error:
            raised.append(error)
            raise

    async with connected(odd, mode=mode) as client:
        result = await client.call_tool("odd", {})

    assert result.is_error
    assert len(raised) == 1


async def outcome_of(*questions: Any) -> Any:
    """What `ask_all` raises where no client is behind the call."""

    @tool(expose_errors=True)
    async def needy(*, ctx: ToolContext) -> str:
        """Ask."""
        assert not can_ask(ctx, "sampling")
        return repr(await ask_all(ctx, questions))

    [outcome] = await Executor(ToolRegistry([needy])).execute_parallel([Call("1", "needy", {})], ToolContext())
    assert isinstance(outcome.result, Err)
    return outcome.result.cause


@pytest.mark.parametrize("question", [Sampling("one", max_tokens=1), ListRoots()], ids=["model", "roots"])
async def test_a_tool_without_a_client_gets_an_error(question: Any) -> None:
    assert type(await outcome_of(question)) is GateNotSupportedError


@pytest.mark.parametrize(
    "question",
    [
        Sampling("one", max_tokens=0),
        Sampling([], max_tokens=1),
        Sampling([{"role": "system", "content": "x"}], max_tokens=1),
        Sampling([{"role": "user", "content": 7}], max_tokens=1),
        Sampling([{"role": "user", "content": "x", "tools": []}], max_tokens=1),
        Sampling("one", max_tokens=1, temperature=float("nan")),
        "what?",
    ],
    ids=["no tokens", "no messages", "role", "content", "more", "heat", "text"],
)
async def test_a_question_that_is_none_is_refused(question: Any) -> None:
    assert isinstance(await outcome_of(question), UsageError)


async def test_plain_gates_are_asked_together_in_a_turn() -> None:
    async def open_gate(gate: Gate) -> str:
        return f"{gate.reason}!"

    async def both(questions: Sequence[Any]) -> list[Any]:
        return await ask_all(ToolContext(open_gate=open_gate), questions)

    assert await both([Gate("one", timeout_seconds=60), Gate("two", timeout_seconds=60)]) == ["one!", "two!"]
    assert await both([]) == []


GATES = [Gate(reason, timeout_seconds=60) for reason in ("one", "two", "three")]


async def test_all_are_open_at_the_same_time_and_answered_in_order() -> None:
    opened: list[str] = []
    all_open = anyio.Event()

    async def open_gate(gate: Gate) -> str:
        opened.append(gate.reason)
        if len(opened) == len(GATES):
            all_open.set()
        await all_open.wait()
        return gate.reason.upper()

    with anyio.fail_after(30):
        assert await wait_all_gates(open_gate, GATES) == ["ONE", "TWO", "THREE"]


@pytest.mark.parametrize("gates", [GATES, GATES[1:2]], ids=["several", "one"])
async def test_the_first_that_fails_ends_the_others_and_is_raised_as_it_is(gates: list[Gate]) -> None:
    ended: list[str] = []

    async def open_gate(gate: Gate) -> Any:
        if gate.reason == "two":
            raise PermissionError(gate.reason)
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(gate.reason)

    with anyio.fail_after(30), pytest.raises(PermissionError):
        await wait_all_gates(open_gate, gates)

    assert set(ended) <= {"one", "three"}


async def test_waiting_for_no_gates_returns_at_once() -> None:
    async def open_gate(gate: Gate) -> Any:
        raise AssertionError(gate)

    assert await wait_all_gates(open_gate, []) == []
