from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.readers import Match, SpoolReader
from spindle.artifacts.tokens import register_counter
from spindle.errors import ArtifactQueryError, InvalidArtifactError, NotASpoolReaderError
from tests.fuzzing import examples

pytestmark = pytest.mark.anyio

TEXT = "zero\none\r\ntwo\n\nfour"


class PlainReader:
    """Somebody's reader: the four methods, and all of them sync."""

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


async def test_head_and_tail_give_ten_lines_unless_told() -> None:
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
async def test_a_pattern_or_a_flag_that_is_no_text_is_an_error(kind: str) -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        await Artifact.from_text("x").grep(**cast("Any", {"pattern": "x", kind: 5}))
    assert caught.value.field == kind


@pytest.mark.parametrize("given", [None, 5, b"bytes"], ids=["none", "number", "bytes"])
def test_what_is_no_text_makes_no_artifact(given: Any) -> None:
    with pytest.raises(InvalidArtifactError):
        Artifact.from_text(given)


@pytest.mark.parametrize("given", [None, 5, "text"], ids=["none", "number", "text"])
def test_what_is_no_bytes_makes_no_artifact(given: Any) -> None:
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
    assert await Artifact.from_text(prose).estimate_tokens() == -(-len(prose) * 2 // 7)
    assert await Artifact.from_text('{"a": 1}').estimate_tokens("o200k_base") == 4
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
