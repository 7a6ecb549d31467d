"""Word diffs: they lose no word, and no hidden character stays hidden."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.mcp.lock import diff_definitions, diff_words, reveal_hidden
from tests.bounds import bounded_cpu

texts = st.text(alphabet=st.sampled_from("ab \n.<U+[]-{}\u200b\U000e0041é"), max_size=30)


@given(texts, texts)
def test_the_pieces_are_both_texts_and_nothing_else(before: str, after: str) -> None:
    pieces = diff_words(before, after)

    old = "".join(piece.text for piece in pieces if piece.type != "added")
    new = "".join(piece.text for piece in pieces if piece.type != "removed")
    # Runs of tags are decoded piece by piece, and marks are broken where a piece ends.
    assert strip(old) == strip(reveal_hidden(before))
    assert strip(new) == strip(reveal_hidden(after))


def strip(text: str) -> str:
    return re.sub(r'<tags "[^"]*">', "", text).replace("<U+003C>", "<")


@given(st.text(max_size=40))
def test_nothing_invisible_is_left(text: str) -> None:
    shown = reveal_hidden(text)

    assert not set(shown) & set("\u200b\u200d\u202e\u2066\ufeff\u00ad\u2028\x00\x1b\r\x7f")
    assert not any(0xE0000 <= ord(each) <= 0xE0FFF for each in shown)
    assert len(re.sub(r"<U\+[0-9A-F]{4,6}>|<tags .*?>", "", shown)) <= len(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, < 3 words", "plain text, < 3 words"),
        ("a\u200bb", "a<U+200B>b"),
        ("\u202eabc", "<U+202E>abc"),
        ("\U000e0068\U000e0069", '<U+E0068><U+E0069><tags "hi">'),
        ("p\u0430ypal", "p\u0430<U+0430>ypal"),
        ("\u0441\u043e\u0440\u0443", "\u0441<U+0441>\u043e<U+043E>\u0440<U+0440>\u0443<U+0443>"),
        ("\uff53\uff45", "\uff53<U+FF53>\uff45<U+FF45>"),
        ("привет мир, déjà vu, 日本語abc", "привет мир, déjà vu, 日本語abc"),
        ("a literal <U+200B>", "a literal <U+003C>U+200B>"),
    ],
)
def test_hidden_and_misleading_characters_have_their_number(text: str, shown: str) -> None:
    assert reveal_hidden(text) == shown


def test_a_definition_is_compared_value_by_value() -> None:
    before = {"name": "a", "description": "Send a mail to x.", "inputSchema": {"default": 1, "enum": ["a"]}}
    after = {"name": "a", "description": "Send a mail\u200b to y.", "inputSchema": {"default": "1", "enum": ["a", "b"]}}

    changes = {change.path: change.to_text() for change in diff_definitions(before, after)}

    assert changes == {
        "description": "Send a mail{+<U+200B>+} to [-x-]{+y+}.",
        "inputSchema.default": '{+"+}1{+"+}',
        "inputSchema.enum[1]": "{+b+}",
    }


def test_a_text_cannot_imitate_the_marks() -> None:
    [change] = diff_definitions({"d": "one"}, {"d": "one {+two+} [-three-]"})

    assert change.to_text() == "one{+ <U+007B>+two+<U+007D> <U+005B>-three-<U+005D>+}"


def test_an_added_and_a_removed_definition_are_shown_whole() -> None:
    assert [each.to_text() for each in diff_definitions(None, {"name": "a", "b.c": {}})] == ["{+a+}", "{+{}+}"]
    assert [each.path for each in diff_definitions({"b.c": {"d": 1}}, None)] == ['"b.c".d']


def test_long_hostile_texts_are_compared_in_bounded_time() -> None:
    before, after = ("a b " * 50_000, "b a " * 50_000)

    with bounded_cpu():
        pieces = diff_words(before, after)

    assert {piece.type for piece in pieces} >= {"removed", "added"}
