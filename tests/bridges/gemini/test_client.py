"""Whole turns with Google's real SDK against a server that speaks the wire format."""

import json
import sys
from typing import Any, cast

import pytest
from google.genai import types

from spindle import Media, TurnRunner, tool
from spindle.bridges import Retries
from spindle.bridges.gemini import generate
from spindle.errors import MissingExtraError
from tests.bridges.generating_scene import DONE, parts, playing, turn
from tests.bridges.outcomes import PNG
from tests.bridges.wire.generating import call, chunk, streamed
from tests.bridges.wire.server import WireServer, json_answer

pytestmark = pytest.mark.anyio


@tool(name="1. shop list")
async def list_items() -> str:
    """List what there is."""
    return "apples"


@tool
async def draw() -> Media:
    """Draw a chart."""
    return Media.tool_generated(PNG, kind="image", mime_type="image/png", filename="chart.png")


@tool
async def dump() -> str:
    """Write a lot."""
    return "\n".join(f"row {number}" for number in range(50_000))


async def test_parallel_calls_over_several_trips_with_text_between() -> None:
    report, requests = await turn(
        streamed(
            chunk({"text": "Let me "}),
            chunk({"text": "see."}),
            chunk(call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4}), reason="STOP"),
        ),
        streamed(chunk(call("add", {"a": 3, "b": 7}, "f3"), reason="STOP")),
        streamed(chunk({"text": "It is "}), chunk({"text": "10."}, reason="STOP")),
    )

    assert (report.status, report.text, report.iterations) == ("ok", "It is 10.", 3)
    assert [record.results for record in report.tool_calls] == ["3", "7", "10"]
    assert report.usage == {"input_tokens": 30, "output_tokens": 21, "reasoning_tokens": 6, "total_tokens": 51}
    answers = parts(requests[2], "functionResponse")
    assert [each.get("id") for each in answers] == [None, None, "f3"]
    assert ["\n3\n" in answers[0]["response"]["result"], "\n7\n" in answers[1]["response"]["result"]] == [True, True]
    assert requests[0]["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert parts(requests[2], "text")[1] == "Let me see."
    assert requests[0]["tools"] == requests[2]["tools"]


async def test_signatures_and_thoughts_go_back_on_their_parts() -> None:
    signed = call("add", {"a": 1, "b": 2}, signature="AbCdEf12")

    _, requests = await turn(
        streamed(
            chunk({"text": "So: 1+2", "thought": True}), chunk(signed, call("add", {"a": 3, "b": 4}), reason="STOP")
        ),
        DONE,
    )

    assert requests[1]["contents"][1]["parts"] == [
        {"text": "So: 1+2", "thought": True},
        {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": "AbCdEf12"},
        {"functionCall": {"name": "add", "args": {"a": 3, "b": 4}}},
    ]


async def test_a_name_the_api_refuses_is_mapped_both_ways() -> None:
    report, requests = await turn(
        streamed(chunk(call("_1._shop_list_43945e90"), reason="STOP")),
        DONE,
        tools=[list_items],
        tool_choice="1. shop list",
    )

    assert [each["name"] for each in requests[0]["tools"][0]["functionDeclarations"]] == ["_1._shop_list_43945e90"]
    assert [record.tool for record in report.tool_calls] == ["1. shop list"]
    assert parts(requests[1], "functionResponse")[0]["name"] == "_1._shop_list_43945e90"
    assert requests[0]["toolConfig"]["functionCallingConfig"] == {
        "mode": "ANY",
        "allowedFunctionNames": ["_1._shop_list_43945e90"],
    }
    assert requests[1]["toolConfig"]["functionCallingConfig"] == {"mode": "AUTO"}


@pytest.mark.parametrize("is_inside", [True, False])
async def test_media_is_shown_to_the_model(is_inside: bool) -> None:
    _, requests = await turn(
        streamed(chunk(call("draw"), reason="STOP")), DONE, tools=[draw], media_in_results=is_inside
    )

    # The SDK writes some fields by their other names, which the API takes too.
    shown = types.Content.model_validate(requests[1]["contents"][-1]).parts or []
    answer, *rest = shown
    inside = answer.function_response.parts if answer.function_response else None
    assert [part.inline_data.data for part in inside or () if part.inline_data] == ([PNG] if is_inside else [])
    assert [part.inline_data.data for part in rest if part.inline_data] == ([] if is_inside else [PNG])


async def test_a_big_result_is_read_on_with_a_forged_reader() -> None:
    report, requests = await turn(
        streamed(chunk(call("dump", id="f1"), reason="STOP")),
        streamed(chunk(call("artifact_cat", {"call_id": "f1", "start": 40_000, "end": 40_001}, "f2"), reason="STOP")),
        DONE,
        tools=[dump],
    )

    reported = [each["name"] for each in requests[1]["tools"][0]["functionDeclarations"]]
    assert "artifact_cat" in reported
    assert not report.tool_calls[1].is_error
    assert "row 40000" in parts(requests[2], "functionResponse")[1]["response"]["result"]
    assert len(json.dumps(requests[1])) < 150_000


async def test_arguments_that_do_not_fit_are_refused_and_corrected() -> None:
    report, requests = await turn(
        streamed(chunk(call("add", {"a": 1}), reason="STOP")),
        streamed(chunk(call("add", {"a": 1, "b": 2}), reason="STOP")),
        DONE,
    )

    assert [record.is_error for record in report.tool_calls] == [True, False]
    assert "error" in parts(requests[1], "functionResponse")[0]["response"]


async def test_a_call_cut_before_its_arguments_does_not_run() -> None:
    ran: list[str] = []

    @tool
    async def wipe() -> str:
        """Remove everything."""
        ran.append("wipe")
        return ""

    report, _ = await turn(streamed(chunk(call("wipe"), reason="MAX_TOKENS")), DONE, tools=[wipe])

    assert ran == []
    assert [record.is_error for record in report.tool_calls] == [True]


async def test_without_tools_nothing_is_said_of_tools() -> None:
    report, requests = await turn(DONE, tools=[], tool_choice="required")

    assert report.text == "done"
    assert {"tools", "toolConfig"}.isdisjoint(requests[0])


async def test_an_answer_may_come_as_a_whole() -> None:
    report, _ = await turn(
        json_answer(chunk(call("add", {"a": 1, "b": 2}), reason="STOP")),
        json_answer(chunk({"text": "3"}, reason="STOP")),
        stream=False,
    )

    assert (report.text, report.usage["total_tokens"]) == ("3", 34)


async def test_extra_parameters_are_sent_and_googles_tools_are_listed_beside_ours() -> None:
    _, requests = await turn(DONE, extra={"temperature": 0.5, "tools": [{"googleSearch": {}}]})

    assert requests[0]["generationConfig"]["temperature"] == 0.5
    assert {next(iter(each)) for each in requests[0]["tools"]} == {"functionDeclarations", "googleSearch"}


async def test_settings_are_taken_by_either_of_their_names_and_win() -> None:
    options = {"headers": {"x-mine": "1"}, "retry_options": {"attempts": 5}}
    busy = json_answer({"error": {"code": 503, "message": "no"}}, status=503)

    async with playing(busy, DONE) as (server, client):
        extra = {"system_instruction": "Be long.", "http_options": options}
        callback = generate(model="m", client=client, extra=extra, retries=Retries(attempts=1))
        report = await TurnRunner(executor_callback=callback).run(system_prompt="Be brief.", messages=["x"])

    assert report.status == "error"
    assert len(server.requests) == 1
    assert server.requests[0].headers["x-mine"] == "1"
    assert server.requests[0].json["systemInstruction"]["parts"] == [{"text": "Be long."}]


@pytest.mark.parametrize(
    ("wish", "sent"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("add", {"mode": "ANY", "allowedFunctionNames": ["add"]}),
        ({"functionCallingConfig": {"mode": "VALIDATED"}}, {"mode": "VALIDATED"}),
    ],
    ids=["auto", "none", "required", "name", "own"],
)
async def test_a_choice_of_tools_is_sent(wish: Any, sent: Any) -> None:
    _, requests = await turn(DONE, tool_choice=wish)

    assert requests[0]["toolConfig"]["functionCallingConfig"] == sent


async def test_our_own_client_is_made_for_the_address() -> None:
    async with WireServer.playing(DONE) as server:
        callback = generate(model="m", base_url=server.url, api_key="k")
        report = await TurnRunner(executor_callback=callback).run(messages=["x"])
        client: Any = cast("Any", callback.provider).client.get()
        await client.aio.aclose()
        client.close()

    assert report.text == "done"
    assert server.requests[0].headers["x-goog-api-key"] == "k"


def test_without_the_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.genai", None)

    with pytest.raises(MissingExtraError):
        generate(model="m")
