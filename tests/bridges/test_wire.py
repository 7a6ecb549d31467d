"""Reading what providers send, whatever it is."""

import json
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from spindle import Ok
from spindle.bridges.wire import get_count, get_field, get_list, get_str, is_record, replace_lone_surrogates, to_plain
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
    assert get_str(get_list(made, "choices")[0].delta, "reasoning") == "extra"
    assert get_field(made, "nothing") is None


@given(st.recursive(st.text(st.characters()), lambda inner: st.lists(inner) | st.dictionaries(st.just("a"), inner)))
def test_whatever_is_sent_can_be_written(value: Any) -> None:
    json.dumps(replace_lone_surrogates(value), ensure_ascii=False).encode()


def test_what_can_be_written_is_sent_as_it_is() -> None:
    value = {"a": ["é", 1, None, {"b": "x"}]}

    assert replace_lone_surrogates(value) == value
    assert replace_lone_surrogates("a\ud800b") == "a?b"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "name", ["openai.chat_completions", "openai.responses_api", "anthropic", "gemini", "bedrock", "mcp"]
)
async def test_results_can_be_sent_whatever_a_tool_wrote(name: str) -> None:
    dialect: Any = import_module(f"spindle.bridges.{name}")
    results = await dialect.results([outcome("c\ud800", Ok("half \ud800", trusted=True), "half \ud800")])

    assert json.dumps(results, ensure_ascii=False, default=repr).encode()
