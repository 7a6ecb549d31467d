"""Roles that the names of upstream tools and arguments suggest: none lets out what an undeclared value would not."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.mcp.flow_defaults import find_default_roles, is_destructive_name
from spindle.trust.flow import Content, Free, Ref, Setting, Target


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT: dict[str, Any] = {"type": "string"}


def test_a_body_is_content_beside_a_target_that_every_call_has() -> None:
    roles = find_default_roles("send_mail", schema("to", "body", to=TEXT, subject=TEXT, body=TEXT))

    assert roles == {"to": Target(), "subject": Content(), "body": Content()}


@pytest.mark.parametrize(
    "given",
    [
        schema("body", body=TEXT),
        schema("body", body=TEXT, to=TEXT),
        schema("to", body=TEXT, to={"type": ["string", "null"]}),
        schema("to", body=TEXT, to={"anyOf": [TEXT, {"type": "null"}]}),
        schema("to", body=TEXT, to={"type": "array", "items": TEXT}),
        schema("issue_number", body=TEXT, issue_number={"type": "integer"}),
    ],
)
def test_a_body_stays_a_target_without_one(given: dict[str, Any]) -> None:
    assert "body" not in find_default_roles("post", given)


def test_paging_is_free_only_within_bounds_that_the_schema_enforces() -> None:
    bounded = {"type": "integer", "minimum": 1, "maximum": 100}
    roles = find_default_roles(
        "list",
        schema(
            page=bounded,
            perPage={"type": "integer", "maximum": 100},
            limit={"type": "integer"},
            offset={"type": "number", "minimum": 0, "maximum": 9},
            max_results={"type": "string"},
            depth=bounded,
        ),
    )

    assert roles.pop("page") == Free()
    assert set(roles.values()) == {Setting()}


def test_records_are_references_and_choices_are_settings() -> None:
    roles = find_default_roles(
        "update", schema(issueNumber={"type": "integer"}, status={"enum": ["open"]}, amount=TEXT, x={"type": "number"})
    )

    assert roles == {"issueNumber": Ref("issue"), "status": Setting(), "amount": Setting(), "x": Setting()}


def test_parts_of_lists_have_roles_too() -> None:
    files = {"type": "array", "items": schema(path=TEXT, content=TEXT)}
    roles = find_default_roles("push_files", schema("owner", owner=TEXT, files=files))

    assert roles["files.*.path"] == Target()
    assert roles["files.*.content"] == Content()


@pytest.mark.parametrize("name", ["delete_file", "deleteFile", "slack-delete-message", "git_reset", "drop_table"])
def test_a_name_that_says_so_makes_a_tool_destructive(name: str) -> None:
    assert is_destructive_name(name)


@pytest.mark.parametrize("name", ["read_file", "undelete", "mark_as_deleted", "list_deleted"])
def test_other_names_do_not(name: str) -> None:
    assert not is_destructive_name(name)


WORDS = st.sampled_from(["type", "properties", "items", "required", "anyOf", "enum", "to", "body", "page"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda each: st.lists(each) | st.dictionaries(WORDS, each),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.dictionaries(WORDS, ANY_JSON))
def test_no_schema_makes_it_fail(given: Any) -> None:
    assert all(isinstance(path, str) for path in find_default_roles("x", given))


ANY: dict[str, Any] = {"definitions": {"any": {}}}
REF: dict[str, Any] = {"$ref": "#/definitions/any"}
PAGE: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 100}


def test_a_reference_that_disables_the_bounds_beside_it_leaves_a_number_unfree() -> None:
    given = schema("url", url=TEXT, page=PAGE | REF) | ANY

    assert find_default_roles("fetch", given)["page"] == Setting()
    assert find_default_roles("fetch", schema("url", url=TEXT, page=PAGE))["page"] == Free()


@pytest.mark.parametrize(
    "given",
    [
        schema("to", to=TEXT | REF, body=TEXT) | ANY,
        schema("to", to=TEXT, body=TEXT) | ANY | REF,
        schema("to", to=TEXT, options=schema(page=PAGE) | REF) | ANY | REF,
    ],
)
def test_a_reference_that_may_disable_a_schema_gives_no_free_role_below_it(given: dict[str, Any]) -> None:
    roles = find_default_roles("post", given)

    assert not any(isinstance(role, (Free, Content)) for role in roles.values())
