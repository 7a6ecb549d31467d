"""Reading what providers send, whatever it is."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from spindle.bridges.reading import count_of, field_of, is_record, items_of, plain, sendable, text_of
from tests.bridges.chat_wire import chunk

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.sampled_from(["a", "b"]), inner),
    max_leaves=8,
)


@given(ANYTHING)
def test_nothing_makes_reading_fail(value: Any) -> None:
    assert isinstance(text_of(value, "a"), str)
    assert isinstance(items_of(value, "a"), (list, tuple))
    count = count_of(value, "a")
    assert count is None or (type(count) is int and count >= 0)
    assert field_of(value, "index") is None
    assert is_record(value) == isinstance(value, dict)


def test_objects_of_an_sdk_and_their_data_read_alike() -> None:
    data = chunk({"content": "Hi", "reasoning": "extra"})
    made = ChatCompletionChunk.model_validate(data)

    assert plain(made) == data
    assert text_of(items_of(made, "choices")[0].delta, "reasoning") == "extra"
    assert field_of(made, "nothing") is None


@given(st.recursive(st.text(st.characters()), lambda inner: st.lists(inner) | st.dictionaries(st.just("a"), inner)))
def test_whatever_is_sent_can_be_written(value: Any) -> None:
    json.dumps(sendable(value), ensure_ascii=False).encode()


def test_what_can_be_written_is_sent_as_it_is() -> None:
    value = {"a": ["é", 1, None, {"b": "x"}]}

    assert sendable(value) == value
    assert sendable("a\ud800b") == "a?b"
