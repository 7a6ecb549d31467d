"""MCP's dialect: what the SDK's types and both published schemas say of it."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import mcp.types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import (
    Artifact,
    Call,
    CallOutcome,
    Capabilities,
    Err,
    Executor,
    Media,
    Ok,
    Tool,
    ToolContext,
    ToolFilter,
    ToolRegistry,
    tool,
)
from spindle.bridges import mcp as dialect
from spindle.bridges.rendering import MediaSupport
from spindle.errors import UnsupportedMediaError
from tests.bridges.golden.comparing import agrees

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=")
FORECAST = {"type": "object", "properties": {"rain": {"type": "boolean"}}, "required": ["rain"]}

Fits = Callable[[str, Any], None]


@pytest.fixture(scope="module")
def fits(shared_data: Path) -> Fits:
    """Hold data against a type of the protocol: the SDK's, and that of both published schemas."""
    schemas = [
        json.loads((shared_data / "mcp" / "schema" / revision / "schema.json").read_text(encoding="utf-8"))
        for revision in ("2025-11-25", "2026-07-28")
    ]

    def check(kind: str, data: Any) -> None:
        for schema in schemas:
            jsonschema_rs.validator_for({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]}).validate(data)
        model = getattr(mcp.types, kind)
        written = model.model_validate(data).model_dump(by_alias=True, mode="json", exclude_unset=True)
        assert written == data

    return check


@tool(read_only=True, trusted=True, meta={"mcp": {"output_schema": FORECAST}})
def forecast(city: str, days: int = 1) -> dict[str, bool]:
    """Tell the weather of tomorrow."""
    return {"rain": city == "Ulm"}


@tool(idempotent=True, meta={"mcp": {"title": "Write it down", "meta": {"shop.example/kind": "note"}}, "own": "secret"})
def note(text: str) -> str:
    """Write something down."""
    return text


@tool(capabilities=Capabilities(network=["news.example"]), meta={"mcp": {"output_schema": FORECAST}})
def news() -> dict[str, bool]:
    """Tell the news."""
    return {"rain": True}


def an_image() -> Media:
    return Media.tool_generated(PNG, kind="image", mime_type="image/png", filename="dot.png", id="m1")


def of(result: Ok | Err, name: str = "forecast") -> CallOutcome:
    return CallOutcome("c1", name, "sum", result)


def test_tools_are_listed_as_the_protocol_has_them(fits: Fits) -> None:
    tools = dialect.definitions([forecast, note, news]).tools

    for each in tools:
        fits("Tool", each)
    agrees("definitions/mcp_flags.json", tools)


def test_a_tools_own_meta_does_not_leak() -> None:
    assert b"secret" not in dialect.definitions([note]).json


def test_only_the_newer_protocol_has_schemas_of_other_values_than_objects() -> None:
    listed = Tool(
        name="listed",
        description="Lists.",
        input_schema={"type": "object"},
        handler=lambda *_: [],
        meta={"mcp": {"output_schema": {"type": "array"}}},
    )

    [definition] = dialect.definitions([listed]).tools

    assert definition["outputSchema"] == {"type": "array"}
    assert "outputSchema" not in dialect.narrow_definition(definition)


def test_the_results_of_all_tools_are_promised_unless_that_is_turned_off() -> None:
    def promised(structured: bool) -> list[str]:
        tools = dialect.definitions([forecast, news], structured=structured).tools
        return [each["name"] for each in tools if "outputSchema" in each]

    assert (promised(True), promised(False)) == (["forecast", "news"], [])


def upstream(*, read_only: bool = False, **about: Any) -> dict[str, Any]:
    """Return the definition of a tool of an upstream server."""
    known = {"server": "s", "tool": "t", **about}
    made = Tool(
        name="mcp__s__t",
        description="Does it.",
        input_schema={"type": "object"},
        handler=lambda *_: "",
        meta={"mcp": known},
        read_only=read_only,
    )
    return dialect.definitions([made]).tools[0]


def test_a_claim_to_be_read_only_is_passed_on_as_the_servers_own() -> None:
    hints = {"title": "T", "readOnlyHint": True, "openWorldHint": False}

    definition = upstream(annotations=hints)

    assert definition["annotations"] == {"destructiveHint": False, "title": "T", "openWorldHint": False}
    assert definition["_meta"] == {dialect.UPSTREAM_HINTS: hints}


@pytest.mark.parametrize(
    "hints",
    [{"destructiveHint": True}, {"readOnlyHint": False, "idempotentHint": True}, {"destructiveHint": False}],
)
def test_other_hints_of_a_server_are_passed_on(hints: dict[str, bool]) -> None:
    definition = upstream(annotations=hints)

    assert definition["annotations"] == hints
    assert "_meta" not in definition


def test_a_server_that_gives_no_hints_is_given_none() -> None:
    assert "annotations" not in upstream()


def test_a_tool_that_is_read_only_here_is_listed_as_such() -> None:
    assert upstream(read_only=True, annotations={"readOnlyHint": True})["annotations"] == {"readOnlyHint": True}


def test_icons_and_meta_of_a_server_are_listed(fits: Fits) -> None:
    icons = [{"src": "https://icons.example/a.png", "mimeType": "image/png", "sizes": ["48x48"]}]
    meta = {"ui": {"resourceUri": "ui://s/app"}}

    definition = upstream(icons=icons, meta=meta)

    fits("Tool", definition)
    assert (definition["icons"], definition["_meta"]) == (icons, meta)


def test_a_raw_schema_says_that_it_is_an_object(fits: Fits) -> None:
    loose = Tool(name="loose", description="Takes anything.", input_schema={}, handler=lambda *_: "")

    [reported] = dialect.definitions([loose]).tools

    fits("Tool", reported)
    assert reported["inputSchema"]["type"] == "object"


def test_hidden_and_filtered_tools_are_not_listed() -> None:
    registry = ToolRegistry([forecast, note])
    registry.hide("note")

    assert [each["name"] for each in dialect.definitions(registry).tools] == ["forecast"]
    assert dialect.definitions(registry, filter=ToolFilter(allowed_tools=[])).tools == []


def request(params: Any, id: Any = 7) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def test_a_request_is_a_call_with_its_id() -> None:
    params = {"name": "note", "arguments": {"text": "x"}, "_meta": {"progressToken": 1}}
    parsed = mcp.types.CallToolRequest.model_validate({"method": "tools/call", "params": params})

    assert dialect.calls(request(params)) == [Call("7", "note", {"text": "x"})]
    assert dialect.calls(request(params, "a")) == [Call("a", "note", {"text": "x"})]
    for other in (params, parsed.params, parsed):
        [call] = dialect.calls(other)
        assert (call.name, call.args) == ("note", {"text": "x"})
        assert call.tool_call_id.startswith("call_")


def test_several_requests_are_several_calls_and_other_requests_are_none() -> None:
    asked = [request({"name": "a"}, 1), {"method": "tools/list", "id": 2}, request({"name": "b"}, 3)]

    assert [(call.tool_call_id, call.name, call.args) for call in dialect.calls(asked)] == [
        ("1", "a", {}),
        ("3", "b", {}),
    ]


def test_names_are_mapped_back() -> None:
    odd = Tool(name="odd name!", description="Odd.", input_schema={"type": "object"}, handler=lambda *_: "")
    reported = dialect.definitions([odd])

    [call] = dialect.calls({"name": reported.tools[0]["name"], "arguments": {}}, reported)

    assert reported.tools[0]["name"] != call.name == "odd name!"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["method", "params", "name", "id"]), inner)
    ),
    max_leaves=8,
)


@given(JSON, JSON)
def test_no_request_raises_and_what_it_asks_for_can_be_tried(anything: Any, arguments: Any) -> None:
    for call in dialect.calls(anything) + dialect.calls(request({"name": "note", "arguments": arguments}, anything)):
        assert isinstance(cast("object", call.name), str)
        assert call.tool_call_id
        assert isinstance(call.args, dict | str)


@pytest.mark.anyio
@pytest.mark.parametrize("arguments", [[], ["x"], 7, True, "x", "{", {"text": 1, "more": 2}])
async def test_arguments_that_are_not_object_are_refused(arguments: Any) -> None:
    calls = dialect.calls(request({"name": "note", "arguments": arguments}))

    [outcome] = await Executor(ToolRegistry([note])).execute_parallel(calls, ToolContext("s"))

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "input_invalid"


def every_kind() -> list[CallOutcome]:
    sound = Media.tool_generated(
        b"RIFF\x24\x00\x00\x00WAVEfmt ", kind="audio", mime_type="audio/wav", filename="a.wav", id="m2"
    )
    plan = Media.retrieved_public(b"A plan.", kind="document", mime_type="text/plain", filename="p.txt", id="m 3/")
    return [
        of(Ok('{"rain":true}', structured={"rain": True})),
        of(Err("timed_out", "It took too long.", retryable=True)),
        of(Ok("noted", trusted=True), "note"),
        of(Ok("a dot", media=(an_image(), sound, plan)), "draw"),
        of(Ok("", artifact=Artifact.from_text("a\nb\n")), "log"),
        of(Ok("[1,2]", structured=[1, 2]), "list"),
    ]


@pytest.mark.anyio
async def test_results_are_as_the_protocol_has_them(fits: Fits) -> None:
    reported = dialect.definitions([forecast, note])

    results = await dialect.results(
        every_kind(), definitions=reported, artifact_uri=lambda each: f"spindle://a/{each.name}"
    )

    for result in results:
        fits("CallToolResult", result)
    assert [result["isError"] for result in results] == [False, True, False, False, False, False]
    assert [block["type"] for block in results[3]["content"]] == [
        "text",
        "text",
        "image",
        "text",
        "audio",
        "text",
        "resource",
    ]
    agrees("results/mcp_outcomes.json", results)


@pytest.mark.anyio
async def test_without_a_fence_the_texts_are_the_tools_own(fits: Fits) -> None:
    results = await dialect.results(every_kind(), fenced=False)

    for result in results:
        fits("CallToolResult", result)
    texts = [[block["text"] for block in result["content"] if block["type"] == "text"] for result in results]
    assert texts[0] == ['{"rain":true}']
    assert texts[1] == ["It took too long."]
    assert texts[3] == ["a dot", "[media id: m1 | dot.png]", "[media id: m2 | a.wav]", "[media id: m 3/ | p.txt]"]
    assert "artifact_head" in texts[4][0]
    assert "untrusted_content" not in json.dumps(results)


@pytest.mark.anyio
async def test_a_structured_value_is_given_once_unless_it_was_promised() -> None:
    outcome = every_kind()[0]

    [alone] = await dialect.results([outcome])
    [promised] = await dialect.results([outcome], definitions=dialect.definitions([forecast]))
    [unpromised] = await dialect.results([outcome], definitions=dialect.definitions([forecast], structured=False))

    assert "structuredContent" not in alone
    assert "structuredContent" not in unpromised
    assert promised["structuredContent"] == {"rain": True}
    # The client sees which of the two is for its model.
    assert [block["annotations"] for block in promised["content"]] == [{"audience": ["assistant"]}]


@pytest.mark.anyio
async def test_results_are_copies_of_the_structured_value() -> None:
    value = {"rain": [1]}
    [result] = await dialect.results([of(Ok("x", structured=value))], structured=True)

    result["structuredContent"]["rain"].append(2)

    assert value == {"rain": [1]}


@pytest.mark.anyio
@pytest.mark.parametrize(
    "value",
    [None, [1], {"x": float("nan")}, {"x": object()}, {"x": "\ud800"}],
    ids=["none", "list", "nan", "object", "surrogate"],
)
async def test_a_promise_that_is_not_kept_is_an_error_with_its_text(value: Any) -> None:
    [result] = await dialect.results([of(Ok("x", structured=value))], definitions=dialect.definitions([forecast]))

    assert result["isError"]
    assert "structuredContent" not in result
    assert "x" in result["content"][0]["text"]


@pytest.mark.anyio
async def test_media_alone_is_named_once() -> None:
    outcome = of(Ok("[media id: m1 | dot.png]", media=(an_image(),)), "draw")

    for fenced in (True, False):
        [result] = await dialect.results([outcome], fenced=fenced)
        assert [block["type"] for block in result["content"]] == ["text", "image"]
        assert result["content"][0]["text"] == "[media id: m1 | dot.png]"
        assert base64.b64decode(result["content"][1]["data"]) == PNG


@pytest.mark.anyio
async def test_a_client_that_sees_less_is_shown_less() -> None:
    outcome = of(Ok(media=(an_image(),)), "draw")

    with pytest.raises(UnsupportedMediaError):
        await dialect.results([outcome], media=MediaSupport(mime_types=frozenset()))
    [result] = await dialect.results(
        [outcome], media=MediaSupport(mime_types=frozenset(), unsupported="fallback-stash")
    )

    assert [block["type"] for block in result["content"]] == ["text", "text"]


@pytest.mark.anyio
async def test_an_artifact_is_linked_where_it_is_offered() -> None:
    class Gone(Artifact):
        async def byte_length(self) -> int:
            raise OSError("gone")

    kept, gone = of(Ok("part", artifact=Artifact.from_text("a\nb\n"))), of(Ok("part", artifact=Gone.from_text("x")))

    linked = await dialect.results([kept, gone, of(Ok("x"))], artifact_uri=lambda _: "spindle://artifacts/c1")

    link = {"type": "resource_link", "uri": "spindle://artifacts/c1", "name": "c1"}
    assert [result["content"][1:] for result in linked] == [[{**link, "size": 4}], [link], []]


@pytest.mark.anyio
async def test_a_call_through_the_dialect_and_back(fits: Fits) -> None:
    registry = ToolRegistry([forecast])
    reported = dialect.definitions(registry)

    calls = dialect.calls(request({"name": "forecast", "arguments": {"city": "Ulm"}}), reported)
    outcomes = await Executor(registry).execute_parallel(calls, ToolContext("s"))
    [result] = await dialect.results(outcomes, definitions=reported)

    fits("CallToolResult", result)
    assert result["structuredContent"] == {"rain": True}
