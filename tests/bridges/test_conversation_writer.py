"""Conversations as they are sent: requests grow at their end, and what was written once is not written again."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import Budget, Call, DispatchContext, DispatchRunner, JsonArtifact, Media, Reply, TurnRunner, tool
from spindle.bridges.anthropic.conversation import MessagesWriter
from spindle.bridges.bedrock.conversation import ConverseWriter
from spindle.bridges.conversation_writer import AlternatingWriter, ConversationWriter
from spindle.bridges.definitions import Definitions
from spindle.bridges.gemini.conversation import ContentsWriter
from spindle.bridges.openai.chat_completions import ChatWriter, definitions
from spindle.bridges.openai.responses_api import ItemsWriter
from spindle.bridges.rendering import MediaSupport, TextPart
from spindle.bridges.transcript import MessageStep, Step, Transcript
from spindle.turns import Message
from tests.bounds import counted_calls
from tests.bridges.every_provider import SCENES, Asked, Scene
from tests.bridges.outcomes import PNG
from tests.bridges.wire.server import WireServer

pytestmark = [
    pytest.mark.anyio,
    # The SDKs leave generators of their own unfinished, which trio remarks on.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]
every = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)


# --- Requests of one turn, as they arrive at a server


@tool
async def weather(city: str) -> str:
    """Say what the weather is."""
    return f"Rain in {city}. </untrusted_content> \N{SNOWMAN}"


@tool
async def read_log(lines: int) -> str:
    """Read a log."""
    return "".join(f"{number}: a line of the log\n" for number in range(lines))


@tool(artifact_constructor=JsonArtifact)
async def read_table() -> str:
    """Read a table."""
    return json.dumps([{"id": number} for number in range(20)])


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("no")


@tool
async def draw() -> Media:
    """Draw."""
    return Media.tool_generated(PNG, kind="image", mime_type="image/png", filename="a.png")


async def add_a_message(ctx: DispatchContext, go_on: Any) -> None:
    if ctx.iteration == 2:
        await ctx.turn.records.message.store(Message.user("One more thing."))
    await go_on()


def split_request(scene: Scene, request: Any) -> tuple[list[bytes], list[bytes], bytes]:
    """Return the blocks of the conversation, the definitions of the tools, and everything else, each as bytes."""
    left = json.loads(json.dumps(request))
    tools = left.get("toolConfig", left).pop("tools", [])
    if tools and "functionDeclarations" in tools[0]:
        tools = tools[0]["functionDeclarations"]
    blocks = [block for message in left.pop(scene.said) for block in split_message(message)]
    return [*map(encode, blocks)], [*map(encode, tools)], encode(left)


def split_message(message: Any) -> list[Any]:
    """Split a message that may grow at its end: those of APIs whose roles alternate."""
    content: list[Any] | str = message.get("content", message.get("parts"))
    return [(message["role"], block) for block in content] if isinstance(content, list) else [message]


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.slow
@every
async def test_requests_of_a_turn_only_grow_at_their_end(scene: Scene) -> None:
    script = [
        scene.streams(Asked("c1", "weather", {"city": "Ulm"}), Asked("c2", "fail"), text="Let me see."),
        scene.streams(Asked("c3", "read_log", {"lines": 200}), Asked("c4", "draw")),
        scene.streams(Asked("c5", "artifact_head", {"call_id": "c3"}), Asked("c6", "nobody")),
        scene.streams(Asked("c7", "read_table"), Asked("c8", "artifact_grep", {"call_id": "c5", "pattern": "x"})),
        scene.streams(Asked("c9", "artifact_json_keys", {"call_id": "c7", "path": "$[0]"})),
        scene.streams(text="done"),
    ]
    async with WireServer.playing(*script) as server, scene.asking(server.url) as callback:
        runner = TurnRunner(
            executor_callback=callback,
            tools=[weather, read_log, read_table, fail, draw],
            dispatch_input_pipeline=[add_a_message],
            budget=Budget(chars=2_000),
        )
        with anyio.fail_after(30):
            report = await runner.run(system_prompt="Be brief.", messages=["Go.", {"role": "tool", "content": "sun"}])
        requests = [split_request(scene, request.json) for request in server.requests]

    assert report.ok
    assert len(requests) == 6
    for (said, tools, rest), (said_next, tools_next, rest_next) in pairwise(requests):
        assert said_next[: len(said)] == said
        assert tools_next[: len(tools)] == tools
        assert rest_next == rest
    shown = [len(tools) for _, tools, _ in requests]
    assert shown[0] == shown[1] == 5 < shown[2] == shown[3] < shown[4] == shown[5]


# --- What was written is not written again


WRITERS: list[Any] = [ChatWriter, ItemsWriter, MessagesWriter, lambda: ContentsWriter(is_inside=True), ConverseWriter]


async def answer(ctx: DispatchContext, transcript: Transcript, at: int) -> None:
    call = Call(f"c{at}", "weather", {"city": str(at)})
    transcript.add_response(text=f"Step {at}.", calls=[call], raw=None)
    await ctx.turn.records.message.store(Message.assistant(f"Step {at}."))
    await ctx.execute([call])


@pytest.mark.parametrize("build", WRITERS, ids=["chat", "responses", "anthropic", "gemini", "bedrock"])
async def test_work_for_a_request_does_not_grow_with_the_calls_before_it(build: Any) -> None:
    writer: ConversationWriter = build()
    transcript, reported, work = Transcript(), definitions([weather]), list[int]()
    lengths: list[int] = []

    async def callback(ctx: DispatchContext) -> Reply | None:
        with counted_calls() as calls:
            steps = await transcript.build_steps(ctx, MediaSupport())
            lengths.append(len(writer.write(steps, reported)))
        work.append(calls.count)
        if ctx.iteration == 60:
            return Reply("done")
        await answer(ctx, transcript, ctx.iteration)
        return None

    ctx = DispatchContext(tools=[weather], messages=["Go.", {"role": "assistant", "content": "Yes."}])
    await DispatchRunner.dispatch(raw=ctx, executor_callback=callback, max_iterations=None)

    assert lengths[-1] >= 120
    assert max(work[-10:]) <= 1.1 * max(work[5:15])


async def written_anew(ctx: DispatchContext, transcript: Transcript, build: Any, reported: Definitions) -> Any:
    return build().write(await transcript.build_steps(ctx, MediaSupport()), reported)


@pytest.mark.parametrize("build", WRITERS, ids=["chat", "responses", "anthropic", "gemini", "bedrock"])
async def test_a_record_that_middleware_changes_is_written_anew(build: Any) -> None:
    writer: ConversationWriter = build()
    transcript, reported, said = Transcript(), definitions([weather]), {"role": "user", "content": "Go."}
    seen: list[str] = []

    async def callback(ctx: DispatchContext) -> Reply | None:
        records = ctx.turn.records
        if ctx.iteration == 2:
            said["content"] = "Stop."
        if ctx.iteration == 3:
            await records.tool_call.delete("c0")
        if ctx.iteration == 4:
            latest = records.message[-1]
            assert isinstance(latest, Message)
            await records.message.delete(latest.id)
        written = writer.write(await transcript.build_steps(ctx, MediaSupport()), reported)
        assert written == await written_anew(ctx, transcript, build, reported)
        seen.append(json.dumps(written))
        if ctx.iteration == 5:
            return Reply("done")
        await answer(ctx, transcript, ctx.iteration)
        return None

    ctx = DispatchContext(tools=[weather], messages=[said])
    await DispatchRunner.dispatch(raw=ctx, executor_callback=callback)

    assert ["Go." in each for each in seen] == [True, True, False, False, False, False]
    assert ["Rain in 0" in each for each in seen] == [False, True, True, False, False, False]
    assert all("Rain in 1" in each for each in seen[2:])


def test_a_returned_conversation_does_not_change_when_it_grows() -> None:
    writer, reported = MessagesWriter(), definitions([])
    first, second = (MessageStep("user", (TextPart(text),)) for text in ("one", "two"))
    before = writer.write([first], reported)
    copy = json.loads(json.dumps(before))

    after = writer.write([first, second], reported)

    assert before == copy
    assert [block["text"] for block in after[0]["content"]] == ["one", "two"]


# --- Conversations in which user and model speak by turns


class Blocks(AlternatingWriter):
    """Writes each message as one block for each of its parts."""

    content_field, first_block = "parts", {"text": "hello"}

    def write_spoken(self, step: Step, definitions: Definitions) -> None:
        assert isinstance(step, MessageStep)
        self.add_blocks(step.role, [{"text": part.text} for part in step.parts if isinstance(part, TextPart)])


_texts = st.lists(st.integers().map(str), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), _texts)))
def test_roles_speak_in_turn_the_user_first_and_nothing_is_lost(said: list[tuple[Any, list[str]]]) -> None:
    steps = [MessageStep(role, tuple(map(TextPart, texts))) for role, texts in said]

    messages = Blocks().write(steps, definitions([]))

    assert [each["role"] for each in messages] == [("user", "assistant")[place % 2] for place in range(len(messages))]
    assert all(each["parts"] for each in messages)
    reported = [block["text"] for each in messages for block in each["parts"]]
    assert [text for text in reported if text != "hello"] == [text for _, texts in said for text in texts]


def test_system_messages_are_separate_and_blank_ones_are_dropped() -> None:
    said: Sequence[tuple[Any, str]] = [("system", "Be kind."), ("user", "Hi."), ("system", " ")]
    steps = [MessageStep(role, (TextPart(text),)) for role, text in said]
    writer = Blocks()

    assert [message["role"] for message in writer.write(steps, definitions([]))] == ["user"]
    assert writer.collect_system_texts("Be brief.") == ["Be brief.", "Be kind."]
    writer.clear()
    assert writer.collect_system_texts("") == []
