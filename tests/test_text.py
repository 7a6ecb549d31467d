from difflib import get_close_matches
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.text import (
    NameIndex,
    did_you_mean,
    escape_surrogates,
    extend_pointer,
    find_similar,
    join_options,
    new_id,
    quote_name,
    shorten,
    shorten_middle,
    to_encodable,
    to_line,
    to_printable,
    unescape_surrogates,
)

NAMES = ["customer_name", "limit", "offset"]


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_shorten_keeps_short_text_and_bounds_long_text(text: str, max_chars: int) -> None:
    for short in (shorten(text, max_chars), shorten_middle(text, max_chars)):
        assert len(short) <= max_chars
        assert (short == text) == (len(text) <= max_chars) or "…" in text


def test_shorten_keeps_the_beginning_and_shorten_middle_both_ends() -> None:
    assert shorten("abcdefgh", 5) == "abcd…"
    assert shorten_middle("abcdefgh", 5) == "ab…gh"
    assert shorten_middle("abcdefgh", 4) == "ab…h"
    assert shorten_middle("abcdefgh", 2) == "a…"
    assert shorten("abc", 1) == shorten_middle("abc", 1) == "…"


def test_to_line_collapses_white_space() -> None:
    assert to_line(" a\n\t b\u2028c ") == "a b c"


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_to_printable_is_printable_and_bounded(text: str, max_chars: int) -> None:
    shown = to_printable(text, max_chars)

    assert shown.isprintable()
    assert len(shown) <= max_chars * 10


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_to_encodable_replaces_lone_surrogates_only(text: str) -> None:
    encodable = to_encodable(text)

    encodable.encode()
    assert encodable == "".join("?" if "\ud800" <= char <= "\udfff" else char for char in text)


def test_quote_name_shortens_and_escapes() -> None:
    assert quote_name("a\x1bb") == r"'a\x1bb'"
    assert len(quote_name("x" * 1_000)) == 62


def test_join_options_enumerates_up_to_a_limit() -> None:
    assert join_options([]) == ""
    assert join_options(["a"]) == "a"
    assert join_options(["a", "b", "c"]) == "a, b or c"
    assert join_options(map(str, range(100)), limit=2) == "0, 1 or 98 others"


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("limt", ["limit"]),
        ("LIMIT", ["limit"]),
        ("customerName", ["customer_name"]),
        ("zzz", []),
        ("", []),
        (None, []),
    ],
)
def test_find_similar_ignores_case_and_separators(word: object, found: list[str]) -> None:
    assert find_similar(word, NAMES) == found


def test_find_similar_returns_several_or_the_one_that_differs_only_in_form() -> None:
    options = ["read_file", "read_files", "send_mail"]

    assert find_similar("read_fil", options, count=3) == ["read_file", "read_files"]
    assert find_similar("readFiles", options, count=3) == ["read_files"]


def test_find_similar_is_bounded() -> None:
    assert find_similar("x" * 100_000, ["x" * 100_000]) == []
    assert find_similar("ab", (f"option{i}" for i in range(10**9))) == []


@pytest.mark.slow
@pytest.mark.parametrize(("count", "short"), [(1, ["ab", "cat", "date", "go", "ls"]), (3, [])])
def test_among_many_names_the_same_are_suggested_as_by_comparing_all(count: int, short: list[str]) -> None:
    words = ["account", "branch", "commit", "file", "issue", "label", "order", "release", "ticket", "user"]
    names = [f"{verb}{word}" for verb in ("create", "delete", "find", "get", "list", "update") for word in words]
    names += [f"{name}s" for name in names] + short
    index = NameIndex(names)

    assert len(names) > 100
    for name in names[::7] + short:
        half = len(name) // 2
        for wrong in (
            name[1:],
            name[:-1],
            f"{name}x",
            f"{name[:half]}{name[half + 1 :]}",
            f"{name[:half]}zz{name[half:]}",
        ):
            expected = [wrong] if wrong in names else get_close_matches(wrong, names, n=count)
            assert index.find(wrong, count=count) == expected


def test_did_you_mean_asks_or_falls_back() -> None:
    assert did_you_mean("limt", NAMES) == "did you mean 'limit'?"
    assert did_you_mean("read_fil", ["read_file", "read_files"], count=3) == "did you mean 'read_file' or 'read_files'?"
    assert did_you_mean("zzz", NAMES, "see the list") == "see the list"
    assert did_you_mean("zzz", NAMES) == ""


def test_extend_pointer_escapes_its_steps() -> None:
    assert extend_pointer("/a", "b/c", "d~e", 0) == "/a/b~1c/d~0e/0"


def test_ids_are_uuids_in_order_of_time() -> None:
    ids = [new_id() for _ in range(100)]

    assert {UUID(made).version for made in ids} == {7}
    assert {UUID(made).variant for made in ids} == {UUID(int=0b10 << 62).variant}
    assert len(set(ids)) == 100
    assert [made[:18] for made in ids] == sorted(made[:18] for made in ids)


@given(st.text(st.characters(codec=None), max_size=20) | st.just("escaped:a\ud800"))
def test_an_id_with_lone_surrogates_is_escaped_reversibly(text: str) -> None:
    escaped = escape_surrogates(text)

    escaped.encode()
    assert unescape_surrogates(escaped) == text
