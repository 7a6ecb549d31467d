"""Reading what providers send, whatever it is."""

import json
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from spindle import Ok
from spindle.bridges.rendering import TextPart
from spindle.bridges.wire import (
    get_count,
    get_field,
    get_list,
    get_str,
    has_content,
    is_record,
    replace_lone_surrogates,
    split_request,
    to_plain,
)
from tests.bridges.chat_wire import chunk
from tests.bridges.outcomes import outcome

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.sampled_from(["a", "b"]), inner),
    max_leaves=8,
)


@given(ANYTHING)
def test_nothing_makes_reading_fail(value: Any) -> None:
    assert isinstance(get_str(value, "a"), str)
    assert isinstance(get_list(value, "a"), (list, tuple))
    count = get_count(value, "a")
    assert count is None or (type(count) is int and count >= 0)
    assert get_field(value, "index") is None
    assert is_record(value) == isinstance(value, dict)


def test_objects_of_an_sdk_and_their_data_read_alike() -> None:
    data = chunk({"content": "Hi", "reasoning": "extra"})
    made = ChatCompletionChunk.model_validate(data)

    assert to_plain(made) == data
    assert get_str(get_field(get_list(made, "choices")[0], "delta"), "reasoning") == "extra"
    assert get_field(made, "nothing") is None


@given(st.recursive(st.text(st.characters()), lambda inner: st.lists(inner) | st.dictionaries(st.just("a"), inner)))
def test_any_value_can_be_encoded_after_replacing_surrogates(value: Any) -> None:
    json.dumps(replace_lone_surrogates(value), ensure_ascii=False).encode()


def test_valid_text_is_sent_unchanged() -> None:
    value = {"a": ["é", 1, None, {"b": "x"}]}

    assert replace_lone_surrogates(value) == value
    assert replace_lone_surrogates("a\ud800b") == "a?b"


@given(st.lists(st.text(st.characters(codec=None), max_size=8), unique=True, max_size=5))
def test_ids_of_calls_stay_different_when_they_are_escaped(ids: list[str]) -> None:
    written = [replace_lone_surrogates({"tool_call_id": each}) for each in ids]

    assert len({json.dumps(each, ensure_ascii=False).encode() for each in written}) == len(ids)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "name", ["openai.chat_completions", "openai.responses_api", "anthropic", "gemini", "bedrock", "mcp"]
)
async def test_results_can_be_sent_whatever_a_tool_wrote(name: str) -> None:
    dialect: Any = import_module(f"spindle.bridges.{name}")
    results = await dialect.results([outcome("c\ud800", Ok("half \ud800", trusted=True), "half \ud800")])

    assert json.dumps(results, ensure_ascii=False, default=repr).encode()


def test_blank_text_is_not_content() -> None:
    assert [has_content(TextPart(text)) for text in ("x", " \n", "")] == [True, False, False]


# --- What an SDK does not know still reaches the server


def create(*, model: str, extra_body: Any = None) -> None:
    del model, extra_body


def test_parameters_unknown_to_the_sdk_go_into_the_body() -> None:
    assert split_request(create, {"model": "m"}) == {"model": "m"}
    assert split_request(create, {"model": "m", "new": 1, "extra_body": {"old": 2}}) == {
        "model": "m",
        "extra_body": {"old": 2, "new": 1},
    }


def test_a_client_wrapper_receives_every_parameter() -> None:
    async def watched(*args: Any, **kwargs: Any) -> None:
        del args, kwargs

    assert split_request(watched, {"model": "m", "new": 1}) == {"model": "m", "new": 1}
