"""What the forms of the dialects promise, held against every tool of the corpus."""

from collections.abc import Iterator
from typing import Any

from benchmarks.corpus import CorpusTool
from spindle.bridges.dialects import ALL, ANTHROPIC, GEMINI, OPENAI_CHAT
from spindle.bridges.provider_limits import Rules
from spindle.bridges.schema_lowering.lowering import lower
from spindle.errors import CannotLowerError
from tests.bridges.loss_walk import is_object

OPENAI_TAKES = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs"),
    *("definitions", "description", "title", "pattern", "format", "multipleOf", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
}
CLAUDE_REFUSES = {"minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "oneOf", "not", "pattern"}


def emitted(tools: list[CorpusTool], rules: Rules | None) -> Iterator[dict[str, Any]]:
    assert rules is not None
    for tool in tools:
        try:
            yield lower(tool.schema, rules).schema
        except CannotLowerError:
            continue


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if not is_object(schema):
        return
    node = schema
    yield node
    for keyword in ("properties", "$defs", "definitions"):
        for inner in node.get(keyword, {}).values():
            yield from nodes(inner)
    for keyword in ("anyOf", "allOf", "oneOf"):
        for inner in node.get(keyword, []):
            yield from nodes(inner)
    yield from nodes(node.get("items"))


def test_every_dialect_has_a_name_of_its_own() -> None:
    assert len({dialect.name for dialect in ALL}) == 6


def test_strict_openai_objects_are_closed_and_all_of_them_is_required(corpus_tools: list[CorpusTool]) -> None:
    for schema in emitted(corpus_tools, OPENAI_CHAT.strict_rules):
        assert schema["type"] == "object"
        assert "anyOf" not in schema
        for node in nodes(schema):
            assert node.keys() <= OPENAI_TAKES
            assert {"type", "anyOf", "$ref"} & node.keys()
            assert "$ref" not in node or node.keys() == {"$ref"}
            if "properties" in node:
                assert node["additionalProperties"] is False
                assert sorted(node["required"]) == sorted(node["properties"])


def test_strict_claude_objects_are_closed_and_bounds_are_described_in_text(corpus_tools: list[CorpusTool]) -> None:
    for schema in emitted(corpus_tools, ANTHROPIC.strict_rules):
        for node in nodes(schema):
            assert not node.keys() & CLAUDE_REFUSES
            assert node.get("minItems", 0) in (0, 1)
            if "properties" in node:
                assert node["additionalProperties"] is False


def test_gemini_schemas_name_one_type_and_their_unions_stand_alone(corpus_tools: list[CorpusTool]) -> None:
    for schema in emitted(corpus_tools, GEMINI.rules):
        for node in nodes(schema):
            assert not node or {"type", "anyOf"} & node.keys()
            assert "anyOf" not in node or node.keys() == {"anyOf"}
            assert isinstance(node.get("type", ""), str)
            assert all(isinstance(value, str) and value for value in node.get("enum", []))
            assert node.get("type") != "array" or "items" in node
            assert set(node.get("required", [])) <= set(node.get("properties", {}))


def test_no_dialect_but_mcp_has_a_union_at_the_top(corpus_tools: list[CorpusTool]) -> None:
    for dialect in ALL[:-1]:
        for schema in emitted(corpus_tools, dialect.rules):
            assert schema.get("type", "object") == "object"
            assert not {"anyOf", "oneOf", "allOf"} & schema.keys()
