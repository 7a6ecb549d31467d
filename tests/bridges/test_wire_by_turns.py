"""Conversations in which user and model speak by turns."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spindle.bridges.rendering import TextPart
from spindle.bridges.transcript import MessageStep
from spindle.bridges.wire import AlternatingMessages, collect_system_texts, has_content

_blocks = st.lists(st.integers().map(lambda number: {"text": str(number)}), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["user", "model"]), _blocks)))
def test_roles_speak_in_turn_the_user_first_and_nothing_is_lost(said: list[tuple[str, list[Any]]]) -> None:
    written = AlternatingMessages("parts")
    for role, blocks in said:
        written.append(role, blocks)

    messages = written.starting_with_user({"text": "hello"})

    assert [each["role"] for each in messages] == [("user", "model")[place % 2] for place in range(len(messages))]
    assert all(each["parts"] for each in messages)
    told = [block for each in messages for block in each["parts"]]
    assert [block for block in told if block != {"text": "hello"}] == [block for _, blocks in said for block in blocks]


def test_what_the_program_says_stands_apart_and_blanks_are_nothing() -> None:
    steps = [
        MessageStep("system", (TextPart("Be kind."),)),
        MessageStep("user", (TextPart("Hi."),)),
        MessageStep("system", (TextPart(" "),)),
    ]

    assert collect_system_texts("Be brief.", steps) == ["Be brief.", "Be kind."]
    assert collect_system_texts("", []) == []
    assert [has_content(TextPart(text)) for text in ("x", " \n", "")] == [True, False, False]
