from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.grep import search_line_ranges
from spindle.artifacts.line_view import LineView
from spindle.artifacts.queries import Bounds
from spindle.artifacts.readers import Match, Search, SpoolReader
from spindle.artifacts.tokens import register_counter
from spindle.errors import ArtifactQueryError, InvalidArtifactError, NotASpoolReaderError
from tests.fuzzing import examples

pytestmark = pytest.mark.anyio

TEXT = "zero\none\r\ntwo\n\nfour"


class PlainReader:
    """A user's reader: the four methods, and all of them sync."""

    def __init__(self, text: str, missing: frozenset[int] = frozenset()) -> None:
        self.lines, self.text, self.missing = text.split("\n") if text else [], text, missing
        self.asked: list[int] = []
        self.whole_reads = 0

    def line(self, i: int) -> str | None:
        self.asked.append(i)
        return self.lines[i] if 0 <= i < len(self.lines) and i not in self.missing else None

    def byte_length(self) -> int:
        return len(self.text.encode())

    def line_count(self) -> int:
        return len(self.lines)

    def read_all(self) -> Any:
        self.whole_reads += 1
        return self.text


def over_plain(text: str, **options: Any) -> tuple[Artifact, PlainReader]:
    reader = PlainReader(text, **options)
    return Artifact(cast("SpoolReader", reader)), reader


@pytest.fixture(params=["indexed", "plain"])
def artifact(request: pytest.FixtureRequest) -> Artifact:
    return Artifact.from_text(TEXT) if request.param == "indexed" else over_plain(TEXT)[0]


@pytest.mark.parametrize("reader", [None, object(), "text", b"", [], {"line": 1}])
def test_a_wrong_shape_is_refused(reader: Any) -> None:
    with pytest.raises(NotASpoolReaderError) as caught:
        Artifact(reader)

    assert caught.value.field == "reader"
    assert caught.value.code == "E_NOT_A_SPOOL_READER"


@pytest.mark.parametrize(
    ("n", "lines"), [(2, ["zero", "one\r"]), (0, []), (-3, []), (99, ["zero", "one\r", "two", "", "four"])]
)
async def test_head_gives_the_first_lines(artifact: Artifact, n: int, lines: list[str]) -> None:
    assert await artifact.head(n) == lines


@pytest.mark.parametrize("n", [-1, 0, 1, 2, 5, 99])
async def test_tail_gives_the_last_lines_in_order(artifact: Artifact, n: int) -> None:
    assert await artifact.tail(n) == (["zero", "one\r", "two", "", "four"][-n:] if n > 0 else [])


@pytest.mark.parametrize(
    ("start", "end", "lines"),
    [
        (None, None, ["zero", "one\r", "two", "", "four"]),
        (1, 3, ["one\r", "two"]),
        (-5, 1, ["zero"]),
        (3, 99, ["", "four"]),
        (2, 2, []),
        (3, 1, []),
        (0, -1, []),
        (9, None, []),
    ],
)
async def test_cat_is_half_open_and_clamped(
    artifact: Artifact, start: int | None, end: int | None, lines: list[str]
) -> None:
    assert await artifact.cat(start, end) == lines


async def test_head_and_tail_return_ten_lines_by_default() -> None:
    artifact = Artifact.from_text("\n".join(map(str, range(30))))

    assert await artifact.head() == [str(n) for n in range(10)]
    assert await artifact.tail() == [str(n) for n in range(20, 30)]


async def test_grep_gives_numbered_lines(artifact: Artifact) -> None:
    assert await artifact.grep("o$") == [Match(0, "zero"), Match(2, "two")]
    assert await artifact.grep("^$") == [Match(3, "")]
    assert await artifact.grep("ZERO", "i") == [Match(0, "zero")]
    assert await artifact.grep("nowhere") == []


async def test_grep_stops_at_its_limit_and_adds_context(artifact: Artifact) -> None:
    assert await artifact.grep("o", limit=1) == [Match(0, "zero")]
    found = await artifact.grep("two", before=1, after=1)
    assert found == [Match(1, "one\r"), Match(2, "two"), Match(3, "")]
    assert [match.is_context for match in found] == [True, False, True]


@pytest.mark.parametrize(("pattern", "flags"), [("(", ""), (r"(?=a)", ""), (r"(a)\1", ""), ("a", "x")])
async def test_a_pattern_outside_the_dialect_is_an_error(artifact: Artifact, pattern: str, flags: str) -> None:
    with pytest.raises(ArtifactQueryError):
        await artifact.grep(pattern, flags)


@pytest.mark.parametrize("kind", ["pattern", "flags"])
async def test_a_pattern_or_a_flag_that_is_not_text_is_an_error(kind: str) -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        await Artifact.from_text("x").grep(**cast("Any", {"pattern": "x", kind: 5}))
    assert caught.value.field == kind


@pytest.mark.parametrize("given", [None, 5, b"bytes"], ids=["none", "number", "bytes"])
def test_a_value_that_is_not_text_makes_no_artifact(given: Any) -> None:
    with pytest.raises(InvalidArtifactError):
        Artifact.from_text(given)


@pytest.mark.parametrize("given", [None, 5, "text"], ids=["none", "number", "text"])
def test_a_value_that_is_not_bytes_makes_no_artifact(given: Any) -> None:
    with pytest.raises(InvalidArtifactError):
        Artifact.from_bytes(given)


async def test_a_bad_pattern_is_an_error_even_where_nothing_is_to_be_found() -> None:
    for empty in (Artifact.from_text(""), over_plain("")[0]):
        with pytest.raises(ArtifactQueryError):
            await empty.grep("(")


async def test_a_pattern_made_to_explode_answers_at_once() -> None:
    artifact = over_plain("a" * 100_000 + "b")[0]

    assert await artifact.grep("(a+)+$") == []


async def test_lengths_and_whole_content(artifact: Artifact) -> None:
    assert await artifact.byte_length() == len(TEXT)
    assert await artifact.line_count() == 5
    assert await artifact.as_text() == TEXT
    assert await artifact.as_bytes() == TEXT.encode()


async def test_bytes_stay_as_they_are_while_text_is_decoded() -> None:
    artifact = Artifact.from_bytes(b"\xef\xbb\xbfa\xff\nb")

    assert await artifact.as_bytes() == b"\xef\xbb\xbfa\xff\nb"
    assert await artifact.as_text() == "a\ufffd\nb"
    assert await artifact.head(1) == ["a\ufffd"]
    assert await artifact.byte_length() == 7


async def test_a_trailing_newline_ends_in_an_empty_line_and_nothing_has_no_lines() -> None:
    assert await Artifact.from_text("a\n").cat() == ["a", ""]
    empty = Artifact.from_text("")
    assert (await empty.line_count(), await empty.byte_length(), await empty.head(), await empty.tail()) == (
        0,
        0,
        [],
        [],
    )


async def test_a_line_the_reader_misses_is_skipped() -> None:
    artifact, _ = over_plain("a\nb\nc", missing=frozenset({1}))

    assert await artifact.cat() == ["a", "c"]


async def test_a_plain_reader_is_asked_for_no_more_than_is_given() -> None:
    artifact, reader = over_plain("\n".join(map(str, range(100_000))))

    await artifact.head(3)
    await artifact.tail(3)
    await artifact.cat(50_000, 50_003)
    assert sorted(reader.asked) == [0, 1, 2, 50_000, 50_001, 50_002, 99_997, 99_998, 99_999]

    await artifact.grep("77777", limit=1)
    await artifact.estimate_tokens()
    assert reader.whole_reads == 0


@settings(max_examples=examples(60), deadline=None)
@given(st.text(alphabet="ab\n", max_size=60), st.integers(0, 2), st.integers(0, 2), st.none() | st.integers(1, 3))
async def test_a_plain_reader_is_searched_as_an_indexed_one(
    text: str, before: int, after: int, limit: int | None
) -> None:
    plain, indexed = over_plain(text)[0], Artifact.from_text(text)

    for pattern in ("a", "^$", "b+a"):
        found = await plain.grep(pattern, before=before, after=after, limit=limit)
        assert found == await indexed.grep(pattern, before=before, after=after, limit=limit)


async def test_tokens_are_estimated_offline() -> None:
    prose = "The wheel turns and the thread is wound upon the spindle. " * 50
    true_count = 601  # as o200k counts it
    assert 0.85 * true_count <= await Artifact.from_text(prose).estimate_tokens() <= 1.15 * true_count
    assert 3 <= await Artifact.from_text('{"a": 1}').estimate_tokens("o200k_base") <= 7
    assert await Artifact.from_text("").estimate_tokens() == 0


async def test_a_registered_counter_counts_the_whole_text() -> None:
    undo = register_counter("characters", len)
    try:
        assert await Artifact.from_text(TEXT).estimate_tokens("characters") == len(TEXT)
    finally:
        undo()
    with pytest.raises(ArtifactQueryError):
        await Artifact.from_text(TEXT).estimate_tokens("characters")


async def test_an_artifact_is_known_by_its_class() -> None:
    class Artifact2(Artifact):
        pass

    assert Artifact.is_artifact(Artifact2.from_text("x"))
    assert not Artifact.is_artifact("x")
    assert not Artifact.is_artifact(Artifact)
    assert not Artifact.is_artifact(type("Artifact", (), {})())


@pytest.mark.parametrize(
    "data", [b"", b"\xef\xbb\xbf", "äöü 😀\n".encode() * 200_000, b"\xff\xfe" * 700_001, b"\xef\xbb"]
)
async def test_characters_are_counted_as_the_text_has_them(data: bytes) -> None:
    artifact = Artifact.from_bytes(data)

    assert await artifact.char_count() == len(await artifact.as_text())


LINES = ["a", "", "b a", "c", "a"]


async def search(wanted: Search, *, step: int) -> tuple[list[Match], list[int]]:
    read: list[int] = []

    async def read_lines(start: int, end: int) -> list[str]:
        read.extend(range(start, end))
        return LINES[start:end]

    ranges = [range(at, min(at + step, len(LINES))) for at in range(0, len(LINES), step)]
    return await search_line_ranges(wanted, ranges, read_lines, len(LINES)), read


@pytest.mark.parametrize("step", [1, 2, 3, 5])
async def test_matches_do_not_depend_on_where_blocks_end(step: int) -> None:
    assert (await search(Search(pattern="a"), step=step))[0] == [Match(0, "a"), Match(2, "b a"), Match(4, "a")]
    assert (await search(Search(pattern="^$"), step=step))[0] == [Match(1, "")]
    found, _ = await search(Search(pattern="c", before=2, after=1), step=step)
    assert found == [Match(1, ""), Match(2, "b a"), Match(3, "c"), Match(4, "a")]


async def test_enough_is_enough() -> None:
    found, read = await search(Search(pattern="a", limit=1), step=1)

    assert found == [Match(0, "a")]
    assert read == [0]


async def test_a_bad_pattern_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ArtifactQueryError):
        await search(Search(pattern="("), step=1)


def test_repr_shows_the_size() -> None:
    assert repr(Artifact.from_text("line\n" * 1_000)) == "<Artifact of 5,000 bytes, 1,001 lines>"
    assert repr(over_plain("text")[0]) == "<Artifact of PlainReader, size unknown>"


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        ((0, None, 1, 3), ["bc"]),
        ((1, None, 1, None), ["é漢😀"]),
        ((0, 3, 0, 2), ["ab", "xé", ""]),
        ((0, 9, 3, 99), ["d", "😀", ""]),
        ((1, 2, 9, 3), [""]),
        ((1, 2, 3, 1), [""]),
        ((0, 1, -5, 1), ["a"]),
        ((0, 1, 0, -1), [""]),
        ((3, None, 0, 1), []),
        ((None, None, None, 2), ["ab"]),
    ],
)
async def test_cat_returns_a_range_of_characters(args: tuple[int | None, ...], parts: list[str]) -> None:
    text = "\ufeffabcd\nxé漢😀\n"

    assert await Artifact.from_text(text).cat(*args) == parts
    assert await over_plain(text.removeprefix("\ufeff"))[0].cat(*args) == parts


async def test_reader_without_methods_for_long_lines_is_shown_in_part_too() -> None:
    long = "x" * 5_000 + "needle" + "y" * 5_000
    view = LineView(over_plain(f"{long}\n{long}")[0], Bounds(max_line_chars=100))

    (first,) = await view.head(1)
    assert first == f"{'x' * 50} [… 9931 bytes left out; artifact_cat start=0, start_char=50 reads on …] {'y' * 25}"
    assert await view.tail(1) == [first.replace("start=0", "start=1")]
    match, context = await view.grep(pattern="needle", after=1, limit=1)
    assert (match.line, match.column, match.text) == (0, 5_000, "…xxxxxxxxneedleyyyyyyyyyyy…")
    assert (context.line, context.is_context, context.text[:13]) == (1, True, "xxxxxxxxxxxx ")
