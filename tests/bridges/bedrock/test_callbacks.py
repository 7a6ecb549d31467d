"""Bedrock's dialect: what boto3's own model of the service says of it."""

import base64
import json
import subprocess
import sys
from typing import Any, cast

import pytest
from botocore import session as sessions
from botocore.validate import ParamValidator

from spindle import Artifact, Call, CallOutcome, Err, Media, Ok, tool
from spindle.bridges import bedrock
from spindle.bridges.bedrock.conversation import ConverseWriter, wire_id
from spindle.bridges.rendering import MediaSupport, RenderedResult, TextPart
from spindle.bridges.transcript import MessageStep, ToolStep
from spindle.errors import InvalidToolArgsError, UnsupportedMediaError
from tests.bridges.golden.comparing import agrees

pytestmark = pytest.mark.anyio

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=")


@tool
def find(city: str, days: int = 3) -> str:
    """Find the weather."""
    return f"{city} {days}"


@tool(name="quiet.tool")
def quiet() -> str:
    """Say nothing."""
    return ""


def image(id: str = "m1") -> Media:
    return Media.tool_generated(PNG, kind="image", mime_type="image/png", filename="dot.png", id=id)


def document(filename: str = "a/b: Plan_7.txt") -> Media:
    return Media.tool_generated(b"A plan.", kind="document", mime_type="text/plain", filename=filename, id="doc-1")


def check(request: dict[str, Any]) -> None:
    """Hold a request against the model of the service that boto3 itself validates with."""
    service: Any = cast("Any", sessions).get_session().get_service_model("bedrock-runtime")
    shape = service.operation_model("ConverseStream").input_shape
    report = cast("Any", ParamValidator()).validate({"modelId": "m", **request}, shape)
    assert not report.has_errors(), report.generate_report()


def test_tools_are_defined_in_the_format_of_the_service() -> None:
    reported = bedrock.definitions([find, quiet])

    check({"messages": [], "toolConfig": {"tools": reported.tools}})
    assert [each["toolSpec"]["name"] for each in reported.tools] == ["find", "quiet_tool_63832815"]
    assert reported.names.to_own("quiet_tool_63832815") == "quiet.tool"


def test_the_strict_form_is_one_the_service_takes() -> None:
    reported = bedrock.definitions([find], strict=True)

    check({"messages": [], "toolConfig": {"tools": reported.tools}})
    assert reported.tools[0]["toolSpec"]["strict"] is True


def test_no_sdk_is_loaded_before_a_model_is_asked() -> None:
    code = (
        "import sys, spindle.bridges.bedrock, spindle.bridges.mcp; print({'boto3', 'botocore', 'mcp'} & {*sys.modules})"
    )

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=30)

    assert done.stdout == "set()\n"


def response(*content: Any, stop: str = "tool_use") -> dict[str, Any]:
    return {"output": {"message": {"role": "assistant", "content": list(content)}}, "stopReason": stop}


def use(id: Any = "t1", name: Any = "find", input: Any = None, **more: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": name, "input": {"city": "Ulm"} if input is None else input, **more}}


def test_calls_of_a_whole_response_are_read_in_order() -> None:
    asked = bedrock.calls(response({"text": "Let me see."}, use(), use("t2", "quiet_tool_63832815", {})))

    assert [(call.tool_call_id, call.name, json.loads(cast("str", call.args))) for call in asked] == [
        ("t1", "find", {"city": "Ulm"}),
        ("t2", "quiet_tool_63832815", {}),
    ]


def test_names_come_back_as_the_tools_own() -> None:
    reported = bedrock.definitions([quiet])

    assert bedrock.calls(response(use(name="quiet_tool_63832815", input={})), reported)[0].name == "quiet.tool"


def test_missing_and_repeated_ids_are_made() -> None:
    asked = bedrock.calls(response(use(None), use(""), use("t1"), use("t1")))

    assert len({call.tool_call_id for call in asked}) == 4
    assert "t1" in {call.tool_call_id for call in asked}


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded", "malformed_tool_use", "new_reason"])
async def test_a_last_call_that_was_cut_short_is_refused(stop: str) -> None:
    [first, last] = bedrock.calls(response(use(), use("t2"), stop=stop))

    with pytest.raises(InvalidToolArgsError):
        await find.validate(last.args)
    if stop in {"max_tokens", "model_context_window_exceeded"}:
        assert await find.validate(first.args)


async def test_after_a_filter_no_call_is_run() -> None:
    for call in bedrock.calls(response(use(), use("t2"), stop="guardrail_intervened")):
        with pytest.raises(InvalidToolArgsError):
            await find.validate(call.args)


def test_calls_for_the_providers_own_tools_are_not_ours() -> None:
    assert bedrock.calls(response(use(type="server_tool_use"))) == []


@pytest.mark.parametrize(
    "junk",
    [
        None,
        {},
        [],
        "x",
        7,
        {"output": None},
        {"output": {"message": {"content": "x"}}},
        response(None, 7, {}, {"toolUse": 3}),
    ],
    ids=["none", "empty", "list", "text", "number", "no output", "text content", "odd blocks"],
)
async def test_junk_gives_no_call_that_could_run(junk: Any) -> None:
    for call in bedrock.calls(junk):
        assert call.name == "(no name)"


async def outcomes() -> list[CallOutcome]:
    big = Artifact.from_text("line\n" * 100)
    return [
        CallOutcome("t1", "find", "c1", Ok('{"sun":true}', structured={"sun": True})),
        CallOutcome("t2", "find", "c2", Err("input_invalid", "city: expected text", field="city")),
        CallOutcome("t3", "clock", "c3", Ok("noon", trusted=True)),
        CallOutcome("t4", "draw", "c4", Ok("a dot", media=(image(), document()))),
        CallOutcome("t5", "log", "c5", Ok("", artifact=big)),
    ]


async def test_results_answer_each_call_in_order_and_as_the_service_takes_them() -> None:
    blocks = await bedrock.results(await outcomes())

    check({"messages": [{"role": "user", "content": blocks}]})
    assert [block["toolResult"]["toolUseId"] for block in blocks] == ["t1", "t2", "t3", "t4", "t5"]
    assert [block["toolResult"].get("status") for block in blocks] == [None, "error", None, None, None]
    assert json.dumps(blocks[0]["toolResult"]["content"]).count("sun") == 1
    agrees("results/bedrock_outcomes.json", blocks)


async def test_a_document_has_a_name_the_service_takes() -> None:
    [block] = await bedrock.results([CallOutcome("t", "x", "c", Ok(media=(document('ä"<>_  (1).txt'),)))])

    found = block["toolResult"]["content"][-1]["document"]
    assert found["name"] == "(1) txt doc-1"
    assert found["source"] == {"bytes": b"A plan."}


async def test_media_that_converse_cannot_carry_is_refused_or_described() -> None:
    sound = Media.tool_generated(b"RIFF", kind="audio", mime_type="audio/wav", filename="a.wav")
    outcome = CallOutcome("t", "x", "c", Ok(media=(sound,)))

    with pytest.raises(UnsupportedMediaError):
        await bedrock.results([outcome], media=MediaSupport(mime_types=frozenset({"audio/wav"})))
    [block] = await bedrock.results([outcome], media=MediaSupport(unsupported="synthetic-description"))

    assert [set(each) for each in block["toolResult"]["content"]] == [{"text"}, {"text"}]


@pytest.mark.parametrize("id", ["t1", "tooluse_x-Y.z:9", "a b/c", "ü" * 80, "x" * 200, ""])
def test_every_id_can_be_sent(id: str) -> None:
    check(
        {"messages": [{"role": "user", "content": [{"toolResult": {"toolUseId": wire_id(id or "e"), "content": []}}]}]}
    )
    assert len(wire_id(id or "e")) <= 64
    assert wire_id("tooluse_x-Y.z:9") == "tooluse_x-Y.z:9"


def answer(id: str) -> RenderedResult:
    return RenderedResult(tool_call_id=id, name="find", is_error=False, parts=(TextPart("Rain."),))


def said(role: Any, text: str) -> MessageStep:
    return MessageStep(role, (TextPart(text),))


def test_a_conversation_goes_by_turns_and_begins_with_the_user() -> None:
    reported = bedrock.definitions([find])
    calls = (Call("t 1", "find", '{"city": "Ulm"'), Call("t2", "find", b'{"city": NaN}'), Call("t3", "find", None))
    steps = [
        said("assistant", "Hello."),
        said("system", "Be brief."),
        said("user", "Weather?"),
        said("user", "  "),
        said("user", "In Ulm."),
        ToolStep("Let me see.", calls, (answer("t 1"), answer("t2"), answer("t3"))),
        said("user", "And?"),
    ]

    writer = ConverseWriter()
    messages = writer.write(steps, reported)

    check({"messages": messages})
    assert writer.collect_system_texts("") == ["Be brief."]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[2]["content"] == [{"text": "Weather?"}, {"text": "In Ulm."}]
    asked = [block["toolUse"] for block in messages[3]["content"][1:]]
    assert [each["input"] for each in asked] == [
        {"unreadable_arguments": '{"city": "Ulm"'},
        {"unreadable_arguments": '{"city": NaN}'},
        {},
    ]
    answered = [block["toolResult"]["toolUseId"] for block in messages[4]["content"][:-1]]
    assert answered == [each["toolUseId"] for each in asked] == ["t_1", "t2", "t3"]
    assert messages[4]["content"][-1] == {"text": "And?"}


def test_an_empty_conversation_can_still_be_sent() -> None:
    messages = ConverseWriter().write([], bedrock.definitions([]))

    check({"messages": messages})
    assert [message["role"] for message in messages] == ["user"]
