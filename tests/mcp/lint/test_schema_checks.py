"""Parameters for secrets, and definitions that models cannot use well."""

from typing import Any

import pytest

from spindle import Ok, Tool
from spindle.mcp.lint import Subject
from spindle.mcp.lint.schema_checks import MAX_TOOLS, check_registry, check_schema

GOOD = {"type": "string", "description": "What to look for."}


def rules(
    properties: dict[str, Any] | None = None, description: str = "Finds orders of a customer.", **schema: Any
) -> set[str]:
    inner = {"type": "object", "properties": {"query": GOOD} if properties is None else properties, **schema}
    subject = Subject(raw={"name": "find", "description": description, "inputSchema": inner})
    return {found.rule for found in check_schema(subject)}


def test_a_good_definition_has_no_findings() -> None:
    assert rules() == set()
    assert rules({}) == set()


@pytest.mark.parametrize(
    "name", ["password", "api_key", "apiKey", "accessToken", "client_secret", "Authorization", "token"]
)
def test_a_parameter_for_a_credential_is_reported(name: str) -> None:
    assert rules({name: GOOD}) == {"SP201"}


@pytest.mark.parametrize(
    "name", ["page_token", "max_tokens", "nextPageToken", "secret_type", "tokenTicker", "author", "cookie_policy_id"]
)
def test_other_parameters_are_not_credentials(name: str) -> None:
    assert rules({name: GOOD}) == set()


@pytest.mark.parametrize("name", ["conversation", "chat_history", "systemPrompt", "chain_of_thought", "user_messages"])
def test_a_parameter_for_the_conversation_is_reported(name: str) -> None:
    assert rules({name: GOOD}) == {"SP202"}


def test_nested_parameters_are_read() -> None:
    deep = {"type": "array", "description": "x", "items": {"anyOf": [{"properties": {"password": GOOD}}]}}

    assert rules({"list": deep}) == {"SP201"}
    defined: dict[str, Any] = {"definitions": {"d": {"properties": {"api_key": GOOD}}}}
    assert rules({"a": {"$ref": "#/definitions/d"}}, definitions=defined["definitions"]) == {"SP201"}


INCOMPLETE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("SP304", {"a": {"type": "string"}}, {}),
    ("SP305", {"a": {"description": "x"}}, {}),
    ("SP304 SP305", {"a": True}, {}),
    ("SP306", {"a": {"type": "object", "description": "x"}}, {}),
    ("", {"a": {"type": "object", "description": "x", "additionalProperties": {"type": "string"}}}, {}),
    ("SP309", {"a": GOOD}, {"required": ["b"]}),
    ("", {"a": GOOD}, {"required": ["a"]}),
]


@pytest.mark.parametrize(("found", "properties", "schema"), INCOMPLETE)
def test_incomplete_schemas_are_reported(found: str, properties: dict[str, Any], schema: dict[str, Any]) -> None:
    assert rules(properties, **schema) == set(found.split())


@pytest.mark.parametrize(
    ("description", "rule"),
    [
        ("", "SP301"),
        ("  ", "SP301"),
        ("find", "SP302"),
        ("This is a useful tool.", "SP302"),
        ("TODO", "SP302"),
        ("word " * 1_000, "SP308"),
    ],
)
def test_poor_descriptions_are_reported(description: str, rule: str) -> None:
    assert rules(description=description) == {rule}


def test_a_short_description_in_a_script_without_spaces_is_not_vague() -> None:
    assert rules(description="查询客户订单") == set()


def test_duplicates_are_reported_once_for_the_later_tool() -> None:
    texts = {"a": "Finds  orders.", "b": "finds orders.", "c": "Finds users.", "d": ""}
    found = list(check_registry([Subject(raw={"name": name, "description": text}) for name, text in texts.items()]))

    assert [(each.rule, each.name) for each in found] == [("SP303", "b")]


def test_many_offered_tools_are_one_finding() -> None:
    def handle(_args: object, _ctx: object, _meta: object) -> Ok:
        return Ok("")

    tool = Tool(name="t", description="d", input_schema={"type": "object"}, handler=handle)
    subjects = [Subject(raw={"name": f"t{i}"}, server="s", tool=tool) for i in range(MAX_TOOLS + 1)]

    (found,) = check_registry(subjects)
    assert (found.rule, found.kind, found.subject) == ("SP307", "registry", "all tools")
    assert list(check_registry(subjects[:-1])) == []
