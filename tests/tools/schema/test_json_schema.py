"""A tool described by a JSON Schema: the official suite, real tools, and what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.tools.schema.graph import as_list, as_object
from spindle.tools.schema.json_schema import RawSchema
from spindle.tools.schema.repair import repair_schema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
REMOTE = {"draft7": {"refRemote.json"}, "draft2020-12": {"refRemote.json", "dynamicRef.json", "vocabulary.json"}}
"""Files of the suite with groups that need something fetched."""


def made(schema: dict[str, Any], **options: Any) -> RawSchema:
    return RawSchema(schema, tool="search", **options)


def refused(schema: dict[str, Any]) -> InvalidToolError:
    with pytest.raises(InvalidToolError) as caught:
        made(schema)
    assert (caught.value.tool, caught.value.field) == ("search", "input_schema")
    assert "search" in str(caught.value)
    return caught.value


def fits(schema: RawSchema, value: dict[str, Any]) -> bool:
    try:
        schema.validate(value)
    except InvalidToolArgsError:
        return False
    return True


# The official suite


def wrapped(schema: Any, draft: str) -> dict[str, Any]:
    """An object's schema that holds the suite's own for its one property, as a resource of its own."""
    inner = schema
    if isinstance(schema, dict):
        own: dict[str, Any] = {"$id": "http://value.example/root.json", **schema}
        if draft == "draft7" and "$ref" in schema:
            # There a reference silences all beside it, its address too, so it moves one level down.
            rest = {key: value for key, value in own.items() if key not in ("$id", "$ref")}
            own = {**rest, "$id": "http://value.example/root.json", "allOf": [{"$ref": schema["$ref"]}]}
        inner = own
    dialect = DRAFT_7 if draft == "draft7" else DRAFT_2020
    return {"$schema": dialect, "type": "object", "properties": {"value": inner}, "required": ["value"]}


def groups(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(folder.glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            yield file.name, group


@pytest.mark.parametrize("draft", ["draft7", "draft2020-12"])
def test_the_official_suite_is_judged_as_it_says(shared_data: Path, draft: str) -> None:
    tried, needing_remotes = 0, 0
    for file, group in groups(shared_data / "json-schema-test-suite" / "tests" / draft):
        try:
            schema = made(wrapped(group["schema"], draft))
        except InvalidToolError:
            assert file in REMOTE[draft], f"{file}: {group['description']}"
            assert "localhost:1234" in json.dumps(group["schema"])
            needing_remotes += 1
            continue
        for test in group["tests"]:
            what = f"{file}: {group['description']}: {test['description']}"
            assert fits(schema, {"value": test["data"]}) == test["valid"], what
            tried += 1

    assert tried >= 900
    assert needing_remotes >= 11


# Real tools


def test_real_mcp_tools_compile(shared_data: Path) -> None:
    servers = json.loads((shared_data / "tools" / "livemcp" / "tools.json").read_text(encoding="utf-8"))
    tools = [tool for server in servers for part in server["tools"].values() for tool in part["tools"]]
    assert len(tools) == 527
    not_valid: list[str] = []
    for tool in tools:
        try:
            assert made(tool["inputSchema"]).json_schema() == tool["inputSchema"]
        except InvalidToolError:
            not_valid.append(tool["name"])
            made(repair_schema(tool["inputSchema"])[0])

    # It says `exclusiveMinimum: true` under draft 7, where that is a number.
    assert not_valid == ["read_pdf"]


def test_the_tools_of_a_large_server_compile(shared_data: Path) -> None:
    files = sorted((shared_data / "tools" / "github" / "toolsnaps").glob("*.snap"))
    assert len(files) > 100
    for file in files:
        made(json.loads(file.read_text(encoding="utf-8"))["inputSchema"])


def jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def first_answer(options: list[Any], schema: dict[str, Any], *, required: bool) -> Any:
    """The first acceptable value; an empty text among them means that the argument may be left out."""
    texts = [option for option in options if option != ""] or (options if required else [])
    return plain(texts[0], schema) if texts else None


def plain(value: Any, schema: dict[str, Any]) -> Any:
    """An answer without the lists of alternatives inside it."""
    answers = as_object(value)
    if answers is not None and schema.get("type") == "object":
        inner: dict[str, Any] = schema.get("properties", {})
        chosen = {key: first_answer(each, inner.get(key, {}), required=False) for key, each in answers.items()}
        return {key: each for key, each in chosen.items() if each is not None}
    items = as_list(value)
    return [plain(item, schema.get("items", {})) for item in items] if items else value


@pytest.mark.slow
@pytest.mark.parametrize(("part", "odd"), [("simple_python", ["simple_python_307"]), ("multiple", [])])
def test_function_calling_schemas_are_refused_with_a_reason_and_valid_after_repair(
    shared_data: Path, part: str, odd: list[str]
) -> None:
    folder = shared_data / "tools" / "bfcl"
    schemas: dict[tuple[str, str], dict[str, Any]] = {}
    for question in jsonl(folder / f"BFCL_v4_{part}.jsonl"):
        for function in question["function"]:
            assert "'object'" in str(refused(function["parameters"]))
            repaired, changes = repair_schema(function["parameters"])
            assert changes
            schemas[question["id"], function["name"]] = repaired
    misfits: list[str] = []
    for answer in jsonl(folder / f"BFCL_v4_{part}_answers.jsonl"):
        for name, options in ((name, options) for call in answer["ground_truth"] for name, options in call.items()):
            schema = schemas[answer["id"], name]
            chosen = {
                key: first_answer(each, schema["properties"].get(key, {}), required=key in schema["required"])
                for key, each in options.items()
            }
            if not fits(made(schema), {key: each for key, each in chosen.items() if each is not None}):
                misfits.append(answer["id"])

    # The benchmark's own answer is `true` for a text.
    assert misfits == odd


# What a schema must be


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": ["object", "null"]}, {"properties": {}}])
def test_a_schema_of_an_object_is_taken(schema: dict[str, Any]) -> None:
    assert made(schema).validate({"a": 1}) == {"a": 1}
    assert made(schema).can_be_empty()


@pytest.mark.parametrize(
    ("schema", "remedy"),
    [
        ({"type": "string"}, "property"),
        ({"type": "dict"}, "'object'"),
        ({"type": ["array", "null"]}, "object"),
        ({"type": 3}, "object"),
        (
            {"properties": {"a": {"type": "float"}}},
            "'number'",
        ),
        ({"properties": {"a": {"type": "tuple"}}}, "'array'"),
        ({"properties": {"a": {"items": {"type": "any"}}}}, "leave type out"),
        ({"properties": {"a": {"type": ["string", "Bool"]}}}, "'boolean'"),
        ({"properties": {"a": {"type": "quux"}}}, "leave type out"),
        ({"properties": {"a": {"required": True}}}, "#/properties/a/required"),
        ({"properties": {"a": {"pattern": "("}}}, "#/properties/a/pattern"),
        ({"properties": {"a": 3}}, "#/properties/a"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "#/properties/a"),
        ({"$schema": "https://example.com/mine"}, "$schema"),
        ({"properties": {"a": {"default": float("nan")}}}, "#/properties/a/default"),
        ({"properties": {"a": {"default": object()}}}, "#/properties/a/default"),
        ({"properties": {"a": {"const": "\ud800"}}}, "#/properties/a/const"),
        ({"properties": {1: {}}}, "#/properties"),
    ],
)
def test_a_bad_schema_is_refused_with_the_place_and_the_remedy(schema: dict[str, Any], remedy: str) -> None:
    assert remedy in str(refused(schema))


def test_later_changes_of_the_callers_dict_change_nothing() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "string", "default": ["x"]}}, "additionalProperties": False}
    tool = made(schema)
    schema["properties"]["a"]["type"] = "integer"
    tool.json_schema()["properties"].clear()

    assert tool.json_schema()["properties"] == {"a": {"type": "string", "default": ["x"]}}
    assert fits(tool, {"a": "text"})


def test_only_a_schema_without_required_parameters_takes_nothing() -> None:
    assert made({"type": "object", "properties": {}, "additionalProperties": False}).can_be_empty()
    assert made({"properties": {"a": {}}}).can_be_empty()
    assert not made({"properties": {"a": {}}, "required": ["a"]}).can_be_empty()
    assert not made({"$ref": "#/$defs/x", "$defs": {"x": {"required": ["a"]}}}).can_be_empty()
    assert made({"additionalProperties": {"type": "string"}}).can_be_empty()


# What arguments must be


def test_nothing_is_coerced() -> None:
    schema = {"properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}}}

    for value in ({"n": "5"}, {"n": True}, {"n": 1.5}, {"b": "true"}, {"b": 1}):
        assert not fits(made(schema), value)
    assert made(schema).validate({"n": 5.0}) == {"n": 5.0}


@pytest.mark.parametrize("value", [{"a": b"x"}, {"a": {1, 2}}, {"a": "\ud800"}, {"a": {2: 1}}, {"\ud800": 1}])
def test_a_value_that_is_not_json_is_refused(value: dict[str, Any]) -> None:
    schema = made({"properties": {"a": {"type": "integer"}}, "additionalProperties": False})

    with pytest.raises(InvalidToolArgsError) as caught:
        schema.validate(value)

    assert caught.value.problems


def test_formats_are_annotations() -> None:
    for draft in (DRAFT_7, DRAFT_2020):
        assert fits(made({"$schema": draft, "properties": {"a": {"format": "email"}}}), {"a": "nobody"})


def test_no_reference_ever_opens_a_file_or_a_connection(tmp_path: Path) -> None:
    there = tmp_path / "there.json"
    there.write_text('{"type": "string"}', encoding="utf-8")
    for reference in (there.as_uri(), str(there), "http://127.0.0.1:9/x", "https://example.com/x", "urn:x:y", "x.json"):
        refused({"properties": {"a": {"$ref": reference}}})
        refused({"$defs": {"never_used": {"$ref": reference}}})
        refused({"$schema": DRAFT_7, "definitions": {"a": {"$ref": reference}}, "$ref": "#/definitions/a"})
    refused({"$id": tmp_path.as_uri() + "/root.json", "properties": {"a": {"$ref": "there.json"}}})
    refused({"$schema": there.as_uri()})


def test_the_meta_schema_itself_may_be_referred_to() -> None:
    schema = made({"properties": {"schema": {"$ref": DRAFT_2020}}})

    assert fits(schema, {"schema": {"type": "object"}})
    assert not fits(schema, {"schema": {"type": "dict"}})
