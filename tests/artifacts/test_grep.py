import re
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spindle.artifacts.grep import (
    DIALECT,
    MAX_LINE_BYTES,
    OVERLAP_BYTES,
    LineSearch,
    compile_pattern,
)
from spindle.artifacts.readers import BLOCK_BYTES, Match, Search, build_line_index
from spindle.errors import ArtifactQueryError
from tests.bounds import bounded_cpu


def search(data: bytes | str, pattern: str, flags: str = "", limit: int | None = None, step: int = 0) -> list[Match]:
    content = data.encode() if isinstance(data, str) else data
    query = Search(pattern=pattern, flags=flags, limit=limit)
    found = LineSearch(query, build_line_index(content), lambda start, end: content[start:end], step_bytes=step)
    while not found.is_done:
        found.advance()
    return found.matches


def numbers(data: bytes | str, pattern: str, flags: str = "") -> list[int]:
    return [match.line for match in search(data, pattern, flags)]


atoms = st.sampled_from(["a", "b", "é", "漢", "😀", ".", "[ab]", "[^a]", "(?:ab|b)", "(a)", r"\d", r"\.", "x", "-"])
repeats = st.sampled_from(["", "*", "+", "?", "{1,2}", "*?", "+?"])
parts = st.tuples(atoms, repeats).map("".join)
bodies = st.lists(parts, max_size=4).map("".join)
patterns = st.one_of(
    bodies,
    bodies.map(lambda body: f"^{body}"),
    bodies.map(lambda body: f"{body}$"),
    bodies.map(lambda body: rf"\A{body}"),
    st.tuples(bodies, bodies).map("|".join),
)
texts = st.lists(
    st.sampled_from(["a", "b", "ab", "\n", "\n\n", "é", "漢", "😀", "1", ".", "\r\n", " "]), max_size=30
).map("".join)


@given(text=texts, pattern=patterns, ignore_case=st.booleans())
@example(text="", pattern="", ignore_case=False)
@example(text="\n", pattern="^$", ignore_case=False)
@example(text="a\n", pattern="$", ignore_case=False)
def test_a_search_equals_pythons_line_by_line(text: str, pattern: str, ignore_case: bool) -> None:
    lines = text.split("\n") if text else []
    compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    expected = [Match(number, line) for number, line in enumerate(lines) if compiled.search(line)]

    assert search(text, pattern, "i" if ignore_case else "") == expected


bad_bytes = st.lists(
    st.sampled_from([b"a", b"b", b"\n", b"\xff", b"\xc3", b"\xa9", b"\xe2\x82", b"\xed\xa0\x80", "é".encode()]),
    max_size=25,
).map(b"".join)


@given(data=bad_bytes, pattern=bodies)
def test_bad_bytes_are_searched_as_what_they_are_shown_as(data: bytes, pattern: str) -> None:
    lines = data.decode("utf-8", "replace").split("\n") if data else []
    expected = [Match(number, line) for number, line in enumerate(lines) if re.search(pattern, line)]

    assert search(data, pattern) == expected


@given(lengths=st.lists(st.sampled_from([0, 1, 7, 1000, BLOCK_BYTES - 1, BLOCK_BYTES, 70_000]), max_size=9))
def test_lines_keep_their_numbers_across_blocks(lengths: list[int]) -> None:
    data = b"\n".join(b"x" * length + b"needle %d" % number for number, length in enumerate(lengths))

    for pattern in ("needle", r"needle \d+$", r"^x*needle", r"needle \d+\z"):
        assert [match.line for match in search(data, pattern, step=BLOCK_BYTES)] == list(range(len(lengths)))


@pytest.mark.parametrize(
    ("data", "pattern", "flags", "expected"),
    [
        ("foo\r\nfoo", "foo$", "", [1]),
        ("foo\r\nfoo", "foo\r?$", "", [0, 1]),
        ("\ufefffoo\nfoo", "^foo", "", [0, 1]),
        (b"\xef\xbb\xbf", "^$", "", [0]),
        ("a\nb", "a\nb", "", []),
        ("a\nb", r"a\sb", "", []),
        ("a\nb", "a.b", "s", []),
        ("a\nb", r"a\Cb", "", []),
        ("a\ncb", "[^x]+b", "", [1]),
        ("xa\nab", "(?-m)^a", "", [1]),
        ("a b\nab", r"\bb", "", [0]),
        ("Ärger\närger", "ärger", "iu", [0, 1]),
        ("a.c\nabc", "a.c", "", [0, 1]),
        ("a.c\nabc", r"\Qa.c", "", [0]),
        ("\ufffd\n?", "\ufffd", "", [0]),
        (b"\xff\n?", "\ufffd", "", [0]),
        ("", "", "", []),
        ("\n", "", "", [0, 1]),
        ("nul\x00x\n\x00", "\x00$", "", [1]),
    ],
)
def test_a_pattern_sees_one_line_at_a_time(data: bytes | str, pattern: str, flags: str, expected: list[int]) -> None:
    assert numbers(data, pattern, flags) == expected


def test_a_pattern_that_kills_others_answers_at_once() -> None:
    # Backtracking would never end; a search without it takes milliseconds.
    with bounded_cpu():
        assert numbers("a" * 100_000, "(a+)+$") == [0]
        assert numbers("a" * 100_000 + "!", "(a+)+$") == []
        assert numbers("a" * 100_000 + "!", "(a|aa)+$|(a|a?)+b$|^(([a-z])+.)+[A-Z]([a-z])+$") == []


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", r"(a)\1", "[", "(", "*", "a)(b", "a{1001}", "(?P<n"]
)
def test_features_that_the_dialect_lacks_are_refused(pattern: str) -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        search("abc", pattern)

    assert caught.value.field == "pattern"


def test_a_pattern_too_large_for_its_memory_is_refused() -> None:
    with pytest.raises(ArtifactQueryError):
        search("abc", r"((\pL{100}){100}){10}")


def test_a_lone_surrogate_in_a_pattern_is_refused() -> None:
    with pytest.raises(ArtifactQueryError):
        search("abc", "\ud800")


@pytest.mark.parametrize("flags", ["g", "x", "ix", "I", " "])
def test_unknown_flags_are_refused(flags: str) -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        search("abc", "a", flags)

    assert caught.value.field == "flags"


@pytest.mark.parametrize("field", ["before", "after", "limit"])
def test_negative_counts_are_refused(field: str) -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        LineSearch(Search(pattern="a", **{field: -1}), build_line_index(b"a"), lambda start, end: b"a"[start:end])  # pyright: ignore[reportArgumentType] - one of three names

    assert caught.value.field == field


def test_a_limit_ends_the_search_early() -> None:
    data = b"hit\n" * 5_000_000
    reads: list[int] = []

    def read(start: int, end: int) -> bytes:
        reads.append(end - start)
        return data[start:end]

    found = LineSearch(Search(pattern="hit", limit=2), build_line_index(data), read)
    found.advance()

    assert found.is_done
    assert [match.line for match in found.matches] == [0, 1]
    assert sum(reads) < 2_000_000
    assert search(data, "hit", limit=0) == []


def test_a_long_line_is_shown_round_its_match() -> None:
    data = b"short\n" + b"x" * 300_000 + b"needle" + b"y" * 200_000 + b"\nend needle"

    first, second = search(data, "needle")

    assert (first.line, second) == (1, Match(2, "end needle"))
    assert "needle" in first.text
    assert first.text.startswith("[… 295904 bytes cut] x")
    assert first.text.endswith("y [138566 bytes cut …]")
    assert len(first.text) < 66_000
    assert (first.column, second.column) == (300_000, None)


def part_of(data: bytes | str, pattern: str, max_line_chars: int) -> Match:
    content = data.encode() if isinstance(data, str) else data
    query = Search(pattern=pattern, max_line_chars=max_line_chars)
    found = LineSearch(query, build_line_index(content), lambda start, end: content[start:end])
    while not found.is_done:
        found.advance()
    (match,) = found.matches
    return match


@pytest.mark.parametrize(
    ("line", "pattern", "text", "column"),
    [
        ("0123456789", "5", "0123456789", None),
        ("é" * 10, "éé$", "é" * 10, None),
        ("0123456789ab", "5", "…23456789ab", 5),
        ("0123456789ab", "0", "0123456789…", 0),
        ("0123456789ab", "b", "…89ab", 11),
        ("é" * 20 + "needle", "needle", "…éééneedle", 20),
        ("é" * 20 + "needle" + "漢" * 9, "n", "…éééneedle漢…", 20),
        (b"\xff" * 20 + b"needle", "n[e]+dle", "…\ufffd\ufffd\ufffdneedle", 20),
    ],
)
def test_part_of_a_long_line_says_where_the_match_is(
    line: bytes | str, pattern: str, text: str, column: int | None
) -> None:
    match = part_of(line, pattern, 10)

    assert (match.text, match.column) == (text, column)


@pytest.mark.slow
@pytest.mark.parametrize("filler", ["x", "é", "漢"])
@pytest.mark.parametrize("place", [11, MAX_LINE_BYTES // 3, MAX_LINE_BYTES, 2 * MAX_LINE_BYTES])
def test_column_of_a_match_is_the_same_in_a_line_searched_in_pieces(filler: str, place: int) -> None:
    line = filler * place + "needle" + filler * 100
    long = line + filler * (MAX_LINE_BYTES + 1)

    match = part_of("first\n" + long, "nee[d]le", 30)

    assert (match.line, match.column) == (1, line.index("needle"))
    assert match.text.startswith("…" + filler * 10 + "needle" + filler)
    assert len(match.text) == 32


@pytest.mark.parametrize("text", ["abab" * 500_000, "ab\n" * 700_000])
def test_step_of_a_complicated_pattern_searches_fewer_bytes(text: str) -> None:
    data = text.encode()
    read: list[int] = []

    def count(pattern: str) -> int:
        search = LineSearch(
            Search(pattern=pattern), build_line_index(data), lambda a, b: read.append(b - a) or data[a:b]
        )
        read.clear()
        search.advance()
        return sum(read)

    assert count("a[ab]c") >= 1_900_000
    assert count("(?:a[ab]{900}|b[ab]{950})c") <= 600_000
    assert numbers(data, "(?:a[ab]{900}|b[ab]{950})c") == []


def test_pattern_longer_than_a_piece_of_a_line_is_searched_to_the_end() -> None:
    pattern = "x" * (MAX_LINE_BYTES + 10)

    assert numbers(b"y" * 20 + pattern.encode() * 2, pattern) == [0]
    assert numbers(b"y" * 3 * MAX_LINE_BYTES, pattern) == []


def test_a_cut_never_splits_a_character() -> None:
    data = ("é" * 100_000 + "needle" + "漢" * 100_000).encode()

    (match,) = search(data, "needle")

    assert "\ufffd" not in match.text


class Repeated:
    """A huge line that is never in memory: `filler` everywhere, but for what stands at some places."""

    def __init__(self, length: int, inserts: dict[int, bytes]) -> None:
        self.length, self.inserts, self.largest = length, inserts, 0

    def read(self, start: int, end: int) -> bytes:
        self.largest = max(self.largest, end - start)
        data = bytearray(b"x") * (end - start)
        for place, insert in self.inserts.items():
            for offset, byte in enumerate(insert):
                if start <= place + offset < end:
                    data[place + offset - start] = byte
        return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "pattern", "is_found"),
    [
        (0, "^needle", True),
        (5, "^needle", False),
        (99_999_994, "needle$", True),
        (50_000_000, "needle$", False),
        (50_000_000, "needle", True),
        (50_000_000, r"n[e]+dle", True),
        (50_000_000, r"\bneedle", False),
        (MAX_LINE_BYTES - 3, "needle", True),
        (MAX_LINE_BYTES - 3, r"n\w+dlex", True),
        (MAX_LINE_BYTES - OVERLAP_BYTES - 2, r"needle", True),
        (MAX_LINE_BYTES - OVERLAP_BYTES, r"^needle|needle$", False),
        (50_000_000, r"\Aneedle|needle\z", False),
    ],
)
def test_a_line_of_100_megabytes_is_searched_in_pieces(place: int, pattern: str, is_found: bool) -> None:
    line = Repeated(100_000_000, {place: b"needle"})
    index = build_line_index(b"")
    index = type(index)(line.length, index.newlines * (-(-line.length // BLOCK_BYTES) + 1))

    found = LineSearch(Search(pattern=pattern), index, line.read)
    while not found.is_done:
        found.advance()

    assert [match.line for match in found.matches] == ([0] if is_found else [])
    assert line.largest <= MAX_LINE_BYTES + 8
    assert all(len(match.text) < 66_000 and "needle" in match.text for match in found.matches)


@pytest.mark.parametrize(("text", "flags", "is_literal"), [
    ("plain text", "", True),
    ("plain text", "msu", True),
    ("plain text", "i", False),
    ("a.b", "", False),
    ("a\nb", "", False),
    ("\ufffd", "", False),
    ("", "", True),
])  # fmt: skip
def test_plain_text_is_looked_for_as_it_is(text: str, flags: str, is_literal: bool) -> None:
    assert compile_pattern(text, flags).is_literal is is_literal


@pytest.mark.parametrize(("text", "is_line_by_line"), [
    (r"\Aa", True),
    (r"a\z", True),
    (r"\C", True),
    ("(?-m)^a", True),
    ("(?i-s:a)", True),
    ("^a$", False),
    ("(?i)a", False),
])  # fmt: skip
def test_a_pattern_that_speaks_of_the_whole_text_sees_single_lines(text: str, is_line_by_line: bool) -> None:
    assert compile_pattern(text).is_line_by_line is is_line_by_line


def test_a_refusal_shows_the_pattern_as_given_and_names_the_dialect() -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        compile_pattern("(?=a)")

    assert "(?m)" not in caught.value.message
    assert DIALECT in caught.value.message


def test_the_engine_is_loaded_by_the_first_search_only() -> None:
    code = "import sys, spindle.artifacts.spool, spindle.artifacts.backends.memory; print('re2' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_compiled_patterns_are_not_hoarded() -> None:
    import re2

    for n in range(50):
        compile_pattern(f"a{n}+")

    assert re2._Regexp._make.cache_info().currsize == 0  # pyright: ignore - no stubs, and no public count
