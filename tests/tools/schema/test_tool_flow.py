"""What a tool declares for flow policies: labels, roles, records."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from spindle import Capabilities, Tool, tool
from spindle.errors import InvalidToolError
from spindle.trust.flow import (
    ROLE_KEY,
    Content,
    FlowCall,
    FlowLedger,
    FlowPolicy,
    Free,
    Leaf,
    Produces,
    Ref,
    Setting,
    Target,
)

MAIL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "default": "all@shop.example"},
        "body": {"type": "object", "properties": {"text": {"type": "string"}}},
        "copies": {"type": "array", "items": {"type": "string"}},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def make(**options: Any) -> Tool:
    given: dict[str, Any] = {"name": "send", "description": "Send.", "input_schema": MAIL, "handler": print}
    return Tool(**(given | options))


def test_the_output_of_a_tool_without_a_label_is_third_party_private() -> None:
    assert (make().output, make().trusted, make().flow.output) == ("third-party-private", False, "third-party-private")


@pytest.mark.parametrize("options", [{"trusted": True}, {"output": "trusted"}, {"trusted": True, "output": "trusted"}])
def test_trusted_is_short_for_the_label(options: Any) -> None:
    made = make(**options)

    assert (made.output, made.trusted, made.flow.output) == ("trusted", True, "trusted")


@pytest.mark.parametrize("label", ["first-party", "third-party-public", "third-party-private"])
def test_other_labels_are_not_trusted(label: Any) -> None:
    made = make(output=label, trusted=False)

    assert (made.output, made.trusted) == (label, False)
    assert make(output=None).output == "third-party-private"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"output": "mine"}, "output"),
        ({"output": True}, "output"),
        ({"output": ["trusted"]}, "output"),
        ({"trusted": True, "output": "first-party"}, "output"),
        ({"destructive": 1}, "destructive"),
        ({"destructive": True, "read_only": True}, "destructive"),
        ({"produces": 5}, "produces"),
        ({"produces": {"file": "a..b"}}, "produces"),
        ({"produces": {"a": "x", "b": "y"}}, "produces"),
        ({"roles": ["to"]}, "roles"),
        ({"roles": {"to": "receiver"}}, "roles"),
        ({"roles": {"to": "ref"}}, "roles"),
        ({"roles": {"": "target"}}, "roles"),
        ({"roles": {1: "target"}}, "roles"),
        ({"roles": {"too": "target"}}, "roles"),
        ({"roles": {"body.title": "content"}}, "roles"),
        ({"roles": {"copies.name": "target"}}, "roles"),
        ({"roles": {"to.name": "target"}}, "roles"),
    ],
)
def test_a_wrong_declaration_is_refused(options: Any, field: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        make(**options)

    assert (caught.value.tool, caught.value.field) == ("send", field)


def test_a_path_that_is_not_an_argument_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidToolError) as caught:
        make(roles={"body.txt": "content"})

    assert "'body.txt'" in str(caught.value)
    assert "'body.text'" in str(caught.value)


def test_roles_are_read_from_texts_and_instances() -> None:
    roles = {"to": "target", "body.text": Content(), "copies.*": "ref:person", "headers.*": "free"}

    assert make(roles=roles).flow.roles == {
        "to": Target(),
        "body.text": Content(),
        "copies.*": Ref("person"),
        "headers.*": Free(),
    }


@pytest.mark.parametrize("path", ["payload", "payload.to", "payload.*", "list.*.x"])
def test_a_path_into_a_part_without_a_schema_is_accepted(path: str) -> None:
    properties: dict[str, Any] = {"payload": {"type": "object"}, "list": {"type": "array", "items": {}}}
    made = make(input_schema={"type": "object", "properties": properties}, roles={path: "content"})

    assert made.flow.roles == {path: Content()}


def test_a_path_leads_through_references_and_unions() -> None:
    schema = {
        "type": "object",
        "properties": {"who": {"anyOf": [{"$ref": "#/definitions/Person"}, {"type": "null"}]}, "any": True},
        "definitions": {"Person": {"type": "object", "properties": {"mail": {"type": "string"}}}},
    }

    made = make(input_schema=schema, roles={"who.mail": "target", "any": "free"})

    assert made.flow.roles == {"who.mail": Target(), "any": Free()}


def test_a_role_in_a_raw_schema_is_neither_honoured_nor_removed() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", ROLE_KEY: "free"}}}

    made = make(input_schema=schema)

    assert made.flow.roles == {}
    assert made.describe()["input_schema"] == schema


def test_given_roles_replace_annotations_of_the_same_path() -> None:
    @tool(roles={"to": "free"})
    def send(to: Annotated[str, Target()], body: Annotated[str, Content()]) -> str:
        """Send."""
        return to + body

    assert send.flow.roles == {"to": Free(), "body": Content()}


def test_roles_of_a_function_with_annotations_from_later_are_checked_on_first_use() -> None:
    @tool(roles={"to": "target", "nobody": "free"})
    def send(to: str, kind: "DefinedLater") -> str:
        """Send."""
        return to + kind.name

    class DefinedLater(BaseModel):
        name: str

    with pytest.raises(InvalidToolError):
        send.flow  # noqa: B018


def test_a_policy_knows_all_that_a_tool_declares() -> None:
    made = make(
        output="first-party", destructive=True, produces={"mail": "items.*.mail_id"}, capabilities=Capabilities()
    )

    assert made.flow.produces == Produces(kind="mail", path=("items", "*", "mail_id"))
    assert (made.flow.name, made.flow.output, made.flow.destructive) == ("send", "first-party", True)
    assert (made.flow.is_reader, made.flow.reaches_network, made.flow.read_only) == (False, False, False)
    assert made.flow.defaults == {"to": "all@shop.example"}
    assert made.flow.keys == {"to", "body", "text", "copies", "headers"}
    assert made.flow is made.flow


def test_produces_is_a_kind_or_a_path() -> None:
    assert make(produces="file").produces == Produces(kind="file")
    assert make(produces=Produces(kind="file")).produces == Produces(kind="file")
    assert make().produces is None


@pytest.mark.parametrize(
    "options",
    [
        {"capabilities": Capabilities(network=["shop.example"])},
        {"meta": {"mcp": {"server": "shop"}}},
        {"meta": {"openapi": {"server": "shop"}}},
    ],
)
def test_a_tool_that_declares_the_network_or_runs_elsewhere_reaches_it(options: Any) -> None:
    assert make(read_only=True, **options).flow.reaches_network
    assert not make(meta={"mcp": {"title": "Send"}}).flow.reaches_network


def test_defaults_of_a_server_that_is_not_trusted_vouch_for_nothing() -> None:
    meta = {"mcp": {"server": "shop"}}

    assert make(meta=meta).flow.defaults == {}
    assert make(meta=meta, trusted=True).flow.defaults == {"to": "all@shop.example"}


def test_a_role_of_any_key_covers_the_values_under_keys_that_the_caller_chose() -> None:
    flow = make(roles={"headers.*": "content", "headers": "free"}).flow

    assert flow.get_role(Leaf(("headers", "x-secret"), "v")) == Content()
    assert flow.get_role(Leaf(("headers",), "v")) == Free()
    assert flow.get_role(Leaf(("copies", "*"), 1.0)) == Setting()


def test_a_policy_judges_a_tool_by_its_annotations() -> None:
    @tool
    def send(to: Annotated[str, Target()], size: Annotated[int, Free()] = 5) -> str:
        """Send."""
        return f"{to} {size}"

    ledger = FlowLedger()
    ledger.add_user_text("write to ann@shop.example")
    ledger.taint()
    said, foreign = FlowPolicy().judge(
        [FlowCall(tool=send, args={"to": to, "size": 7}) for to in ("ann@shop.example", "eve@evil.example")], ledger
    )

    assert (said.needs_approval, foreign.needs_approval) == (False, True)
