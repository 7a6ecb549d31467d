from types import SimpleNamespace

from spindle import Ok
from spindle.kit.reducers.registry import argument, with_text


def test_an_argument_is_found_in_a_mapping_and_in_an_object() -> None:
    assert argument({"command": "ls"}, "command") == "ls"
    assert argument(SimpleNamespace(command="ls"), "command") == "ls"
    others: list[object] = [None, {}, "text", 7, [1]]
    for nothing in others:
        assert argument(nothing, "command") is None


def test_a_text_that_is_not_shorter_leaves_the_result_itself() -> None:
    result = Ok("text", structured={"a": 1}, cost_usd=1.0)

    assert with_text(result, "TEXT") is result
    assert with_text(result, "t") == Ok("t", structured={"a": 1}, cost_usd=1.0)
