"""Roles in annotations are found by path, and no model sees them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from spindle import Tool, ToolRegistry, tool
from spindle.bridges import anthropic, gemini, mcp
from spindle.bridges.openai import chat_completions, responses_api
from spindle.tools.schema.role_paths import remove_roles, take_roles
from spindle.trust.flow import ROLE_KEY, Content, Free, Ref, Role, Setting, Target


class Person(BaseModel):
    mail: Annotated[str, Target()]
    note: Annotated[str, Content(), Field(description="A note.")] = ""


class PlainPerson(BaseModel):
    mail: str
    note: Annotated[str, Field(description="A note.")] = ""


@dataclass
class Account:
    iban: Annotated[str, Target()]


class Page(TypedDict):
    url: Annotated[str, Target()]


class Tree(BaseModel):
    to: Annotated[str, Target()]
    parts: list["Tree"] = []


class Shelf(BaseModel):
    size: Annotated[int, Free()] = 1
    parts: list["Shelf"] = []


class Named(BaseModel):
    role: Annotated[str, Field(alias=ROLE_KEY)]
    to: Annotated[str, Target()] = ROLE_KEY


def find(hint: Any) -> dict[str, Role]:
    def send(x: Any) -> str:
        """Send."""
        return str(x)

    send.__annotations__["x"] = hint
    made = tool(send)
    assert ROLE_KEY not in str(made.describe())
    return dict(made.flow.roles)


@pytest.mark.parametrize(
    ("hint", "roles"),
    [
        (Annotated[str, Target()], {"x": Target()}),
        (Annotated[str, Ref("file")], {"x": Ref("file")}),
        (Annotated[list[str], Target()], {"x": Target()}),
        (list[Annotated[str, Target()]], {"x.*": Target()}),
        (tuple[Annotated[str, Target()], Annotated[int, Free()]], {"x.*": Target()}),
        (dict[str, Annotated[str, Content()]], {"x.*": Content()}),
        (dict[Annotated[str, Target()], int], {"x.*": Target()}),
        (Optional[Annotated[str, Target()]], {"x": Target()}),  # noqa: UP045  an Annotated has no `|` for type checkers
        (Annotated[str | None, Target()], {"x": Target()}),
        (list[Annotated[str, Target()]] | None, {"x.*": Target()}),
        (Person, {"x.mail": Target(), "x.note": Content()}),
        (Annotated[Person, Free()], {"x": Free(), "x.mail": Target(), "x.note": Content()}),
        (list[Person], {"x.*.mail": Target(), "x.*.note": Content()}),
        (Account, {"x.iban": Target()}),
        (Account | Person, {"x.iban": Target(), "x.mail": Target(), "x.note": Content()}),
        (list[Page], {"x.*.url": Target()}),
        (str, {}),
    ],
    ids=str,
)
def test_a_role_is_found_at_the_path_of_its_annotation(hint: Any, roles: dict[str, Role]) -> None:
    assert find(hint) == roles


@pytest.mark.parametrize(
    ("hint", "roles"),
    [
        (Annotated[str, Free()] | Annotated[int, Target()], {"x": Target()}),
        (Annotated[str, Free()] | int, {"x": Setting()}),
        (Annotated[int, Free()] | str, {"x": Target()}),
        (Annotated[str, Free()] | PlainPerson, {"x": Free(), "x.mail": Target(), "x.note": Target()}),
        (Annotated[str, Content()] | list[int], {"x": Content(), "x.*": Setting()}),
    ],
    ids=str,
)
def test_the_strictest_role_of_a_union_counts(hint: Any, roles: dict[str, Role]) -> None:
    assert find(hint) == roles


def test_a_recursive_type_has_targets_at_every_depth() -> None:
    roles = find(Tree)

    assert {path: role for path, role in roles.items() if path.endswith("to")} == {
        "x.to": Target(),
        "x.parts.*.to": Target(),
    }
    assert set(roles.values()) == {Target()}
    assert any(path.endswith("parts.*") for path in roles), "deeper values are covered by a prefix"


def test_a_recursive_type_is_not_freed_beyond_what_was_followed() -> None:
    assert set(find(Shelf)) == {"x.size", "x.parts.*.size"}


def test_a_type_with_very_many_paths_is_bounded() -> None:
    level: Any = Annotated[str, Target()]
    for _ in range(12):
        level = dataclass(type("Level", (), {"__annotations__": {"a": level, "b": level, "c": level}}))

    roles = find(level)

    assert len(roles) < 10_000
    assert set(roles.values()) == {Target()}


def test_a_property_or_a_value_with_the_name_of_the_key_stays() -> None:
    made = Tool(name="t", description="d", input_schema=Named, handler=print)
    properties = made.describe()["input_schema"]["properties"]

    assert set(properties) == {ROLE_KEY, "to"}
    assert properties["to"] == {"type": "string", "default": ROLE_KEY}
    assert made.flow.roles == {"to": Target()}


def test_roles_change_neither_fingerprint_nor_definitions() -> None:
    def annotated(to: list[Annotated[str, Target()]], who: Annotated[str | None, Ref("person")] = None) -> str:
        """Send."""
        return f"{to} {who}"

    def plain(to: list[str], who: str | None = None) -> str:
        """Send."""
        return f"{to} {who}"

    one, other = tool(name="send")(annotated), tool(name="send")(plain)

    assert one.flow.roles
    assert one.fingerprint == other.fingerprint
    assert one.describe() == other.describe()
    assert ToolRegistry([one]).definitions_json() == ToolRegistry([other]).definitions_json()
    for bridge in (chat_completions, responses_api, anthropic, gemini, mcp):
        shown = [bridge.definitions([each]).json for each in (one, other)]
        assert shown[0] == shown[1]
        assert ROLE_KEY.encode() not in shown[0]


@pytest.mark.parametrize("kind", [Person, Account, Page])
def test_a_class_as_input_schema_declares_roles(kind: type) -> None:
    made = Tool(name="t", description="d", input_schema=kind, handler=print)

    assert Target() in made.flow.roles.values()
    assert ROLE_KEY not in str(made.describe())


@pytest.mark.parametrize("take", [take_roles, remove_roles])
def test_a_schema_without_roles_is_left_alone(take: Callable[[Any], object]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "propertyNames": {"type": "string"}}}}

    assert not take(schema)
    assert schema["properties"] == {"a": {"type": "object", "propertyNames": {"type": "string"}}}
