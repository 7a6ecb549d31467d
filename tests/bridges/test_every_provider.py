"""What holds for every ready callback alike, with the real SDKs over real connections."""

import gc
import json
import re
import traceback
import weakref
from dataclasses import replace
from itertools import pairwise
from typing import Any

import anyio
import pytest

from spindle import (
    DispatchContext,
    Executor,
    Media,
    ToolContext,
    ToolFilter,
    ToolRegistry,
    TurnReport,
    TurnRunner,
    tool,
)
from spindle.bridges import Retries, anthropic, gemini, openai
from spindle.bridges.rendering import MediaSupport
from spindle.errors import UsageError
from tests.bridges.every_provider import BEDROCK, KEY, SCENES, Asked, Scene
from tests.bridges.outcomes import picture
from tests.bridges.wire.server import Answer, Request, WireServer, json_answer

pytestmark = [
    pytest.mark.anyio,
    # The SDKs leave generators of their own unfinished, which trio remarks on.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]

every = pytest.mark.parametrize("scene", SCENES, ids=[scene.name for scene in SCENES])
ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])

SENDS_ITS_KEY = [scene for scene in SCENES if scene is not BEDROCK]
"""Bedrock's requests are signed."""

ONCE = Retries(attempts=1)
CALLS = (Asked("c1", "add", {"a": 1, "b": 22}), Asked("c2", "now"), Asked("c3", "add", {"a": 333, "b": 4}))
WHOLE = {("add", 1, 22), ("now",), ("add", 333, 4)}

ran: list[tuple[Any, ...]] = []


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    ran.append(("add", a, b))
    return a + b


@tool
async def now() -> str:
    """Tell the time."""
    ran.append(("now",))
    return "noon"


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("broken")


@tool
async def draw() -> Media:
    """Draw a picture."""
    return picture()


@tool
async def film() -> Media:
    """Make a film that no model sees."""
    return Media.tool_generated(b"film", kind="video", mime_type="video/x-own", filename="own.film")


@tool(secret_fields=["pin"])
async def unlock(door: str, pin: str) -> str:
    """Unlock a door."""
    return f"{door} is open" if pin else "no"


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


async def turn(
    scene: Scene, *script: Answer, tools: Any = (add, now, fail, draw, film), run: Any = None, **options: Any
) -> tuple[TurnReport, list[Any]]:
    async with WireServer.playing(*script) as server, scene.asking(server.url, **options) as callback:
        with anyio.fail_after(30):
            facts: dict[str, Any] = {"system_prompt": "Be brief.", "messages": ["Go."], **(run or {})}
            report = await TurnRunner(executor_callback=callback, tools=tools).run(**facts)
        return report, [request.json for request in server.requests]


def saying(scene: Scene, stream: bool) -> Any:
    return scene.streams if stream else scene.says


@pytest.mark.slow
@every
@ways
async def test_every_call_is_answered_once_in_order_and_no_id_is_used_twice(scene: Scene, stream: bool) -> None:
    say = saying(scene, stream)
    report, requests = await turn(
        scene,
        say(Asked("c1", "add", {"a": 1, "b": 2}), Asked("c2", "fail"), Asked("c3", "draw"), Asked("c4", "film")),
        say(Asked("c5", "nobody", {"q": 1}), Asked("c6", "add", {"a": "x"})),
        say(Asked("c1", "add", {"a": 2, "b": 2}), Asked("c1", "add", {"a": 3, "b": 2}), text="Again."),
        say(Asked("", "add", {"a": 5, "b": 2}), Asked("", "add", {"a": 6, "b": 2})),
        say(text="done"),
        stream=stream,
        media=MediaSupport(unsupported="fallback-stash"),
    )

    assert (report.status, report.text) == ("ok", "done")
    ids = [record.id for record in report.tool_calls]
    assert len(set(ids)) == len(ids) == 10
    assert ids[:6] == ["c1", "c2", "c3", "c4", "c5", "c6"]
    for request in requests:
        asked, answered = scene.asked(request), scene.answered(request)
        assert [call_id for call_id, _ in asked] == [call_id for call_id, _ in answered]
    known = [call_id for call_id, _ in scene.answered(requests[-1]) if call_id is not None]
    assert len(set(known)) == len(known)
    sums = [text for _, text in scene.answered(requests[-1])][-4:]
    assert [wanted in text for wanted, text in zip("4578", sums, strict=True)] == [True] * 4


@pytest.mark.slow
@every
@ways
async def test_a_request_begins_letter_for_letter_with_the_one_before(scene: Scene, stream: bool) -> None:
    say = saying(scene, stream)
    film = Media.user_attachment(b"film", kind="video", mime_type="video/x-own", filename="f")
    messages = ["Hi.", {"role": "tool", "content": "rain"}, {"role": "user", "content": "So?", "attachments": [film]}]
    _, requests = await turn(
        scene,
        say(Asked("c1", "add", {"a": 1, "b": 2}), Asked("c2", "fail"), text="Hm."),
        say(Asked("c3", "draw"), Asked("c4", "film")),
        say(Asked("c5", "nobody")),
        say(text="done"),
        stream=stream,
        media=MediaSupport(unsupported="fallback-stash"),
        run={"messages": messages},
    )

    assert len(requests) == 4
    for before, after in pairwise(requests):
        said = before[scene.said]
        assert after[scene.said][: len(said)] == said
        assert {**before, scene.said: 0} == {**after, scene.said: 0}


@every
async def test_calls_whose_record_middleware_removes_are_answered_in_the_same_words(scene: Scene) -> None:
    async def forgetful(ctx: DispatchContext, go_on: Any) -> None:
        for record in ctx.tool_calls:
            if record.id == "c1":
                await ctx.turn.records.tool_call.delete(record.id)
        await go_on()

    script = [
        scene.streams(Asked("c1", "now"), Asked("c2", "now")),
        scene.streams(Asked("c3", "now")),
        scene.streams(text="done"),
    ]
    async with WireServer.playing(*script) as server, scene.asking(server.url) as callback:
        runner = TurnRunner(executor_callback=callback, tools=[now], dispatch_input_pipeline=[forgetful])
        with anyio.fail_after(30):
            await runner.run(messages=["Go."])
        _, second, third = (request.json for request in server.requests)

    assert [call_id for call_id, _ in scene.answered(third)] == ["c1", "c2", "c3"]
    assert scene.answered(third)[:2] == scene.answered(second)
    assert "noon" not in scene.answered(third)[0][1]


@every
async def test_a_stream_cut_after_any_event_runs_only_what_the_model_had_written(scene: Scene) -> None:
    events = scene.events(CALLS, "Let me see.")
    executor = Executor(ToolRegistry([add, now]))
    for end in range(len(events) + 1):
        stream = scene.dialect.Stream()
        for event in events[:end]:
            stream.feed(event)
        ran.clear()
        await executor.execute_parallel(stream.calls(), ToolContext("s"))
        assert set(ran) <= WHOLE
    assert set(ran) == WHOLE


async def cut_at(scene: Scene, place: int) -> None:
    whole = scene.streams(*CALLS, text="Let me see.")
    ran.clear()
    report, _ = await turn(scene, replace(whole, cut_after=place), scene.streams(text="done"), retries=ONCE)
    assert set(ran) in (set(), WHOLE)
    assert (report.status == "ok") == bool(ran)


@pytest.mark.slow
@every
async def test_a_connection_cut_at_any_place_runs_nothing_or_everything(scene: Scene) -> None:
    size = sum(len(chunk) for chunk in scene.streams(*CALLS, text="Let me see.").chunks)
    for place in range(size // 7, size + 1, size // 7):
        await cut_at(scene, place)


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@every
async def test_a_connection_cut_at_every_few_bytes_runs_nothing_or_everything(scene: Scene) -> None:
    size = sum(len(chunk) for chunk in scene.streams(*CALLS, text="Let me see.").chunks)
    for place in range(0, size + 1, size // 60):
        await cut_at(scene, place)


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.slow)])
@every
async def test_turns_side_by_side_share_a_callback_and_nothing_of_one_reaches_another(scene: Scene, count: int) -> None:
    def answer(request: Request) -> Answer:
        [who] = set(re.findall(r"I am (\d+)\.", request.body.decode()))
        trips = len(scene.answered(request.json))
        asked = Asked(f"c{trips}", "add", {"a": int(who), "b": trips})
        return scene.streams(asked) if trips < 2 else scene.streams(text=f"I was {who}.")

    texts = dict[int, str]()
    gone: list[weakref.ref[DispatchContext]] = []

    async def watched(ctx: DispatchContext, go_on: Any) -> None:
        gone.append(weakref.ref(ctx))
        await go_on()

    async with WireServer.playing(*[answer] * (3 * count)) as server, scene.asking(server.url) as callback:
        runner = TurnRunner(executor_callback=callback, tools=[add], dispatch_input_pipeline=[watched])

        async def one(who: int) -> None:
            texts[who] = (await runner.run(messages=[f"I am {who}."])).text

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for who in range(1000, 1000 + count):
                    tasks.start_soon(one, who)

        assert texts == {who: f"I was {who}." for who in range(1000, 1000 + count)}
        gc.collect()
        assert [each for each in gone if each() is not None] == []


@pytest.mark.parametrize("scene", SENDS_ITS_KEY, ids=[scene.name for scene in SENDS_ITS_KEY])
@pytest.mark.parametrize("status", [401, 500])
async def test_a_key_that_a_server_repeats_is_redacted(scene: Scene, status: int) -> None:
    words = f"{'Long before. ' * 36}Incorrect API key: {KEY}"
    refusal = json_answer({"error": {"message": words, "type": "server_error"}, "message": words}, status=status)
    reported: list[Any] = []
    async with (
        WireServer.playing(refusal, refusal) as server,
        scene.asking(server.url, retries=Retries(attempts=2, base_seconds=0)) as callback,
    ):
        runner = TurnRunner(executor_callback=callback)
        for name in ("log", "error", "warning", "turn_end", "dispatch_end"):
            runner.on(name, reported.append)
        report = await runner.run(messages=["Go."])

    assert report.error is not None
    whole = "".join(traceback.format_exception(report.error))
    assert "Long before" in whole
    for shown in (whole, repr(report), repr(callback), *map(repr, reported)):
        assert KEY[:12] not in shown


async def test_the_key_that_bedrock_may_be_sent_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    async with BEDROCK.asking("https://127.0.0.1:1") as callback:
        assert callback.provider.secrets() == [KEY]


@every
async def test_headers_of_ones_own_are_not_shown(scene: Scene) -> None:
    async with scene.asking("http://127.0.0.1:1", extra={"extra_headers": {"x-key": KEY}}) as callback:
        assert KEY not in repr(callback)


@pytest.mark.parametrize("make", [openai.chat, openai.responses, anthropic.messages, gemini.generate])
@pytest.mark.parametrize("key", ["", f"{KEY}\n", f" {KEY}", f"{KEY}é"])
async def test_a_key_that_no_header_can_carry_is_refused_unsaid(make: Any, key: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(model="m", base_url="http://127.0.0.1:1", api_key=key)

    assert caught.value.field == "api_key"
    assert KEY not in str(caught.value)


@pytest.mark.slow
@every
@ways
async def test_observers_see_each_call_whole_and_nothing_of_its_secrets(scene: Scene, stream: bool) -> None:
    say, reported = saying(scene, stream), list[Any]()
    asked = (Asked("c1", "add", {"a": 1, "b": 2}), Asked("c2", "unlock", {"door": "front", "pin": "open-sesame"}))
    async with (
        WireServer.playing(say(*asked), say(text="done")) as server,
        scene.asking(server.url, stream=stream) as callback,
    ):
        runner = TurnRunner(executor_callback=callback, tools=[add, unlock])
        for name in ("tool_call", "tool_execution_start", "log"):
            runner.on(name, reported.append)
        with anyio.fail_after(30):
            report = await runner.run(messages=["Go."])

    assert "sesame" not in repr(reported)
    assert [record.is_error for record in report.tool_calls] == [False, False]
    last = {each.id: (each.tool, each.args) for each in reported if hasattr(each, "is_complete")}
    assert last["c2"] == ("unlock", {"door": "front", "pin": "***"})
    name, args = last["c1"]
    assert (name, json.loads(args) if isinstance(args, str) else args) == ("add", {"a": 1, "b": 2})


@every
async def test_a_filter_of_the_callback_adds_to_the_one_that_middleware_set(scene: Scene) -> None:
    async def strict(ctx: DispatchContext, go_on: Any) -> None:
        ctx.filter = ToolFilter(exclude_tools=["now"])
        await go_on()

    script = [scene.streams(Asked("c1", "now"), Asked("c2", "add", {"a": 1, "b": 2})), scene.streams(text="done")]
    wanted = ToolFilter(allowed_tools=["now", "add"])
    async with WireServer.playing(*script) as server, scene.asking(server.url, filter=wanted) as callback:
        runner = TurnRunner(executor_callback=callback, tools=[add, now, fail], dispatch_input_pipeline=[strict])
        with anyio.fail_after(30):
            report = await runner.run(messages=["Go."])
        reported = server.requests[0].body.decode()

    assert ran == [("add", 1, 2)]
    assert [record.is_error for record in report.tool_calls] == [True, False]
    assert "Tell the time" not in reported
    assert "Add two numbers" in reported


@pytest.mark.slow
@every
@ways
async def test_names_go_both_ways(scene: Scene, stream: bool) -> None:
    @tool(name="shop.orders/all")
    async def orders() -> str:
        """List the orders."""
        return "three"

    say = saying(scene, stream)
    definitions = scene.dialect.definitions([orders])
    on_the_wire = definitions.names.to_wire("shop.orders/all")
    script = [say(Asked("c1", on_the_wire)), say(text="done")]
    report, requests = await turn(scene, *script, tools=[orders], stream=stream)

    assert on_the_wire != "shop.orders/all"
    assert [(record.tool, record.is_error) for record in report.tool_calls] == [("shop.orders/all", False)]
    assert scene.asked(requests[1]) == [("c1", on_the_wire)]
    assert "three" in scene.answered(requests[1])[0][1]


@pytest.mark.slow
@every
@ways
async def test_without_tools_no_definitions_are_sent_and_calls_are_refused(scene: Scene, stream: bool) -> None:
    say = saying(scene, stream)
    report, requests = await turn(scene, say(Asked("c1", "rm")), say(text="done"), tools=[], stream=stream)

    assert (report.status, [record.is_error for record in report.tool_calls]) == ("ok", [True])
    assert "tools" not in requests[0]
    assert "toolConfig" not in requests[0]
    assert "tool_choice" not in requests[0]


@every
async def test_usage_adds_up_under_the_same_names(scene: Scene) -> None:
    report, _ = await turn(scene, scene.streams(Asked("c1", "now")), scene.streams(text="done"))

    if scene.name != "openai_chat":  # its figures come in a chunk of their own
        figures = {name: report.usage[name] for name in ("input_tokens", "output_tokens", "total_tokens")}
        assert all(count > 0 for count in figures.values())
        assert figures["total_tokens"] == figures["input_tokens"] + figures["output_tokens"]


@pytest.mark.parametrize("make", [openai.chat, openai.responses, anthropic.messages, gemini.generate])
async def test_a_client_of_ones_own_making_is_closed_with_the_callback(make: Any) -> None:
    async with WireServer.playing() as server, make(model="m", base_url=server.url, retries=ONCE) as callback:
        await TurnRunner(executor_callback=callback).run(messages=["Go."])
        client = callback.provider.client.get()
        assert callback.provider.client.get() is client

    assert callback.provider.client.get() is not client
    await callback.aclose()


BODIES = {
    "html": Answer(headers={"content-type": "text/html"}, chunks=(b"<html><h1>Out of coffee</h1></html>",)),
    "object": json_answer({"error": {"message": "Out of coffee", "type": "server_error", "code": 500}}),
    "text": json_answer({"error": "Out of coffee"}),
    "detail": json_answer({"detail": "Out of coffee"}),
    "plain": Answer(headers={"content-type": "text/plain"}, chunks=(b"Out of coffee",)),
}


@pytest.mark.slow
@every
@ways
@pytest.mark.parametrize("body", BODIES)
async def test_the_words_of_a_200_that_is_not_an_answer_are_kept(scene: Scene, stream: bool, body: str) -> None:
    report, requests = await turn(scene, *[BODIES[body]] * 3, stream=stream)

    assert (report.status, len(requests)) == ("error", 3)
    assert "Out of coffee" in str(report.error)


@pytest.mark.slow
@every
@ways
@pytest.mark.parametrize("body", ["html", "object"])
async def test_one_attempt_is_enough_for_the_words_of_a_page_or_an_error(scene: Scene, stream: bool, body: str) -> None:
    report, requests = await turn(scene, BODIES[body], stream=stream, retries=ONCE)

    assert (report.status, len(requests)) == ("error", 1)
    assert "Out of coffee" in str(report.error)


@every
async def test_a_stream_without_an_event_is_asked_for_as_a_whole(scene: Scene) -> None:
    nothing = replace(scene.streams(text="x"), chunks=())
    report, requests = await turn(scene, nothing, scene.says(Asked("c1", "now")), scene.streams(text="noon"))

    assert (report.status, report.text, len(requests)) == ("ok", "noon", 3)
    assert not requests[1].get("stream")
    assert "stream_options" not in requests[1]
