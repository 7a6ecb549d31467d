import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts import BytesReader, Search
from spindle.artifacts.browsing import SearchLimits, SearchPage, SearchRow, search_page
from spindle.errors import ArtifactQueryError
from tests.bounds import bounded_cpu

pytestmark = pytest.mark.anyio


async def search_all(content: BytesReader, query: Search, limits: SearchLimits) -> list[SearchRow]:
    rows: list[SearchRow] = []
    byte: int | None = 0
    while byte is not None:
        page = await search_page(content, query, start_byte=byte, limits=limits)
        assert page.scanned_to > byte or page.next_byte is None
        rows += page.rows
        byte = page.next_byte
    return rows


@given(
    st.lists(st.text("abé\n", max_size=8), max_size=60).map("\n".join), st.sampled_from(["a", "é+", "^b", "a$", "^$"])
)
async def test_pages_put_together_give_the_hits_of_one_search(text: str, pattern: str) -> None:
    content, query = BytesReader(text), Search(pattern=pattern)
    whole = await content.search(query)
    found = await search_all(content, query, SearchLimits(max_hits=3))
    expected = [(match.line, match.text) for match in whole]
    if text and pattern == "^$" and text.endswith("\n"):
        # A page that is full right before the empty last line has no further byte to begin at.
        assert [(row.line, row.text) for row in found] in (expected, expected[:-1])
    else:
        assert [(row.line, row.text) for row in found] == expected


async def test_a_hit_says_where_it_matched() -> None:
    page = await search_page(BytesReader("one\nthe née dle\n"), Search(pattern="n.*d"))
    (row,) = page.rows
    assert (row.line, row.byte, row.text[row.match_start : row.match_end]) == (1, 8, "née d")
    assert (page.scanned_to, page.next_byte, page.hit_count) == (17, None, 1)


async def test_context_lines_are_listed_once() -> None:
    content = BytesReader("\n".join(f"line {n}" for n in range(20)))
    page = await search_page(content, Search(pattern="line (5|7|15)$", before=1, after=1))
    assert [(row.line, row.is_context) for row in page.rows] == [
        (4, True), (5, False), (6, True), (7, False), (8, True), (14, True), (15, False), (16, True),
    ]  # fmt: skip


async def test_every_match_of_a_long_line_that_is_not_shown_yet_is_a_hit() -> None:
    text = "x" * 3_000_000 + "needle" + "y" * 5_000 + "needle needle" + "é" * 700_000 + "needle"
    page = await search_page(BytesReader(text), Search(pattern="needle"))
    data = text.encode()
    first = data.index(b"needle")
    second = data.index(b"needle", first + 1)
    assert [row.byte for row in page.rows] == [first, second, data.rindex(b"needle")]
    assert all(row.text[row.match_start : row.match_end] == "needle" and row.is_cut_before for row in page.rows)
    assert [row.is_cut_after for row in page.rows] == [True, True, False]


async def test_a_match_across_two_windows_of_a_long_line_is_found() -> None:
    for offset in range((2 << 20) - 8, (2 << 20) + 2, 3):
        text = "x" * offset + "needle" + "x" * 300_000
        page = await search_page(BytesReader(text), Search(pattern="n[e]+dle"))
        assert [row.byte for row in page.rows] == [offset]


async def test_anchors_do_not_match_at_the_borders_of_windows() -> None:
    page = await search_page(BytesReader("x" * (5 << 20)), Search(pattern="^x|x$"))
    assert [row.byte for row in page.rows] == [0, (5 << 20) - 1]


async def test_a_page_ends_after_its_share_and_says_how_far_it_got() -> None:
    content = BytesReader(b"some line\n" * 1_000_000)
    page = await search_page(content, Search(pattern="absent"), limits=SearchLimits(max_bytes=3 << 20))
    assert page.hit_count == 0
    assert page.next_byte == page.scanned_to
    assert 3 << 20 <= page.scanned_to <= 5 << 20


async def test_a_page_begins_nothing_after_its_time() -> None:
    times = iter(range(100))
    content = BytesReader(b"some line\n" * 1_000_000)
    limits = SearchLimits(max_seconds=1.5)
    page = await search_page(content, Search(pattern="absent"), limits=limits, clock=lambda: float(next(times)))
    assert page.next_byte is not None
    assert page.next_byte <= 2 << 20


async def test_invalid_bytes_do_not_move_hits() -> None:
    page = await search_page(BytesReader(b"\xff\xfe\xff caf\xc3\xa9 \xff"), Search(pattern="caf."))
    (row,) = page.rows
    assert (row.byte, row.text[row.match_start : row.match_end]) == (4, "café")


async def test_patterns_of_whole_texts_are_matched_line_by_line() -> None:
    page: SearchPage = await search_page(BytesReader("ab\nb\nab"), Search(pattern=r"\Ab"))
    assert [row.line for row in page.rows] == [1]


async def test_a_hostile_pattern_takes_linear_time() -> None:
    with bounded_cpu(20):
        await search_page(BytesReader("a" * 1_000_000), Search(pattern="(a*)*b"))


async def test_an_unsupported_pattern_is_refused() -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        await search_page(BytesReader("a"), Search(pattern="(?=a)"))
    assert caught.value.field == "pattern"
