"""Calls that come in piece by piece: what is not whole is never run."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.bridges.openai.chat_completions import definitions
from spindle.bridges.partial_calls import NAMELESS, CallIds, PartialCall, format_arguments, format_input, is_json_object
from spindle.errors import InvalidToolArgsError
from spindle.tools import read_arguments
from tests.bridges.chat_scene import dotted


def call(*pieces: Any, name: str = "t", **facts: bool) -> PartialCall:
    made = PartialCall("c1", name)
    for piece in pieces:
        made.add(piece)
    for fact, value in facts.items():
        setattr(made, fact, value)
    return made


@given(st.lists(st.text()))
def test_pieces_are_kept_to_the_letter(pieces: list[str]) -> None:
    assert call(*pieces).to_call(None, is_whole=True).args == "".join(pieces)


@given(st.text() | st.sampled_from(["{}", '{"a":1}', "[1]", '"', "null", " ", '{"a":"']), st.booleans())
def test_arguments_of_damaged_or_nameless_calls_are_never_valid(text: str, is_whole: bool) -> None:
    for broken in (call(text, is_damaged=True), call(text, name=""), call(text, is_custom=True)):
        made = broken.to_call(None, is_whole=is_whole)
        with pytest.raises(InvalidToolArgsError):
            read_arguments(made.args, tool="t", empty_ok=True)


@pytest.mark.parametrize(("text", "args"), [("", "{"), (" ", "{"), ('{"a":', '{"a":'), ("{}", "{}")])
def test_a_call_that_was_left_unfinished_is_not_an_empty_one(text: str, args: str) -> None:
    assert call(text).to_call(None, is_whole=False).args == args


def test_an_object_is_taken_as_the_first_piece_only() -> None:
    assert json.loads(call({"a": "é"}).text) == {"a": "é"}
    assert call("{", {"a": 1}).is_damaged
    assert call({"a": object()}).is_damaged


@pytest.mark.parametrize("piece", [5, True, ["x"], object()], ids=["number", "bool", "list", "object"])
def test_a_piece_of_a_wrong_type_damages_the_call(piece: Any) -> None:
    assert call("{}", piece).is_damaged
    assert not call("{}", None).is_damaged


def test_a_nameless_call_has_a_name_that_stands_for_none() -> None:
    assert call("{}", name="").to_call(None, is_whole=True).name == NAMELESS


def test_names_are_mapped_back_and_ids_made() -> None:
    made = PartialCall("", "shop_orders_7458f44c").to_call(definitions([dotted()]), is_whole=True)

    assert made.name == "shop.orders"
    assert made.tool_call_id.startswith("call_")


@given(st.text() | st.binary() | st.none() | st.dictionaries(st.text(), st.integers() | st.text()))
def test_repeated_arguments_are_always_a_json_object(arguments: Any) -> None:
    assert is_json_object(format_arguments(arguments))


def test_repeated_arguments_keep_their_text_if_it_is_an_object() -> None:
    assert format_arguments('{ "a" : 1 }') == '{ "a" : 1 }'
    assert json.loads(format_arguments({"a": 1})) == {"a": 1}
    assert json.loads(format_arguments("{oops")) == {"unreadable_arguments": "{oops"}


@given(st.text() | st.binary() | st.none() | st.dictionaries(st.text(), st.integers() | st.text()))
def test_apis_that_take_objects_are_given_one(arguments: Any) -> None:
    assert isinstance(format_input(arguments), dict)


def test_an_object_is_repeated_as_it_is_and_anything_else_under_a_name() -> None:
    assert format_input('{"a":1}') == {"a": 1}
    assert format_input(b"{oops") == {"unreadable_arguments": "{oops"}
    assert format_input("{oops", unreadable="INVALID_JSON") == {"INVALID_JSON": "{oops"}


@given(st.lists(st.sampled_from(["", "c1", "c2", "c3"])))
def test_no_id_is_given_twice_and_the_first_to_have_one_keeps_it(given_ids: list[str]) -> None:
    ids = CallIds(taken=["c3"])

    calls = [PartialCall(each, ids=ids) for each in given_ids]

    made = [each.id for each in calls]
    assert len({*made, "c3"}) == len(made) + 1
    for wanted in {"c1", "c2"} & set(given_ids):
        assert calls[given_ids.index(wanted)].id == wanted


def test_a_late_id_is_used_unless_another_call_has_it() -> None:
    ids = CallIds(taken=["c1"])
    late, taken = PartialCall(ids=ids), PartialCall(ids=ids)
    before = taken.id

    late.identify("c2")
    late.identify("c9")
    taken.identify("c1")

    assert (late.id, taken.id, taken.provider_id) == ("c2", before, "c1")
